// What hashes and checksums are computed of: structs within lists, truth
// values, varbits, invalid headers, payload. bmv2 does not load the first two;
// EQUIVALENT says the same without them.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<16> r2;
    bit<32> r3;
    bit<16> sum;
}

header v_t {
    bit<8> l;
    varbit<64> v;
    bit<4> a;
    bit<4> b;
}

header g_t {
    bit<12> a;
    bit<4> b;
}

struct in_t {
    bit<3> a;
    bit<5> b;
}

struct headers {
    h_t h;
    v_t v;
    g_t g;
    g_t[2] st;
}

struct meta {
    bit<2> x;
    bool b;
    in_t inn;
}
#ifdef EQUIVALENT
#define STRUCT m.inn.a, m.inn.b
#define TRUTH (bit<1>) m.b
#define VALID (bit<1>) h.g.isValid()
#else
#define STRUCT m.inn
#define TRUTH m.b
#define VALID h.g.isValid()
#endif

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        m.inn.b = 9;
        m.b = h.h.i[1:1] == 1;
        p.extract(h.v, (bit<32>)(p.lookahead<bit<8>>()[2:0]) * 8);
        transition select(h.h.i[0:0]) {
            1: more;
            default: accept;
        }
    }
    state more {
        p.extract(h.g);
        p.extract(h.st.next);
        transition accept;
    }
}
#define UPDATE update_checksum_with_payload(h.v.isValid(), { h.h.i, h.v.v, h.h.r1, 8w7 }, h.h.sum, HashAlgorithm.csum16);

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        hash(h.h.r2, HashAlgorithm.crc16, 16w0, { h.h.i, h.v.v, h.g, h.st[0], STRUCT, h.v.a }, 32w65536);
        hash(h.h.r3, HashAlgorithm.crc32, 16w0, { VALID, TRUTH, 6w1, h.st[1].a, 4w5, h.v.v }, 64w0x100000000);
        hash(h.h.r1, HashAlgorithm.xor16, 16w0, { TRUTH, h.v.v }, 16w256);
        s.egress_spec = 1;
    }
}
#include "rest.p4"
