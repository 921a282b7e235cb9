// Arithmetic beyond words: a request names an operation; its operands, of 64
// to 200 bits, come back changed.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header request_t {
    bit<8>   what;
    bit<8>   by;
    bit<16>  port;
    bit<128> a;
    bit<128> b;
    int<128> sa;
    int<128> sb;
    bit<72>  n;
    bit<72>  m;
    int<64>  x;
    int<64>  y;
    bit<200> big;
    bit<200> other;
}

struct headers_t {
    ethernet_t ethernet;
    request_t  r;
}
struct metadata_t { bit<128> kept; }

parser Reading(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) {
            0x88B5: request;
            default: accept;
        }
    }
    state request {
        packet.extract(h.r);
        transition accept;
    }
}

control Check(inout headers_t h, inout metadata_t m) { apply { } }

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<128>>(4) cells;
    register<bit<200>>(4) big_cells;
    register<int<64>>(4) signed_cells;

    action nothing() { }
    action sums() {
        h.r.a = h.r.a + h.r.b;
        h.r.n = h.r.n - h.r.m;
        h.r.x = h.r.x + h.r.y;
        h.r.sa = h.r.sa - h.r.sb;
        h.r.big = h.r.big + h.r.other;
    }
    action products() {
        h.r.a = h.r.a * h.r.b;
        h.r.n = h.r.n * h.r.m;
        h.r.x = h.r.x * h.r.y;
        h.r.sa = h.r.sa * h.r.sb;
        h.r.big = h.r.big * h.r.other;
    }
    action saturating_sums() {
        h.r.a = h.r.a |+| h.r.b;
        h.r.n = h.r.n |+| h.r.m;
        h.r.x = h.r.x |+| h.r.y;
        h.r.sa = h.r.sa |+| h.r.sb;
        h.r.big = h.r.big |+| h.r.other;
    }
    action saturating_differences() {
        h.r.a = h.r.a |-| h.r.b;
        h.r.n = h.r.n |-| h.r.m;
        h.r.x = h.r.x |-| h.r.y;
        h.r.sa = h.r.sa |-| h.r.sb;
        h.r.big = h.r.big |-| h.r.other;
    }
    action shifts_left() {
        h.r.a = h.r.a << h.r.by;
        h.r.n = h.r.n << h.r.by;
        h.r.x = h.r.x << h.r.by;
        h.r.sa = h.r.sa << h.r.by;
        h.r.big = h.r.big << h.r.by;
    }
    action shifts_right() {
        h.r.a = h.r.a >> h.r.by;
        h.r.n = h.r.n >> h.r.by;
        h.r.x = h.r.x >> h.r.by;
        h.r.sa = h.r.sa >> h.r.by;
        h.r.big = h.r.big >> h.r.by;
    }
    action slices() {
        h.r.a[100:37] = h.r.b[63:0];
        h.r.big[190:60] = h.r.other[130:0];
        h.r.n = h.r.a[127:56];
        h.r.m[70:7] = (bit<64>) h.r.x;
        h.r.y = (int<64>) h.r.other[199:136];
    }
    action joins() {
        h.r.big = h.r.a ++ h.r.n;
        h.r.other = h.r.m ++ h.r.b;
        h.r.a = h.r.n[63:0] ++ (bit<64>) h.r.x;
    }
    action casts() {
        h.r.a = (bit<128>) h.r.n;
        h.r.sa = (int<128>) h.r.x;
        h.r.b = (bit<128>) (int<128>) h.r.y;
        h.r.x = (int<64>) h.r.sb;
        h.r.n = (bit<72>) (int<72>) h.r.y;
        h.r.big = (bit<200>) (int<200>) h.r.sb;
        h.r.other = (bit<200>) h.r.b;
    }
    action comparisons() {
        h.r.by = (h.r.a < h.r.b ? 8w1 : 8w0)
            | (h.r.sa < h.r.sb ? 8w2 : 8w0)
            | (h.r.x >= h.r.y ? 8w4 : 8w0)
            | (h.r.big == h.r.other ? 8w8 : 8w0)
            | (h.r.sa <= 0 ? 8w16 : 8w0)
            | (h.r.n > h.r.m ? 8w32 : 8w0)
            | ((bit<64>) h.r.x != (bit<64>) h.r.y ? 8w64 : 8w0)
            | (h.r.sb == -1 ? 8w128 : 8w0);
    }
    action bits() {
        h.r.a = (h.r.a & ~h.r.b) | (h.r.b ^ 128w0xF0F0F0F0F0F0F0F0F0F0F0F0F0F0F0F0);
        h.r.big = ~h.r.big ^ h.r.other;
        h.r.sa = -h.r.sa;
        h.r.x = -h.r.x;
        h.r.sb = ~h.r.sb;
        h.r.n = -h.r.n;
    }
    action choices() {
        h.r.a = h.r.a < h.r.b ? h.r.a : h.r.b;
        h.r.sa = h.r.sa < 0 ? -h.r.sa : h.r.sa;
        h.r.big = h.r.by[0:0] == 1 ? h.r.big : h.r.other;
        h.r.x = h.r.x > h.r.y ? h.r.x - h.r.y : h.r.y - h.r.x;
    }
    action mixed() {
        // Carries must not be lost between the parts.
        h.r.a = (h.r.a + h.r.b) >> 1;
        h.r.n = (h.r.n - h.r.m) >> 3;
        h.r.x = (h.r.x * h.r.y + 7) >> 2;
        h.r.sa = (h.r.sa + h.r.sb) * (h.r.sa - h.r.sb);
        h.r.big = ((h.r.big << 3) - h.r.other) >> 5;
    }
    action keep() {
        cells.write((bit<32>) h.r.by, h.r.a);
        big_cells.write((bit<32>) h.r.by, h.r.big);
        signed_cells.write((bit<32>) h.r.by, h.r.x);
    }
    action kept() {
        cells.read(h.r.a, (bit<32>) h.r.by);
        big_cells.read(h.r.big, (bit<32>) h.r.by);
        signed_cells.read(h.r.x, (bit<32>) h.r.by);
    }
    action hashes() {
        hash(h.r.n, HashAlgorithm.crc32, 72w0, { h.r.a, h.r.by, h.r.sa, h.r.big }, 72w0x100000000);
        hash(h.r.a, HashAlgorithm.identity, 128w5, { h.r.b, h.r.y }, 64w0xFFFFFFFFFFFFFFFF);
        hash(h.r.x, HashAlgorithm.csum16, 64s0, { h.r.y, h.r.m, h.r.sb }, 32w0x10000);
        hash(h.r.sa, HashAlgorithm.xor16, 128s1, { h.r.by, h.r.other, h.r.x }, 16w9973);
        hash(h.r.big, HashAlgorithm.crc16, 200w0xFFFFFFFFFFFFFFFF, { h.r.port, h.r.other }, 32w777);
    }
    table operate {
        key = { h.r.what: exact @name("what"); }
        actions = {
            nothing; sums; products; saturating_sums; saturating_differences; shifts_left;
            shifts_right; slices; joins; casts; comparisons; bits; choices; mixed; keep; kept;
            hashes;
        }
        const default_action = nothing();
        const entries = {
            1: sums();
            2: products();
            3: saturating_sums();
            4: saturating_differences();
            5: shifts_left();
            6: shifts_right();
            7: slices();
            8: joins();
            9: casts();
            10: comparisons();
            11: bits();
            12: choices();
            13: mixed();
            14: keep();
            15: kept();
            16: hashes();
        }
    }

    // Wide keys of every kind.
    action mark(bit<72> n) { h.r.m = n; }
    table by_wide_mask {
        key = { h.r.a: ternary @name("a"); h.r.x: optional @name("x"); }
        actions = { nothing; mark; }
        default_action = nothing();
        size = 64;
    }
    action put(bit<200> v) { h.r.other = v; }
    table by_wide_value {
        key = { h.r.b: exact @name("b"); h.r.n: exact @name("n"); }
        actions = { nothing; put; }
        default_action = nothing();
        size = 64;
    }
    table by_wide_prefix {
        key = { h.r.n: lpm @name("n"); }
        actions = { nothing; mark; put; }
        default_action = nothing();
        size = 64;
    }

    apply {
        s.egress_spec = 2;
        if (h.r.isValid()) {
            operate.apply();
            by_wide_mask.apply();
            by_wide_value.apply();
            by_wide_prefix.apply();
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.r);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
