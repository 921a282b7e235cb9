// One exact-match table, and packets from the controller go back to it with
// their `tag` one higher. Only for tests/bmv2.rs.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_h {
    bit<16> tag;
}

@controller_header("packet_out")
header packet_out_h {
    bit<16> tag;
}

header ethernet_h {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

struct headers_t {
    packet_in_h packet_in;
    packet_out_h packet_out;
    ethernet_h ethernet;
}

struct metadata_t {}

parser Parse(packet_in packet, out headers_t hdr, inout metadata_t meta,
             inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(hdr.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(hdr.ethernet);
        transition accept;
    }
}

control Verify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Forward(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    action send(bit<9> port) {
        std.egress_spec = port;
    }
    action drop() {
        mark_to_drop(std);
    }
    table stations {
        key = { hdr.ethernet.dst: exact; }
        actions = { send; drop; }
        default_action = drop;
        size = 16384;
    }
    apply {
        if (hdr.packet_out.isValid()) {
            hdr.packet_in.setValid();
            hdr.packet_in.tag = hdr.packet_out.tag + 1;
            hdr.packet_out.setInvalid();
            std.egress_spec = CPU_PORT;
        } else {
            stations.apply();
        }
    }
}

control Finish(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t std) { apply {} }

control Checksum(inout headers_t hdr, inout metadata_t meta) { apply {} }

control Deparse(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(Parse(), Verify(), Forward(), Finish(), Checksum(), Deparse()) main;
