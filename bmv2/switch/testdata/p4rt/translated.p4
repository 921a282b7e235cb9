// Types whose values controllers write in another way than the data plane has
// them.

#include <core.p4>
#include <v1model.p4>

@p4runtime_translation("example.org/port", 32)
type bit<9> Port_t;
@p4runtime_translation("example.org/name", string)
type bit<10> Name_t;

@controller_header("packet_in")
header packet_in_t { Port_t ingress_port; bit<7> reason; }
@controller_header("packet_out")
header packet_out_t { Port_t egress_port; bit<7> pad; }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers_t { packet_in_t packet_in; packet_out_t packet_out; ethernet_t ethernet; }
struct metadata_t { Port_t port; Name_t name; }

parser Reading(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            510: from_controller;
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
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Sending(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action send(Port_t port) { std.egress_spec = (bit<9>) port; }
    action rename(Name_t name) { meta.name = name; }
    action punt() { std.egress_spec = 510; }
    table names {
        key = { meta.port: exact @name("port"); }
        actions = { rename; NoAction; }
        default_action = NoAction();
    }
    table ways {
        key = { meta.name: exact @name("name"); }
        actions = { send; punt; NoAction; }
        default_action = NoAction();
    }
    apply {
        meta.port = (Port_t) std.ingress_port;
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            names.apply();
            ways.apply();
        }
    }
}
control Leaving(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = meta.port;
            hdr.packet_in.reason = 5;
        }
    }
}
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Writing(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.packet_in); packet.emit(hdr.ethernet); }
}

V1Switch(Reading(), Verify(), Sending(), Leaving(), Compute(), Writing()) main;
