// Resubmit, recirculate and clones, and the metadata that they keep.
#include "first.p4"
#define OWN_EGRESS
header h_t {
    bit<8> i;
    bit<8> k;
    bit<8> r1;
    bit<8> r2;
    bit<32> r3;
    bit<16> r4;
}

struct sub_t {
    @field_list(1,2) bit<8> u;
    @field_list(3) bool v;
}

struct headers {
    h_t h;
}

struct meta {
    @field_list(1) bit<8> x;
    @field_list(2) bool b;
    @field_list(1, 2) bit<70> w;
    sub_t sub;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (s.instance_type == 6) {
            h.h.r1 = m.x;
            h.h.r2 = m.w[69:62] ^ m.sub.u;
            h.h.r4 = (bit<16>) s.packet_length;
            if (m.b) {
                h.h.r3 = 0xbb;
            }
        } else if (s.instance_type == 4) {
            h.h.r1 = m.x + 1;
            h.h.r2 = m.w[69:62];
            if (m.sub.v) {
                h.h.r3 = 0xcc;
            }
        } else {
            m.x = h.h.k;
            m.b = true;
            m.w = 70w0x3fffffffff00000000 + (bit<70>) h.h.k;
            m.sub.u = 3;
            m.sub.v = true;
            if (h.h.i == 0) {
                resubmit_preserving_field_list(1);
            }
            if (h.h.i == 1) {
                resubmit_preserving_field_list(2);
            }
            if (h.h.i == 2) {
                resubmit_preserving_field_list(9);
            }
            if (h.h.i == 7) {
                truncate(40);
            }
        }
    }
}

control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 0) {
            if (h.h.i == 3) {
                recirculate_preserving_field_list(1);
            }
            if (h.h.i == 5) {
                recirculate_preserving_field_list(3);
            }
            if (h.h.i == 0x10) {
                h.h.k = 0x5a;
                clone(CloneType.E2E, 5);
                truncate(50);
            }
            if (h.h.i == 0x20) {
                clone_preserving_field_list(CloneType.E2E, (bit<32>) h.h.k, 2);
            }
            if (h.h.i == 0x80) mark_to_drop(s);
        }
    }
}
#include "rest.p4"
