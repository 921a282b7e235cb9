// The port a packet leaves by, for forwarded packets and for those of the
// controller. Looked up in ingress: v1model's drop counter can belong to
// one control only, and so every drop is booked in one place.

#ifndef GATEWAY_STAGE_EGRESS_PORT_P4
#define GATEWAY_STAGE_EGRESS_PORT_P4

control EgressPort(inout headers_t hdr, inout metadata_t meta) {
    action untagged() { }

    action tag(vlan_id_t vid) {
        meta.push_tag = true;
        meta.push_vid = vid;
    }

    table egress_port {
        key = {
            meta.egress_port : exact @name("port");
        }
        actions = {
            untagged;
            tag;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_PORTS;
    }

    apply {
        if (!egress_port.apply().hit) {
            meta.drop_reason = DropReason.EGRESS_UNKNOWN;
        } else if (meta.egress_port == CPU_PORT
                   || meta.egress_port == DROP_PORT) {
            // The CPU and drop ports are no ports to the outside, whatever
            // the tables say: a packet sent there would leave the books.
            meta.drop_reason = DropReason.EGRESS_UNKNOWN;
        }
    }
}

#endif
