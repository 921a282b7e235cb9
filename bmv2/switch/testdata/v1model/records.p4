// Structs, tuples, enumerations and headers as values.
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

header e_t {}
@controller_header("packet_in") header pin_t {
    bit<9> p;
    bit<7> x;
}
enum bit<4> se { A = 3, B = 9 }
enum plain { X, Y, Z }
type bit<9> port_t;
typedef bit<8> byte_t;
struct pair_t {
    bit<8> a;
    bit<8> b;
}

struct headers {
    h_t h;
    e_t e;
    pin_t pin;
}

struct meta {
    bool b;
    plain pl;
    se s;
    tuple<bit<8>, bool> t;
    pair_t pr;
    port_t pt;
    h_t[2] hs;
    error er;
}
bit<8> f(in bit<8> a, out bit<8> b) {
    b = a + 1;
    if (a == 5) return 9;
    return a ^ 3;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        h.e.setInvalid();
        m.pl = plain.Y;
        m.hs[0].setValid();
        m.hs[0].i = 8;
        m.er = s.parser_error;
        transition select(m.b, h.h.isValid()) {
            (true, _): x;
            (false, true): y;
            default: accept;
        }
    }
    state x {
        transition accept;
    }
    state y {
        m.b = true;
        m.s = se.A;
        p.extract(h.e);
        transition select(h.h.i, h.h.k) {
            (5 .. 9, _): x;
            default: z;
        }
    }
    state z {
        h.h.r4 = 1;
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action set(bit<8> v, bit<1> b, se e, port_t q) {
        h.h.r2 = v;
        m.b = (bool) b;
        m.s = e;
        m.pt = q;
    }
    action nop2(inout bit<8> x, bit<8> y) {
        x = y;
    }
    table t {
        key = {
            m.b : exact;
            h.h.i : ternary;
            m.s : exact;
            m.hs[0].isValid() : exact;
            m.pr.a : exact @name("pra");
        }
        actions = {
            set;
            nop2(h.h.r1);
            @defaultonly NoAction;
        }
        const entries = {
            (true, _, se.A, true, 0) : set(7, 0, se.B, (port_t) 9w3);
        }
        default_action = nop2(h.h.r1, 8);
        size = 20;
    }
    apply {
        s.egress_spec = 1;
        t.apply();
        m.pr = { h.h.i, h.h.k };
        pair_t q = { b = 1, a = m.pr.b };
        m.t = { 8w3, true };
        if (m.t[1]) h.h.r3[7:0] = m.t[0];
        h.h.r3[31:24] = q.a;
        if (m.pl == plain.Y) h.h.r3[15:8] = (bit<8>)(bit<4>) m.s;
        bit<8> z;
        h.h.r4[7:0] = f(h.h.k, z);
        h.h.r4[15:8] = z;
        if (h.h == m.hs[0]) h.h.r1 = 1;
        h_t cp = h.h;
        cp.setInvalid();
        if (cp == m.hs[1]) h.h.r1 = h.h.r1 | 0x80;
        if (m.pr == q) h.h.r1 = h.h.r1 + 7;
        if (h.h.i == 7) {
            h.h = { 1, 2, 3, 4, 5, 6 };
        }
        if (h.h.i == 0x10) {
            h.h = (h_t){#};
        }
        m.hs[1] = h.h;
        if (h.h.i == 0x20) {
            h.h.setInvalid();
            h.h.setValid();
            h.h.k = m.hs[1].k;
        }
        if (h.h.i == 0x80) {
            h.h.setInvalid();
        }
        if (h.e.isValid()) {
            h.h.r2 = h.h.r2 + 1;
        }
    }
}

control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        if (h.h.i == 0xff) {
            h.pin.setValid();
            h.pin.p = s.ingress_port;
        }
        if (s.egress_port == 1) h.h.r2 = h.h.r2 + 2;
        h.h.r3 = h.h.r3 ^ (bit<32>) s.packet_length;
    }
}
#define DEPARSE p.emit(h.pin); p.emit(h.h); p.emit(h.e);
#include "rest.p4"
