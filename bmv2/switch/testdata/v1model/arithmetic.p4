// Signed, saturating and modular arithmetic, shifts by any amount, casts and
// slices, of 1 to 300 bits.
#include "first.p4"
header h_t {
    bit<8> i;
    bit<7> a7;
    bit<9> b9;
    int<8> sa;
    int<8> sb;
    int<33> x33;
    bit<7> p7;
    int<128> w;
    int<128> v;
    bit<256> q;
    bit<256> z;
    bit<1> t1;
    int<2> t2;
    bit<5> t3;
    bit<8> sh;
    bit<300> big;
    bit<4> fill;
    int<65> s65;
    bit<7> fill2;
}

struct headers {
    h_t h;
}

struct meta {
    bit<65> u65;
    int<65> s65;
    bit<200> b200;
    int<3> s3;
    bit<1> one;
}

parser P(packet_in p, out headers h, inout meta m, inout standard_metadata_t s) {
    state start {
        p.extract(h.h);
        m.u65 = (bit<65>)(bit<8>) h.h.sa;
        m.s65 = (int<65>) h.h.s65;
        transition accept;
    }
}

control I(inout headers h, inout meta m, inout standard_metadata_t s) {
    action sat() {
        h.h.a7 = h.h.a7 |+| h.h.a7;
        h.h.b9 = h.h.b9 |-| 9w3;
        h.h.sa = h.h.sa |+| h.h.sb;
        h.h.sb = h.h.sb |-| h.h.sa;
        h.h.x33 = h.h.x33 |+| 33s0xff;
        h.h.w = h.h.w |+| h.h.v;
        h.h.v = h.h.v |-| h.h.w;
        h.h.q = h.h.q |+| h.h.z;
        h.h.z = h.h.z |-| h.h.q;
        h.h.s65 = h.h.s65 |-| m.s65;
        h.h.big = h.h.big |-| (bit<300>) h.h.q;
    }
    action mul() {
        h.h.a7 = h.h.a7 * h.h.a7;
        h.h.sa = h.h.sa * h.h.sb;
        h.h.x33 = h.h.x33 * h.h.x33;
        h.h.w = h.h.w * h.h.v;
        h.h.q = h.h.q * h.h.z;
        h.h.s65 = h.h.s65 * h.h.s65;
        h.h.big = h.h.big * h.h.big;
    }
    action shl() {
        h.h.a7 = h.h.a7 << h.h.sh;
        h.h.sa = h.h.sa << h.h.sh;
        h.h.x33 = h.h.x33 << h.h.sh;
        h.h.w = h.h.w << h.h.sh;
        h.h.q = h.h.q << h.h.sh;
        h.h.s65 = h.h.s65 << 3;
        h.h.big = h.h.big << 255;
        h.h.b9 = h.h.b9 << 8;
        h.h.z = h.h.z << 256;
    }
    action shr() {
        h.h.a7 = h.h.a7 >> h.h.sh;
        h.h.sa = h.h.sa >> h.h.sh;
        h.h.x33 = h.h.x33 >> h.h.sh;
        h.h.w = h.h.w >> h.h.sh;
        h.h.q = h.h.q >> h.h.sh;
        h.h.s65 = h.h.s65 >> 64;
        h.h.big = h.h.big >> 250;
        h.h.b9 = h.h.b9 >> 9;
        h.h.v = h.h.v >> 127;
    }
    action casts() {
        h.h.x33 = (int<33>) h.h.sa;
        h.h.w = (int<128>) h.h.s65;
        h.h.q = (bit<256>)(bit<7>) h.h.a7;
        h.h.z = (bit<256>)(int<256>) h.h.v;
        h.h.t2 = (int<2>)(bit<2>) h.h.t1;
        h.h.big = (bit<300>) (bit<128>) h.h.w;
        m.s3 = (int<3>) h.h.sb;
        h.h.sb = (int<8>) m.s3;
        h.h.b9 = (bit<9>)(bit<8>) h.h.sa;
        h.h.t1 = (bit<1>) (h.h.sa < 0);
        m.one = (bit<1>) (bool) h.h.t1;
        h.h.t3 = 4w3 ++ m.one;
    }
    action cmp() {
        h.h.a7 = (bit<7>) ((h.h.sa < h.h.sb ? 7w1 : 0) | (h.h.s65 < m.s65 ? 7w2 : 0) | (h.h.w >= h.h.v ? 7w4 : 0) | (h.h.q > h.h.z ? 7w8 : 0) | (h.h.t2 == -1 ? 7w16 : 0) | (h.h.x33 != 33s5 ? 7w32: 0) | (h.h.t2 < 0 ? 7w64: 0));
    }
    action neg() {
        h.h.a7 = -h.h.a7;
        h.h.sa = -h.h.sa;
        h.h.x33 = -h.h.x33;
        h.h.w = -h.h.w;
        h.h.q = -h.h.q;
        h.h.s65 = -h.h.s65;
        h.h.big = ~h.h.big;
        h.h.t2 = -h.h.t2;
        h.h.z = h.h.z ^ ~h.h.q;
        h.h.v = h.h.v & ~h.h.w;
        h.h.sb = ~h.h.sb;
    }
    action slic() {
        h.h.q[200:100] = h.h.z[100:0];
        h.h.big[250:250] = h.h.t1;
        h.h.b9[8:8] = h.h.a7[3:3];
        h.h.z = h.h.z[127:0] ++ h.h.q[255:128];
        h.h.sh = h.h.big[10:3];
        h.h.t3[4:1] = h.h.sa[7:4];
    }
    apply {
        if (h.h.i == 0) {
            sat();
        } else if (h.h.i == 1) {
            mul();
        } else if (h.h.i == 2) {
            shl();
        } else if (h.h.i == 3) {
            shr();
        } else if (h.h.i == 5) {
            casts();
        } else if (h.h.i == 7) {
            cmp();
        } else if (h.h.i == 0x10) {
            neg();
        } else if (h.h.i == 0x20) {
            slic();
        }
        s.egress_spec = 1;
    }
}
#include "rest.p4"
