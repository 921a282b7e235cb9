// Loops, returns and exits in actions.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> k;
    bit<8> r1;
    bit<8> r2;
    bit<32> r3;
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

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    register<bit<8>>(256) reg;
    counter(16, CounterType.packets) c;
    action count(bit<8> n) {
        for (bit<8> j = 0; j < n; j = j + 1) {
            if (j == 3) continue;
            h.h.r3 = h.h.r3 + (bit<32>) j;
            if (h.h.r3 > 100) break;
            c.count((bit<32>) j);
        }
    }
    action nested() {
        for (bit<8> a = 0; a < (h.h.i & 7); a = a + 1) {
            for (bit<8> b = a; b < 9; b = b + 2) {
                h.h.r1 = h.h.r1 + b;
                if (h.h.r1 == h.h.k) {
                    return;
                }
            }
        }
        h.h.r2 = 0x77;
    }
    action early(bit<8> v) {
        if (h.h.k == 1) {
            h.h.r4 = 1;
            return;
        } else if (h.h.k == 2) {
            exit;
        }
        if (v == 1) h.h.r5 = 1;
        h.h.r6 = v;
    }
    table t {
        key = { h.h.i : ternary; }
        actions = {
            count;
            nested;
            early;
            NoAction;
        }
        const entries = {
            1 &&& 3 : count(7);
            2 &&& 3: nested();
            3 &&& 7: early(1);
            7 &&& 7: early(2);
            0 &&& 0: early(3);
        }
        default_action = NoAction();
    }
    apply {
        s.egress_spec = 1;
        t.apply();
        reg.write((bit<32>) h.h.i, h.h.r1);
        bit<8> z;
        reg.read(z, 32w1);
        h.h.r1 = h.h.r1 ^ z;
    }
}
#include "rest.p4"
