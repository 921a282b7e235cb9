// Headers that are only in the program's metadata: extracted, hashed,
// copied.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<16> r2;
    bit<32> r3;
}

header o_t {
    bit<8> x;
    bit<4> y;
    bit<12> z;
}

header v_t {
    bit<8> l;
    varbit<64> v;
}

struct headers {
    h_t h;
    v_t w;
}

struct meta {
    o_t one;
    o_t[2] st;
    v_t v;
    @field_list(1) bit<8> seen;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(m.one);
        p.extract(m.v, (bit<32>) (h.h.i[2:0]) << 3);
        transition select(m.one.y) {
            0 .. 7: st;
            default: accept;
        }
    }
    state st {
        p.extract(m.st.next);
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.instance_type == 6) {
            h.h.r1 = m.seen;
        } else {
            if (m.one.isValid()) {
                h.h.r1 = m.one.x;
                hash(h.h.r2, HashAlgorithm.crc16, 16w0, { m.one }, 32w65536);
            }
            if (m.st[0].isValid()) {
                hash(h.h.r3, HashAlgorithm.crc32, 16w0, { m.st[0], m.one.z }, 64w0x100000000);
            }
            if (m.v.isValid()) {
                h.w = m.v;
            }
            if (h.h.i[7:7] == 1) {
                m.seen = 0x77;
                resubmit_preserving_field_list(1);
            }
        }
    }
}
#include "rest.p4"
