// Control flow: nested controls, exits and returns everywhere, what tables
// tell of a hit and an action, switches on values, loops.
#include "first.p4"
#define OWN_EGRESS
header h_t {
    bit<8> i;
    bit<8> k;
    bit<8> r1;
    bit<8> r2;
    bit<8> r3;
    bit<8> r4;
    bit<8> r5;
    bit<8> r6;
}

struct headers {
    h_t h;
}

struct meta {
    bit<8> x;
    bool b;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition accept;
    }
}

control Sub(inout bit<8> a, in bit<8> b)(bit<8> c) {
    action add(bit<8> y) {
        a = a + y + c;
    }
    table t {
        key = { b : exact; }
        actions = {
            add;
            NoAction;
        }
        const entries = {
            1 : add(1);
            2: add(2);
            5: add(0x40);
        }
        default_action = NoAction();
    }
    apply {
        if (t.apply().hit) {
            a = a ^ 0x10;
            if (b == 5) return;
        }
        a = a + 1;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    Sub(1) s1;
    Sub(100) s2;
    action one(bit<8> x) {
        h.h.r1 = x;
        if (x == 2) {
            return;
        }
        h.h.r2 = x;
        if (x == 3) exit;
        h.h.r3 = 3;
    }
    action two() {
        h.h.r1 = 0xee;
    }
    action drop() {
        mark_to_drop(s);
    }
    table t1 {
        key = { h.h.i : exact; }
        actions = {
            one;
            two;
            drop;
            NoAction;
        }
        const entries = {
            1 : one(1);
            2: one(2);
            3: one(3);
            5: two();
            7: drop();
        }
        default_action = NoAction();
    }
    table t2 {
        key = { h.h.k : ternary; }
        actions = {
            one;
            two;
            NoAction;
        }
        const entries = {
            1 &&& 1 : one(0x21);
            2 &&& 2: two();
        }
        const default_action = one(0x22);
    }
    table t3 {
        actions = { one; }
        const default_action = one(9);
    }
    table t4 {
        key = { h.h.k : ternary; }
        actions = { two; }
    }
    apply {
        s.egress_spec = 1;
        s1.apply(h.h.r4, h.h.k);
        s2.apply(h.h.r5, h.h.i);
        switch (t1.apply().action_run) {
            one: {
                h.h.r6 = 1;
            }
            two: drop: {
                h.h.r6 = 2;
            }
            default: {
                h.h.r6 = 3;
            }
        }
        if (!t2.apply().hit) {
            h.h.r6 = h.h.r6 | 0x10;
        }
        switch (h.h.k) {
            1: {
                h.h.r6 = h.h.r6 | 0x20;
            }
            2: 5: {
                h.h.r6 = h.h.r6 | 0x40;
            }
            7: {
                return;
            }
            default: {
                h.h.r6 = h.h.r6 | 0x80;
            }
        }
        switch (h.h.i + h.h.k) {
            3: {
                if (t3.apply().miss) {
                    h.h.r5 = 1;
                }
            }
            4: {
                exit;
            }
        }
        if (t4.apply().miss) {
            h.h.r4 = h.h.r4 + 1;
        }
        for (bit<8> j = 0; j < 3; j = j + 1) {
            h.h.r3 = h.h.r3 + j;
            if (h.h.r3 == 4) {
                break;
            }
        }
        if (h.h.r1 == 0 && h.h.r2 != 0 || !(h.h.r3 < 3)) {
            h.h.r1 = h.h.r1 + 0x80;
        }
    }
}

control E(inout headers h, inout meta m, inout standard_metadata_t s) {
    action ok(bit<8> y) {
        h.h.r1 = h.h.r1 + y;
    }
    action dr() {
        mark_to_drop(s);
    }
    action ex() {
        exit;
    }
    table t {
        key = {
            h.h.r1 : range;
            s.egress_port : exact;
        }
        actions = {
            ok;
            dr;
            ex;
            NoAction;
        }
        const entries = {
            (1..3, 1) : ok(1);
            (0xee .. 0xef, 1): dr();
            (0x7f..0x82, 1): ex();
        }
        default_action = NoAction();
    }
    apply {
        switch (t.apply().action_run) {
            ok: {
                h.h.r2 = h.h.r2 + 1;
            }
            NoAction: {
                h.h.r2 = 0;
            }
        }
        h.h.r3 = h.h.r3 ^ 1;
        if (h.h.i == 0x10) {
            return;
        }
        h.h.r3 = h.h.r3 ^ 0x10;
    }
}
#include "rest.p4"
