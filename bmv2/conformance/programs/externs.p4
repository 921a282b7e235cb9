// Externs and arithmetic: a request header names an operation, its operands
// and the port; the result comes back in the packet.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header request_t {
    bit<8>  what;
    bit<8>  count;
    bit<16> port;
    bit<32> a;
    bit<32> b;
    bit<64> result;
    bit<8>  small;
    int<16> signed_a;
    int<16> signed_b;
}

struct headers_t {
    ethernet_t ethernet;
    request_t  request;
}
struct metadata_t {
    @field_list(1, 2)
    bit<8>  rounds;
    bit<32> wide;
    bit<16> narrow;
    bit<2>  colour;
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
        packet.extract(h.request);
        transition accept;
    }
}

control Check(inout headers_t h, inout metadata_t m) { apply { } }

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<32>>(8) cells;
    register<bit<48>>(4) wide_cells;
    counter(8, CounterType.packets_and_bytes) both;
    counter(8, CounterType.bytes) only_bytes;
    meter(8, MeterType.packets) by_packets;
    meter(8, MeterType.bytes) by_bytes;

    action no_operation() { }
    action crc32_of() {
        hash(h.request.result, HashAlgorithm.crc32, 64w0, { h.request.a, h.request.b }, 64w0x100000000);
    }
    action crc32_custom_of() {
        hash(h.request.result, HashAlgorithm.crc32_custom, 64w0, { h.request.a, h.request.b }, 64w0x100000000);
    }
    action crc16_of() {
        hash(m.narrow, HashAlgorithm.crc16, 16w3, { h.request.a, h.ethernet.src }, 32w1000);
        h.request.result = (bit<64>) m.narrow;
    }
    action crc16_custom_of() {
        hash(m.narrow, HashAlgorithm.crc16_custom, 16w3, { h.request.a, h.ethernet.src }, 32w1000);
        h.request.result = (bit<64>) m.narrow;
    }
    action csum16_of() {
        hash(m.narrow, HashAlgorithm.csum16, 16w0, { h.request.a, h.request.b, h.request.what }, 32w65536);
        h.request.result = (bit<64>) m.narrow;
    }
    action xor16_of() {
        hash(m.narrow, HashAlgorithm.xor16, 16w0, { h.request.a, h.request.b }, 32w65536);
        h.request.result = (bit<64>) m.narrow;
    }
    action identity_of() {
        hash(m.wide, HashAlgorithm.identity, 32w0, { h.request.a }, 64w0x100000000);
        h.request.result = (bit<64>) m.wide;
    }
    action hash_zero() {
        hash(m.wide, HashAlgorithm.crc32, 32w7, { h.request.a }, 32w0);
        h.request.result = (bit<64>) m.wide;
    }
    action read_cell() { cells.read(m.wide, h.request.a); h.request.result = (bit<64>) m.wide; }
    action write_cell() { cells.write(h.request.a, h.request.b); }
    action add_cell() {
        cells.read(m.wide, h.request.a);
        m.wide = m.wide + h.request.b;
        cells.write(h.request.a, m.wide);
        h.request.result = (bit<64>) m.wide;
    }
    action write_wide() { wide_cells.write(h.request.a, h.ethernet.src); }
    action read_wide() { bit<48> v; wide_cells.read(v, h.request.a); h.request.result = (bit<64>) v; }
    action count_both() { both.count(h.request.a); }
    action count_bytes() { only_bytes.count(h.request.a); }
    action meter_packets() {
        by_packets.execute_meter(h.request.a, m.colour);
        h.request.small = (bit<8>) m.colour;
    }
    action meter_bytes() {
        by_bytes.execute_meter(h.request.a, m.colour);
        h.request.small = (bit<8>) m.colour;
    }
    action saturating() {
        h.request.small = h.request.a[7:0] |+| h.request.b[7:0];
        h.request.result = (bit<64>) (h.request.a |-| h.request.b);
        h.request.signed_a = h.request.signed_a |+| h.request.signed_b;
    }
    action wrapping() {
        h.request.result = (bit<64>) h.request.a * (bit<64>) h.request.b;
        h.request.small = h.request.a[7:0] - h.request.b[7:0];
        h.request.signed_a = h.request.signed_a - h.request.signed_b;
    }
    action shifting() {
        h.request.result = ((bit<64>) h.request.a << h.request.b[7:0]);
        h.request.small = h.request.small >> h.request.b[3:0];
        h.request.signed_a = h.request.signed_a >> h.request.b[4:0];
    }
    action slicing() {
        h.request.result[15:8] = h.request.a[31:24];
        h.request.result[63:60] = h.request.b[3:0];
        h.request.small = h.request.a[11:4] ^ ~h.request.b[11:4];
        h.request.signed_a = -h.request.signed_a;
    }
    action joining() {
        h.request.result = h.request.a ++ h.request.b;
        h.request.signed_b = (int<16>) (h.request.small ++ h.request.what);
        h.request.signed_a = (int<16>) (int<8>) h.request.a[7:0];
    }
    action comparing() {
        h.request.small = (h.request.a < h.request.b ? 8w1 : 8w0)
            | (h.request.signed_a < h.request.signed_b ? 8w2 : 8w0)
            | (h.request.a == h.request.b ? 8w4 : 8w0)
            | (h.request.signed_a >= 0 ? 8w8 : 8w0);
    }
    action cut() { truncate(32w40); }
    action again() { m.rounds = m.rounds + 1; resubmit_preserving_field_list(1); }
    action copy() { m.rounds = 9; clone_preserving_field_list(CloneType.I2E, 7, 2); }
    action spread() { s.mcast_grp = h.request.a[15:0]; }
    action drop() { mark_to_drop(s); }
    action drop_and_spread() { mark_to_drop(s); s.mcast_grp = h.request.a[15:0]; }

    table operate {
        key = { h.request.what: exact @name("what"); }
        actions = {
            no_operation; crc32_of; crc32_custom_of; crc16_of; crc16_custom_of; csum16_of; xor16_of;
            identity_of; hash_zero; read_cell; write_cell; add_cell; write_wide; read_wide;
            count_both; count_bytes; meter_packets; meter_bytes; saturating; wrapping; shifting;
            slicing; joining; comparing; cut; copy; spread; drop; drop_and_spread;
        }
        const default_action = no_operation();
        const entries = {
            1: crc32_of();
            2: crc32_custom_of();
            3: crc16_of();
            4: crc16_custom_of();
            5: csum16_of();
            6: xor16_of();
            7: identity_of();
            8: hash_zero();
            9: read_cell();
            10: write_cell();
            11: add_cell();
            12: write_wide();
            13: read_wide();
            14: count_both();
            15: count_bytes();
            16: meter_packets();
            17: meter_bytes();
            18: saturating();
            19: wrapping();
            20: shifting();
            21: slicing();
            22: joining();
            23: comparing();
            24: cut();
            25: copy();
            26: spread();
            27: drop();
            28: drop_and_spread();
        }
    }

    action to(bit<9> port) { s.egress_spec = port; }
    table forward {
        key = { h.request.port: exact @name("port"); }
        actions = { to; drop; }
        default_action = to(1);
        size = 16;
    }

    apply {
        forward.apply();
        if (h.request.isValid()) {
            if (h.request.count != 0 && m.rounds < 3 && m.rounds < h.request.count && h.request.what == 0) {
                again();
            } else {
                operate.apply();
            }
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.request.isValid()) {
            if (s.instance_type == 1) {
                h.request.result = 64w0xC10E;
                h.request.small = m.rounds;
            } else if (s.instance_type == 5) {
                h.request.result = (bit<64>) s.egress_rid;
            } else if (s.instance_type == 4) {
                h.request.result = h.request.result + 1;
            }
            if (h.request.what == 40 && s.instance_type == 0) {
                h.request.what = 41;
                recirculate_preserving_field_list(2);
            } else if (h.request.what == 42 && s.instance_type == 0) {
                m.rounds = 5;
                clone_preserving_field_list(CloneType.E2E, 7, 2);
            } else if (s.instance_type == 2) {
                h.request.small = m.rounds;
            } else if (h.request.what == 43) {
                h.request.result = (bit<64>) s.packet_length;
                h.request.small = (bit<8>) s.instance_type;
            } else if (h.request.what == 44) {
                mark_to_drop(s);
            }
            if (h.request.what == 0) {
                h.request.small = m.rounds;
            }
        }
    }
}

control Sums(inout headers_t h, inout metadata_t m) { apply { } }

control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.request);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
