// The externs that no other program here has: random numbers, an action profile
// without selector, checksums over the payload, assumptions and messages. And
// copies of whole stacks and unions.
#include "first.p4"
header h_t {
    bit<8> op;
    bit<8> a;
    bit<8> b;
    bit<8> result;
    bit<16> sum;
}
header one_t {
    bit<8> x;
}
header two_t {
    bit<16> y;
}
header_union u_t {
    one_t one;
    two_t two;
}
struct headers {
    h_t h;
    one_t[2] s;
    one_t[2] t;
    u_t u;
    u_t v;
    u_t[2] us;
    u_t[2] vs;
}
struct meta {
    bit<64> wide;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        transition select(h.h.op) {
            0x20: stack;
            0x21: union_of_one;
            0x22: union_of_two;
            0x23: unions;
            default: accept;
        }
    }
    state stack {
        p.extract(h.s.next);
        p.extract(h.s.next);
        transition accept;
    }
    state union_of_one {
        p.extract(h.u.one);
        transition accept;
    }
    state union_of_two {
        p.extract(h.u.two);
        transition accept;
    }
    state unions {
        p.extract(h.us.next.two);
        p.extract(h.us.next.one);
        transition accept;
    }
}

#define VERIFY verify_checksum_with_payload(h.h.op == 0x10, { h.h.op, h.h.a, h.h.b, 8w0 }, h.h.sum, HashAlgorithm.csum16);

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action_profile(8) profile;
    action is(bit<8> n) { h.h.result = n; }
    action is_sum(bit<8> n) { h.h.result = h.h.a + n; }
    action gone() { mark_to_drop(s); }
    table indirect {
        key = { h.h.a : exact; }
        actions = { is; is_sum; gone; }
        implementation = profile;
        size = 8;
    }
    apply {
        s.egress_spec = 1;
        if (h.h.op == 1) {
            random(h.h.result, h.h.a, h.h.b);
        } else if (h.h.op == 2) {
            random(h.h.result, h.h.a, h.h.b);
            if (h.h.a <= h.h.result && h.h.result <= h.h.b) {
                h.h.result = 1;
            } else {
                h.h.result = 0;
            }
        } else if (h.h.op == 3) {
            random(m.wide, 64w0xfffffffffffffff0, 64w0xfffffffffffffff0);
            h.h.result = m.wide[7:0];
        } else if (h.h.op == 4) {
            indirect.apply();
        } else if (h.h.op == 5) {
            assume(h.h.a != 0);
            h.h.result = 1;
        } else if (h.h.op == 6) {
            log_msg("nothing to say");
            log_msg("a is {}, b is {}", { h.h.a, h.h.b });
            h.h.result = 2;
        } else if (h.h.op == 7) {
            mark_to_drop(s);
            log_msg("dropped");
        } else if (h.h.op == 0x10) {
            h.h.result = (bit<8>) s.checksum_error;
        } else if (h.h.op == 0x20) {
            h.t = h.s;
            h.s.pop_front(1);
        } else if (h.h.op == 0x21 || h.h.op == 0x22) {
            h.v = h.u;
            if (h.h.op == 0x21) {
                h.u.one.setInvalid();
            }
        } else if (h.h.op == 0x23) {
            h.vs = h.us;
            h.us[0].two.y = 0;
        }
    }
}
#include "rest.p4"
