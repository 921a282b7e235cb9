// What a selector's hash may be computed of: truth values, validity, masked and
// computed fields, wide ones, those of invalid headers, of a stack's elements, and
// of metadata. Each table writes the number of the member that it picks into one
// byte of the packet.
#include "first.p4"
header h_t {
    bit<8> flags;
    bit<4> a;
    bit<12> b;
    bit<8> masked;
    bit<8> wholes;
    bit<8> truths;
    bit<8> elements;
    bit<8> mixed;
}
header e_t {
    bit<3> x;
    bit<5> y;
}
header w_t {
    bit<100> w;
    bit<4> rest;
}
struct headers {
    h_t h;
    e_t[2] st;
    w_t w;
}
struct meta {
    bool odd;
    bit<5> low;
    bit<12> b;
    bit<4> a;
    bit<1> truth;
    bit<1> valid;
}
// bmv2 does not load the first; EQUIVALENT says the same in other words.
#ifdef EQUIVALENT
#define MASKED_B m.b
#define MASKED_A m.a
#define TRUTH m.truth
#define VALID m.valid
#define SAY_FIRST m.b = h.h.b & 0x3c3; m.a = h.h.a & 6; m.truth = (bit<1>) m.odd; m.valid = (bit<1>) h.w.isValid();
#else
#define MASKED_B h.h.b & 0x3c3
#define MASKED_A h.h.a & 6
#define TRUTH m.odd
#define VALID h.w.isValid()
#define SAY_FIRST
#endif

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        m.odd = h.h.flags[0:0] == 1;
        m.low = h.h.flags[4:0];
        transition select(h.h.flags[7:6]) {
            1: elements;
            2: wide;
            3: both;
            default: accept;
        }
    }
    state both {
        p.extract(h.st.next);
        transition wide;
    }
    state elements {
        p.extract(h.st.next);
        p.extract(h.st.next);
        transition accept;
    }
    state wide {
        p.extract(h.w);
        transition accept;
    }
}

#define PICK(NAME, ALGORITHM, WIDTH, KEYS) \
    action_selector(HashAlgorithm.ALGORITHM, 8, WIDTH) NAME##_members; \
    action NAME##_is(bit<8> n) { h.h.NAME = n; } \
    table NAME##_pick { \
        key = { h.h.isValid() : exact; KEYS } \
        actions = { NAME##_is; } \
        implementation = NAME##_members; \
        size = 2; \
    }

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    PICK(masked, crc16, 16, MASKED_B : selector; MASKED_A : selector;)
    PICK(wholes, crc32, 32, h.w.w : selector; h.h.a : selector; m.low : selector;)
    PICK(truths, crc16, 16, TRUTH : selector; VALID : selector; h.h.b : selector;)
    PICK(elements, xor16, 16, h.st[0].x : selector; h.st[1].y : selector; h.st[0].y : selector; h.h.b : selector;)
    PICK(mixed, crc16, 12, h.h.a ++ h.h.b : selector @name("both"); h.h.flags + 1 : selector @name("more");)
    apply {
        SAY_FIRST
        masked_pick.apply();
        wholes_pick.apply();
        truths_pick.apply();
        if (h.st[1].isValid()) {
            elements_pick.apply();
        }
        mixed_pick.apply();
        s.egress_spec = 1;
    }
}
#include "rest.p4"
