// Stage 8: the link towards the next hop, with or without a tunnel. Here
// only found; the packet is written in stage_rewrite.p4.

#ifndef GATEWAY_STAGE_NEXTHOP_P4
#define GATEWAY_STAGE_NEXTHOP_P4

control NextHop(inout headers_t hdr, inout metadata_t meta) {
    // The frame's own addresses may be replaced at once: from here on only
    // the egress port can stop the packet, and that drops it.
    action forward(port_t port, mac_t smac, mac_t dmac) {
        meta.egress_port = port;
        hdr.ethernet.src_addr = smac;
        hdr.ethernet.dst_addr = dmac;
    }

    action vxlan(port_t port, mac_t smac, mac_t dmac,
                 ipv4_addr_t src, ipv4_addr_t dst) {
        meta.egress_port = port;
        hdr.ethernet.src_addr = smac;
        hdr.ethernet.dst_addr = dmac;
        meta.encapsulate = true;
        meta.tunnel_src = src;
        meta.tunnel_dst = dst;
    }

    table nexthop {
        key = {
            meta.nexthop_id : exact @name("nexthop_id");
        }
        actions = {
            forward;
            vxlan;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_NEXTHOPS;
    }

    apply {
        if (!nexthop.apply().hit) {
            meta.drop_reason = DropReason.NEXTHOP_MISS;
        } else if (meta.encapsulate
                   && hdr.ipv4.total_len > 0xFFFF - TUNNEL_OVERHEAD) {
            // No outer header could state this length.
            meta.drop_reason = DropReason.MTU_EXCEEDED;
        }
    }
}

#endif
