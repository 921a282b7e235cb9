// Checksums over parts of headers, constants, metadata and payload.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<16> c1;
    bit<16> c2;
    bit<4> a;
    bit<12> b;
    int<16> si;
    bit<7> o;
    bit<1> p;
    bit<32> c3;
}

struct hh {
    bit<4> x;
    bit<4> y;
}

struct headers {
    h_t h;
    h_t[2] st;
}

struct meta {
    bit<8> x;
    bool b;
    hh q;
    bit<16> part;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(h.st.next);
        m.b = h.h.i[0:0] == 1;
        m.q = { 3, 4 };
        m.part = h.h.c1;
        transition select(h.h.i) {
            0 .. 5: more;
            default: accept;
        }
    }
    state more {
        p.extract(h.st.next);
        transition accept;
    }
}
#define VERIFY verify_checksum(m.b, { h.h.a, h.h.b, h.h.si, 16w0xffff, 4w2, h.h.o }, h.h.c1, HashAlgorithm.csum16); verify_checksum(true, { m.part, h.st[0].c1 }, h.st[0].c2, HashAlgorithm.csum16);
#define UPDATE update_checksum(m.b, { h.h.a, h.h.b, h.h.si, h.st[0].a, h.st[0].b }, h.st[0].c1, HashAlgorithm.csum16); update_checksum_with_payload(!m.b, { h.h.o, h.h.p, h.st[1].c3 }, h.h.c2, HashAlgorithm.csum16); update_checksum(h.st[1].isValid() && h.h.i > 2, { h.h.a, h.h.b }, m.part, HashAlgorithm.crc16); update_checksum(h.h.si < 0, { m.part, m.q.x, m.q.y, h.h.r1 }, h.h.c3, HashAlgorithm.crc32_custom); update_checksum(true, { h.h.a }, h.st[1].c3, HashAlgorithm.xor16);

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        h.h.r1 = (bit<8>) s.checksum_error;
        s.egress_spec = 1;
    }
}
#include "rest.p4"
