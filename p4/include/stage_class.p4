// Stage 4: what is the destination? A virtual service, a local address of
// ours towards servers, or neither (transit).

#ifndef GATEWAY_STAGE_CLASS_P4
#define GATEWAY_STAGE_CLASS_P4

control Class(inout headers_t hdr, inout metadata_t meta) {
    INDEXED_COUNTER(vip_id_t, MAX_VIPS, vip_rx);

    action set_vip(vip_id_t vip_id, group_t group) {
        meta.packet_class = PacketClass.VIP;
        meta.vip_id = vip_id;
        meta.group = group;
    }

    action set_vip_addr(group_t group) {
        meta.packet_class = PacketClass.VIP;
        meta.group = group;
    }

    action set_lip(local_id_t local_id, slot_t slot) {
        meta.packet_class = PacketClass.LIP;
        meta.local_id = local_id;
        meta.slot = slot;
    }

    table vip_v4 {
        key = {
            meta.vni : exact @name("vni");
            hdr.ipv4.protocol : exact @name("protocol");
            hdr.ipv4.dst_addr : exact @name("dst");
            meta.dst_port : range @name("port");
        }
        actions = {
            set_vip;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_VIPS;
    }

    // For what reaches a virtual address but shows no port: fragments, ICMP.
    table vip_addr_v4 {
        key = {
            meta.vni : exact @name("vni");
            hdr.ipv4.dst_addr : exact @name("dst");
        }
        actions = {
            set_vip_addr;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_VIP_ADDRS;
    }

    table lip_v4 {
        key = {
            meta.vni : exact @name("vni");
            hdr.ipv4.dst_addr : exact @name("dst");
        }
        actions = {
            set_lip;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_LOCALS;
    }

    apply {
        // Port 0 stands for "has none" here, so vip_v4 must not be asked:
        // a range may begin at 0.
        if (meta.has_ports) {
            vip_v4.apply();
        }

        if (meta.packet_class == PacketClass.VIP) {
            COUNT(vip_rx, meta.vip_id);
        } else if (vip_addr_v4.apply().hit) {
            if (meta.has_ports) {
                meta.drop_reason = DropReason.VIP_NO_PORT;
            }
        } else {
            lip_v4.apply();
        }
    }
}

#endif
