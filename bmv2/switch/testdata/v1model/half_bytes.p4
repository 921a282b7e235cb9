// Varbits of half bytes and in the program's metadata, and a header chosen
// by a condition: p4c compiles them, bmv2 does not load them.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r;
}

header n_t {
    bit<4> len;
    varbit<60> opt;
}

header v_t {
    bit<8> l;
    varbit<32> v;
}

struct headers {
    h_t h;
    n_t n;
    v_t v;
    v_t w;
}

struct meta {
    varbit<32> kept;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(h.n, (bit<32>) p.lookahead<bit<4>>() * 8 + 4);
        transition select(h.h.i) {
            2 .. 3: variable;
            default: accept;
        }
    }
    state variable {
        p.extract(h.v, 16);
        m.kept = h.v.v;
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.h.i == 1) {
            h.n.len = h.n.len + 1;
        } else if (h.h.i == 2) {
            h.w.setValid();
            h.w.l = 9;
            h.w.v = m.kept;
        } else if (h.h.i == 4) {
            h.n.setInvalid();
        }
        if ((h.h.i == 2 ? h.w : h.v).isValid()) {
            h.h.r = 1;
        } else {
            h.h.r = 2;
        }
    }
}
#include "rest.p4"
