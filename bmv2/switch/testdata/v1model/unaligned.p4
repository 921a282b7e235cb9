// Headers with varbits that do not begin at a byte.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> k;
    bit<8> r1;
    bit<8> r2;
    bit<32> r3;
    bit<16> r4;
}

header vo_t {
    bit<4> len;
    varbit<64> opt;
    bit<4> q;
}

header vp_t {
    bit<3> a;
    bit<1> b;
    varbit<48> opt;
    bit<5> c;
    bit<7> d;
}

struct headers {
    h_t h;
    vo_t v;
    vp_t w;
}

struct meta {
    bit<8> a;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(h.v, (bit<32>) (p.lookahead<bit<4>>()) * 8);
        transition select(h.h.k) {
            0 &&& 1: w;
            default: accept;
        }
    }
    state w {
        p.extract(h.w, (bit<32>) h.h.r1 & 0x3f);
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.v.isValid()) {
            h.v.len = h.v.len + 1;
            h.v.q = h.v.q + 3;
        }
        if (h.w.isValid()) {
            h.w.c = h.w.c ^ 5;
            h.w.d = 3;
            h.w.b = ~h.w.b;
            h.h.r3 = 5;
        }
        if (h.h.i == 1) h.v.setInvalid();
        if (s.parser_error != error.NoError) {
            h.h.r2 = 0xee;
        }
        if (s.parser_error == error.HeaderTooShort) {
            h.h.r2 = 0xed;
        }
        if (s.parser_error == error.ParserInvalidArgument) h.h.r2 = 0xec;
    }
}
#include "rest.p4"
