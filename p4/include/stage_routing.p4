// Stage 7 (before steering in the program's text, because a packet too big
// for its next hop is steered): routing of fast hits, of what a load
// director sends, and of transit.

#ifndef GATEWAY_STAGE_ROUTING_P4
#define GATEWAY_STAGE_ROUTING_P4

control Routing(inout headers_t hdr, inout metadata_t meta) {
    ipv4_addr_t dst;

    action set_nexthop(nexthop_id_t nexthop_id) {
        meta.nexthop_id = nexthop_id;
        meta.routed = true;
    }

    // An address of the switch itself.
    action to_cpu() {
        meta.punt_reason = PuntReason.LOCAL;
    }

    // The longest IPv4 packet (total length in bytes) that the next hop
    // takes; where it is behind a tunnel, the overhead is already off.
    action set_mtu(bit<16> mtu) {
        meta.mtu = mtu;
    }

    table route_v4 {
        key = {
            meta.vni : exact @name("vni");
            dst : lpm @name("dst");
        }
        actions = {
            set_nexthop;
            to_cpu;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_ROUTES;
    }

    table nexthop_mtu {
        key = {
            meta.nexthop_id : exact @name("nexthop_id");
        }
        actions = {
            set_mtu;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_NEXTHOPS;
    }

    apply {
        dst = hdr.ipv4.dst_addr;
        if (meta.fast) {
            dst = meta.new_dst_addr;
        }

        // A next hop without a limit of its own takes everything.
        meta.mtu = 0xFFFF;

        if (!route_v4.apply().hit) {
            meta.drop_reason = DropReason.NO_ROUTE;
        } else if (meta.routed) {
            nexthop_mtu.apply();
            if (hdr.ipv4.ttl <= 1) {
                meta.drop_reason = DropReason.TTL_EXPIRED;
            } else if (hdr.ipv4.total_len > meta.mtu) {
                if (meta.fast) {
                    // The load director answers with ICMP, or fragments.
                    meta.fast = false;
                    meta.routed = false;
                    meta.path = Path.STEER_MTU;
                } else {
                    meta.drop_reason = DropReason.MTU_EXCEEDED;
                }
            } else if (meta.fast) {
                if (meta.packet_class == PacketClass.VIP) {
                    meta.path = Path.FAST_FWD;
                } else {
                    meta.path = Path.FAST_REV;
                }
            } else if (meta.from_tunnel) {
                meta.path = Path.FROM_LD;
            } else {
                meta.path = Path.ROUTED;
            }
        }
    }
}

#endif
