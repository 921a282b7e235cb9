// Tables that the program fills and that controllers may change.

#include <core.p4>
#include <v1model.p4>

header h_t {
    bit<8> a;
    bit<8> b;
}
struct headers_t { h_t h; }
struct metadata_t { }

parser Reading(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.h);
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Sending(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    action to(bit<9> port) { std.egress_spec = port; }
    action drop() { mark_to_drop(std); }
    table exactly {
        key = { hdr.h.a : exact; }
        actions = { to; drop; }
        default_action = drop();
        entries = {
            1 : to(1);
            2 : to(2);
        }
        size = 3;
    }
    table loosely {
        key = { hdr.h.b : ternary; }
        actions = { to; NoAction; }
        default_action = NoAction();
        entries = {
            1 &&& 0xf : to(2);
            _ : NoAction();
        }
        size = 3;
    }
    apply {
        exactly.apply();
        loosely.apply();
    }
}
control Leaving(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Writing(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Reading(), Verify(), Sending(), Leaving(), Compute(), Writing()) main;
