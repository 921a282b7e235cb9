// Errors of the parser, lookahead of structs, advance, nested parsers.
#include "first.p4"
error { Mine, Other }
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<16> r2;
}

header x_t {
    bit<8> v;
}

header y_t {
    bit<16> a;
    bit<3> b;
    bit<5> c;
}

struct look_t {
    bit<3> a;
    bit<5> b;
    bit<16> c;
    y_t h;
}

struct headers {
    h_t h;
    x_t[2] st;
    y_t y;
}

struct meta {
    bit<8> x;
    look_t l;
    y_t ly;
    bit<70> w;
    int<9> si;
    error e;
    bool bb;
}

parser Sub(packet_in p, inout meta m, out y_t y) {
    state start {
        m.l = p.lookahead<look_t>();
        transition select(m.l.a) {
            0: accept;
            1: ext;
            2: reject;
            default: accept;
        }
    }
    state ext {
        p.extract(y);
        verify(y.b != 7, error.Other);
        transition accept;
    }
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    Sub() sub;
    state start {
        p.extract(h.h);
        m.e = error.NoError;
        verify(h.h.i != 0x10, error.Mine);
        verify(h.h.i != 0x20, error.NoMatch);
        m.bb = h.h.i == 0x80;
        verify(!m.bb, m.bb ? error.HeaderTooShort : error.Mine);
        transition select(h.h.i) {
            0: a;
            1: b;
            2: c;
            3: d;
            5: e;
            7: f;
            default: accept;
        }
    }
    state a {
        p.advance((bit<32>) h.h.r1 << 3);
        transition rest;
    }
    state b {
        p.advance((bit<32>) h.h.r1);
        transition rest;
    }
    state c {
        m.w = p.lookahead<bit<70>>();
        m.si = p.lookahead<int<9>>();
        transition rest;
    }
    state d {
        sub.apply(p, m, h.y);
        transition rest;
    }
    state e {
        m.ly = p.lookahead<y_t>();
        transition select(m.ly.b) {
            0: reject;
            default: rest;
        }
    }
    state f {
        p.extract(h.st.next);
        transition select(h.st.last.v) {
            0..3: f;
            5: c;
            default: rest;
        }
    }
    state rest {
        p.extract<y_t>(_);
        p.extract(h.st[1]);
        transition select(p.lookahead<look_t>().b) {
            0x1f: reject;
            default: accept;
        }
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action e(bit<8> v) {
        h.h.r1 = v;
    }
    apply {
        if (s.parser_error == error.NoError) e(0xc0);
        else if (s.parser_error == error.PacketTooShort) e(0xc1);
        else if (s.parser_error == error.NoMatch) e(0xc2);
        else if (s.parser_error == error.StackOutOfBounds) e(0xc3);
        else if (s.parser_error == error.HeaderTooShort) e(0xc4);
        else if (s.parser_error == error.ParserTimeout) e(0xc5);
        else if (s.parser_error == error.ParserInvalidArgument) e(0xc6);
        else if (s.parser_error == error.Mine) e(0xc7);
        else e(0xc8);
        h.h.r2 = (bit<16>) m.w[69:54] ^ (bit<16>) (int<16>) m.si ^ m.l.c;
        if (m.ly.isValid()) {
            h.h.i = h.h.i + 1;
            h.h.r2 = h.h.r2 ^ (bit<16>) m.ly.c;
        }
        s.egress_spec = 1;
        if (s.parser_error != error.NoError) {
            h.h.i = 0xff;
        }
    }
}
#include "rest.p4"
