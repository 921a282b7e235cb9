// Headers with varbits.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<8> r2;
    bit<8> r3;
}

header v_t {
    bit<8> l;
    varbit<64> v;
    bit<8> t;
}

header o_t {
    varbit<120> only;
}

header w_t {
    bit<4> x;
    bit<4> y;
    varbit<2048> v;
}

struct headers {
    h_t h;
    v_t a;
    v_t b;
    o_t o;
    w_t w;
    v_t[2] st;
}

struct meta {
    bit<2> x;
    bool b;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(h.a, (bit<32>)(p.lookahead<bit<8>>()[3:0]) * 8);
        p.extract(h.b, 16);
        p.extract(h.o, (bit<32>) (h.h.i[1:0]) << 3);
        p.extract(h.w, (bit<32>) h.a.l & 0x18);
        p.extract(h.st.next, (bit<32>) h.h.r1);
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        if (h.h.i == 0) {
            h.a.v = h.b.v;
        } else if (h.h.i == 1) {
            h.b.v = h.a.v;
            h.a.setInvalid();
        } else if (h.h.i == 2) {
            v_t t = h.a;
            h.a = h.b;
            h.b = t;
        } else if (h.h.i == 3) {
            h.st.push_front(1);
            h.st[0] = h.a;
        } else if (h.h.i == 5) {
            h.w.setInvalid();
            h.w.setValid();
        } else if (h.h.i == 7) {
            h.st[1] = h.st[0];
            h.st[1].v = h.a.v;
        } else if (h.h.i == 0x10) {
            h.o.setInvalid();
        }
        if (h.a.isValid() && h.b.isValid() && h.a.v == h.b.v) {
            h.h.r2 = 1;
        } else {
            h.h.r2 = 2;
        }
        if (h.a.isValid() && h.b.isValid() && h.a == h.b) {
            h.h.r3 = 1;
        }
        h.h.r1 = (bit<8>) (s.parser_error == error.NoError ? 8w1 : (s.parser_error == error.PacketTooShort ? 8w2 : (s.parser_error == error.HeaderTooShort ? 8w3 : (s.parser_error == error.ParserInvalidArgument ? 8w4 : (s.parser_error == error.StackOutOfBounds ? 8w5 : 8w6)))));
        s.egress_spec = 1;
    }
}
#include "rest.p4"
