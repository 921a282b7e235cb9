// Range keys of 8 to 128 bits, alone and beside other kinds of match.
#include "first.p4"
header h_t {
    bit<128> a;
    bit<72> n;
    bit<16> w;
    bit<128> b;
    bit<8> r1;
    bit<8> r2;
    bit<8> r3;
}

struct headers {
    h_t h;
}

struct meta { }

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

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
    table t1 {
        key = { h.h.a : range; }
        actions = {
            one;
            NoAction;
        }
        const entries = {
            0x20010db8000000000000000000000005 .. 0x20010db8000000000000000000000fff : one(1);
            0x20010db8000000000000000000000000 .. 0x20010db80000000fffffffffffffffff : one(2);
            0 .. 0xffffffffffffffff : one(3);
            0xffffffffffffffff .. 0x10000000000000000 : one(4);
            0x8000000000000000_0000000000000000 .. 0xffffffffffffffff_ffffffffffffffff : one(5);
            0x7 : one(6);
        }
        default_action = NoAction();
    }
    table t2 {
        key = {
            h.h.n : range;
            h.h.w: exact;
            h.h.b : range @name("bee");
        }
        actions = {
            two;
            NoAction;
        }
        const entries = {
            (0xff .. 0x01ffffffffffffffff, 1, 0 .. 0xffffffffffffffff_ffffffffffffffff) : two(1);
            (0x0100000000000000000 .. 0xffffffffffffffffff, 1, 0 .. 0x8000000000000000_0000000000000000) : two(2);
            (0x0100000000000000000 .. 0xffffffffffffffffff, 2, 5 .. 6) : two(3);
        }
        default_action = NoAction();
    }
    table t3 {
        key = {
            h.h.n : range;
            h.h.w: range;
            h.h.b : ternary;
            h.h.a: lpm;
        }
        actions = {
            three;
            NoAction;
        }
        const entries = {
            (0xff .. 0x01ffffffffffffffff, 1..4, 0 &&& 0x1, 0 &&& 0) : three(1);
            (0x0 .. 0xffffffffffffffffff, 2 .. 5, _, _) : three(2);
        }
        default_action = NoAction();
    }
    apply {
        t1.apply();
        t2.apply();
        t3.apply();
        s.egress_spec = 1;
    }
}
#include "rest.p4"
