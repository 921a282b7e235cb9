// Header unions: as fields, in structs, in stacks.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<8> k;
    bit<8> r1;
    bit<8> r2;
}

header a_t {
    bit<8> x;
}

header b_t {
    bit<16> y;
    varbit<16> z;
}

header c_t {
    bit<3> q;
    bit<5> r;
}

header_union u_t {
    a_t a;
    b_t b;
    c_t c;
}

struct inner_t {
    u_t u;
    a_t[2] as;
}

struct headers {
    h_t h;
    u_t u;
    u_t w;
    u_t[3] us;
    inner_t inn;
}

struct meta {
    bit<2> n;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        m.n = h.h.k[1:0];
        transition select(h.h.i) {
            0: a;
            1: b;
            2: c;
            3: st;
            5: inn;
            default: accept;
        }
    }
    state a {
        p.extract(h.u.a);
        p.extract(h.w.c);
        transition accept;
    }
    state b {
        p.extract(h.u.b, 8);
        p.extract(h.w.b, 16);
        transition accept;
    }
    state c {
        p.extract(h.u.c);
        transition select(h.u.c.q) {
            0: a;
            default: accept;
        }
    }
    state st {
        p.extract(h.us.next.a);
        p.extract(h.us.next.c);
        transition select(h.h.k) {
            0 &&& 1: st2;
            default: accept;
        }
    }
    state st2 {
        p.extract(h.us.next.a);
        transition accept;
    }
    state inn {
        p.extract(h.inn.u.a);
        p.extract(h.inn.as.next);
        p.extract(h.inn.as[1]);
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.u == h.w) h.h.r1 = 1;
        if (h.u.isValid()) h.h.r1 = h.h.r1 + 2;
        if (h.w.c.isValid()) h.h.r1 = h.h.r1 + (bit<8>) h.w.c.r;
        if (h.us[0].a.isValid()) {
            h.h.r2 = h.us[0].a.x;
        }
        if (h.h.k == 1) {
            h.w = h.u;
        }
        if (h.h.k == 2) {
            h.u.c.setValid();
            h.u.c.q = 1;
            h.u.c.r = 3;
        }
        if (h.h.k == 5) {
            h.us[1] = h.u;
        }
        if (h.h.k == 7) {
            h.us.pop_front(1);
        }
        if (h.h.k == 0x10) {
            h.us.push_front(1);
            h.us[0].a.setValid();
            h.us[0].a.x = 0x99;
        }
        if (h.h.k == 0x20) { }
        if (h.h.k == 0xff) {
            h.u = h.w;
        }
        if (h.h.k == 0x80) {
            h.inn.as.pop_front(1);
            h.inn.u = h.u;
        }
    }
}
#include "rest.p4"
