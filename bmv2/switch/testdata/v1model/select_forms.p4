// Select keys and cases of every form that p4c emits. bmv2 does not load
// negative values of cases and the last index of a stack as a key; EQUIVALENT
// says the same without them.
#include "first.p4"
header h_t {
    int<8> a;
    int<12> b;
    bit<4> c;
    int<16> d;
    bit<8> r1;
    bit<8> r2;
}

header e_t {
    bit<7> v;
    bit<1> last;
}

struct headers {
    h_t h;
    e_t[4] st;
}

struct meta {
    bit<8> path;
    bit<8> n;
    bit<8> a;
    bit<12> b;
    bit<16> d;
}
#ifdef EQUIVALENT
#define KEY_A (bit<8>) h.h.a
#define KEY_B (bit<12>) h.h.b
#define KEY_D (bit<16>) h.h.d
#define MINUS(width, n) ((1 << width) - n)
#define LAST m.n
#define AT(k) (k + 1)
#else
#define KEY_A h.h.a
#define KEY_B h.h.b
#define KEY_D h.h.d
#define MINUS(width, n) -n
#define LAST h.st.lastIndex
#define AT(k) k
#endif

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        m.path = 0;
        transition select(KEY_A) {
            MINUS(8, 1): s1;
            MINUS(8, 128) : s1;
            5: s1;
            default: s2;
        }
    }
    state s1 {
        m.path = m.path + 1;
        transition s2;
    }
    state s2 {
        transition select(KEY_B, h.h.c) {
            (MINUS(12, 1), _): s3;
            (MINUS(12, 2048), 1): s3;
            (3, 7): s3;
            default: s4;
        }
    }
    state s3 {
        m.path = m.path + 2;
        transition s4;
    }
    state s4 {
        transition select(h.h.c, KEY_D) {
            (3, MINUS(16, 2)): s5;
            (_, MINUS(16, 255)): s5;
            (_, 7) : s5;
            default: s6;
        }
    }
    state s5 {
        m.path = m.path + 4;
        transition s6;
    }
    state s6 {
        p.extract(h.st.next);
        m.n = m.n + 1;
        transition select(h.st.last.last, LAST) {
            (0, AT(0)): s6;
            (0, AT(1)): s6;
            (0, _): s7;
            (1, AT(0)): s8;
            (1, AT(1)): s9;
            default: accept;
        }
    }
    state s7 {
        m.path = m.path + 0x10;
        transition accept;
    }
    state s8 {
        m.path = m.path + 0x20;
        transition accept;
    }
    state s9 {
        m.path = m.path + 0x30;
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    apply {
        h.h.r1 = m.path;
        h.h.r2 = m.n;
        s.egress_spec = 1;
    }
}
#include "rest.p4"
