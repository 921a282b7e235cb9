// Tables whose entries overlap, of all kinds of match, and selectors by every
// hash. Each writes what it chose into the packet.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header request_t {
    bit<16> a;
    bit<32> b;
    bit<16> c;
    bit<8>  d;
    bit<9>  odd;
    bit<7>  rest;
    int<8>  signed;
    bit<64> e;
}
header chosen_t {
    bit<16> mixed;
    bit<16> ranges;
    bit<16> optionals;
    bit<16> prefix;
    bit<16> fixed;
    bit<16> mask_prefix;
    bit<16> member;
    bit<16> member_crc16;
    bit<16> member_identity;
    bit<16> member_csum;
    bit<16> member_xor;
    bit<8>  hits;
}

struct headers_t {
    ethernet_t ethernet;
    chosen_t   chosen;
    request_t  r;
}
struct metadata_t { bit<8> colour; }
struct report_t {
    bit<16> a;
    bit<9>  odd;
    bit<8>  signed;
    bit<64> e;
    bit<1>  valid;
}

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
    direct_counter(CounterType.packets_and_bytes) hits_of_mixed;
    direct_meter<bit<8>>(MeterType.packets) rate_of_prefix;

    action mixed(bit<16> n) { hits_of_mixed.count(); h.chosen.mixed = n; }
    table by_all {
        key = {
            h.r.a: ternary @name("a");
            h.r.b: lpm @name("b");
            h.r.c: range @name("c");
            h.r.d: exact @name("d");
        }
        actions = { mixed; @defaultonly NoAction; }
        counters = hits_of_mixed;
        size = 64;
    }
    action ranges(bit<16> n) { h.chosen.ranges = n; }
    table by_ranges {
        key = { h.r.c: range @name("c"); h.r.d: range @name("d"); h.r.e: range @name("e"); }
        actions = { ranges; @defaultonly NoAction; }
        size = 64;
    }
    action optionals(bit<16> n) { h.chosen.optionals = n; }
    table by_optionals {
        key = { h.r.a: optional @name("a"); h.r.odd: optional @name("odd"); h.r.isValid(): exact @name("valid"); }
        actions = { optionals; @defaultonly NoAction; }
        size = 64;
    }
    action prefix(bit<16> n) { rate_of_prefix.read(m.colour); h.chosen.prefix = n; }
    table by_prefix {
        key = { h.r.d: exact @name("d"); h.r.a: lpm @name("a"); }
        actions = { prefix; @defaultonly NoAction; }
        meters = rate_of_prefix;
        size = 64;
    }
    action mask_prefix(bit<16> n) { h.chosen.mask_prefix = n; }
    table by_mask_and_prefix {
        key = { h.r.signed: ternary @name("signed"); h.r.b: lpm @name("b"); }
        actions = { mask_prefix; @defaultonly NoAction; }
        size = 64;
    }
    action fixed(bit<16> n) { h.chosen.fixed = n; }
    table by_fixed {
        key = { h.r.c: ternary; h.r.d: range; h.r.signed: exact; h.r.a: lpm; }
        actions = { fixed; NoAction; }
        const default_action = NoAction();
        const entries = {
            (0x0000 &&& 0xFF00, 0 .. 100, 0, 0x0000 &&& 0xF000): fixed(1);
            (0x0000 &&& 0xF000, _, 0, _): fixed(2);
            (_, 3, 1, 0x8000 &&& 0x8000): fixed(3);
            (0x1234, 50 .. 60, 1, _): fixed(4);
            (0x8000 &&& 0x8000, 0 .. 255, 0, _): fixed(5);
            (_, _, 1, _): fixed(6);
        }
    }
    action member(bit<16> n) { h.chosen.member = n; }
    action_selector(HashAlgorithm.crc32, 1024, 10) by_crc32;
    table chosen_by_crc32 {
        key = { h.r.d: exact @name("d"); h.r.a: selector; h.r.e: selector; }
        actions = { member; NoAction; }
        implementation = by_crc32;
        size = 128;
    }
    action member_crc16(bit<16> n) { h.chosen.member_crc16 = n; }
    action_selector(HashAlgorithm.crc16, 1024, 10) by_crc16;
    table chosen_by_crc16 {
        key = { h.r.d: exact @name("d"); h.r.b: selector; h.r.odd: selector; h.r.signed: selector; }
        actions = { member_crc16; NoAction; }
        implementation = by_crc16;
        size = 128;
    }
    action member_identity(bit<16> n) { h.chosen.member_identity = n; }
    action_selector(HashAlgorithm.identity, 1024, 10) by_identity;
    table chosen_by_identity {
        key = { h.r.d: exact @name("d"); h.r.c: selector; }
        actions = { member_identity; NoAction; }
        implementation = by_identity;
        size = 128;
    }
    action member_csum(bit<16> n) { h.chosen.member_csum = n; }
    action_selector(HashAlgorithm.csum16, 1024, 10) by_csum;
    table chosen_by_csum {
        key = { h.r.d: exact @name("d"); h.r.a: selector; h.r.c: selector; }
        actions = { member_csum; NoAction; }
        implementation = by_csum;
        size = 128;
    }
    action member_xor(bit<16> n) { h.chosen.member_xor = n; }
    action_selector(HashAlgorithm.xor16, 1024, 10) by_xor;
    table chosen_by_xor {
        key = { h.r.d: exact @name("d"); h.r.e: selector; h.r.rest: selector; }
        actions = { member_xor; NoAction; }
        implementation = by_xor;
        size = 128;
    }

    apply {
        s.egress_spec = 2;
        if (h.r.isValid()) {
            h.chosen.setValid();
            if (by_all.apply().hit) { h.chosen.hits = h.chosen.hits | 1; }
            if (by_ranges.apply().miss) { h.chosen.hits = h.chosen.hits | 2; }
            switch (by_optionals.apply().action_run) {
                optionals: { h.chosen.hits = h.chosen.hits | 4; }
                default: { h.chosen.hits = h.chosen.hits | 8; }
            }
            if (by_prefix.apply().hit) { h.chosen.hits = h.chosen.hits | 16 | (m.colour << 6); }
            by_mask_and_prefix.apply();
            by_fixed.apply();
            chosen_by_crc32.apply();
            chosen_by_crc16.apply();
            chosen_by_identity.apply();
            chosen_by_csum.apply();
            chosen_by_xor.apply();
            if (h.r.rest[1:0] == 0) {
                digest<report_t>(1, { h.r.a, h.r.odd, (bit<8>) h.r.signed, h.r.e, h.r.rest[2:2] });
            }
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.chosen);
        packet.emit(h.r);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
