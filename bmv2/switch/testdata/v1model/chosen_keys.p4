// Keys that are fields of a stack's element, chosen at run time. bmv2 ends
// when it loads such a key; EQUIVALENT copies the fields first.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> r1;
    bit<8> r2;
    bit<8> r3;
}

header e_t {
    bit<8> f;
    bit<4> g;
    bit<12> w;
    bit<128> wide;
}

struct headers {
    h_t h;
    e_t[3] st;
}

struct meta {
    bit<2> x;
    bit<8> f;
    bit<1> v;
    bit<12> w;
    bit<128> wide;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        p.extract(h.st.next);
        p.extract(h.st.next);
        m.x = h.h.i[1:0];
        transition select(m.x) {
            3: third;
            default: accept;
        }
    }
    state third {
        m.x = 2;
        p.extract(h.st.next);
        transition accept;
    }
}
#ifdef EQUIVALENT
#define FIELD m.f
#define THERE m.v
#define NARROW m.w
#define WIDE m.wide
#define COPY if (m.x == 0) { if (h.st[0].isValid()) { m.f = h.st[0].f; m.v = 1; m.w = h.st[0].w; m.wide = h.st[0].wide; } } if (m.x == 1) { if (h.st[1].isValid()) { m.f = h.st[1].f; m.v = 1; m.w = h.st[1].w; m.wide = h.st[1].wide; } } if (m.x == 2) { if (h.st[2].isValid()) { m.f = h.st[2].f; m.v = 1; m.w = h.st[2].w; m.wide = h.st[2].wide; } }
#define YES 1
#define NO 0
#else
#define FIELD h.st[m.x].f
#define THERE h.st[m.x].isValid()
#define NARROW h.st[m.x].w
#define WIDE h.st[m.x].wide
#define COPY
#define YES true
#define NO false
#endif

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action one(bit<8> x) {
        h.h.r1 = x;
    }
    action two(bit<8> x) {
        h.h.r2 = x;
    }
    action three(bit<8> x) {
        h.h.r3 = x;
    }
    table exact_one {
        key = { FIELD : exact @name("f"); }
        actions = {
            one;
            NoAction;
        }
        const entries = {
            1 : one(1);
            0 : one(2);
            2: one(3);
        }
        default_action = NoAction();
    }
    table ternary_two {
        key = {
            THERE : exact @name("v");
            FIELD & 0xf0 : ternary @name("f");
            NARROW : ternary @name("w");
        }
        actions = {
            two;
            NoAction;
        }
        const entries = {
            (YES, 0x10 &&& 0x10, 1 &&& 1) : two(1);
            (NO, _, _): two(2);
            (YES, 0 &&& 0x10, 0x100 &&& 0x100): two(3);
        }
        default_action = NoAction();
    }
    table range_three {
        key = { WIDE : range @name("wide"); }
        actions = {
            three;
            NoAction;
        }
        const entries = {
            5 .. 0x7fffffffffffffffffffffffffffffff : three(1);
            0x8000000000000000ffffffffffffffff .. 0x80000000000000010000000000000001: three(2);
            0xff000000000000000000000000000000 .. 0xffffffffffffffffffffffffffffffff: three(3);
        }
        default_action = NoAction();
    }
    apply {
        COPY exact_one.apply();
        ternary_two.apply();
        range_three.apply();
        s.egress_spec = 1;
    }
}
#include "rest.p4"
