// Stage 9: the packet is written, once everything is decided.

#ifndef GATEWAY_STAGE_REWRITE_P4
#define GATEWAY_STAGE_REWRITE_P4

// Addresses, ports, TTL and their checksums, by RFC 1624 equation 3:
// HC' = ~(~HC + ~m + m'), so that an error in the packet stays an error.
control Translate(inout headers_t hdr, inout metadata_t meta) {
    bit<8> ttl;

    apply {
        ttl = hdr.ipv4.ttl - 1;
        meta.ipv4_sum = meta.ipv4_sum + WITHOUT(hdr.ipv4.checksum)
            + WITHOUT((hdr.ipv4.ttl ++ hdr.ipv4.protocol))
            + (bit<32>) (ttl ++ hdr.ipv4.protocol);
        hdr.ipv4.ttl = ttl;

        if (meta.fast) {
            meta.l4_sum = meta.l4_sum + WITHOUT_HIGH(hdr.ipv4.src_addr)
                + WITHOUT_LOW(hdr.ipv4.src_addr)
                + WITHOUT_HIGH(hdr.ipv4.dst_addr)
                + WITHOUT_LOW(hdr.ipv4.dst_addr)
                + HIGH(meta.new_src_addr) + LOW(meta.new_src_addr)
                + HIGH(meta.new_dst_addr) + LOW(meta.new_dst_addr);
            meta.ipv4_sum = meta.ipv4_sum + meta.l4_sum;
            hdr.ipv4.src_addr = meta.new_src_addr;
            hdr.ipv4.dst_addr = meta.new_dst_addr;

            // L4 covers the addresses too, by its pseudo header.
            meta.l4_sum = meta.l4_sum
                + WITHOUT(meta.src_port) + WITHOUT(meta.dst_port)
                + (bit<32>) meta.new_src_port + (bit<32>) meta.new_dst_port;

            if (hdr.tcp.isValid()) {
                meta.l4_sum = meta.l4_sum + WITHOUT(hdr.tcp.checksum);
                FOLD(meta.l4_sum);
                hdr.tcp.checksum = ~meta.l4_sum[15:0];
                hdr.tcp.src_port = meta.new_src_port;
                hdr.tcp.dst_port = meta.new_dst_port;
            } else {
                // Zero says "no checksum" and stays; a checksum that comes
                // out as zero is sent as all ones (RFC 768).
                if (hdr.udp.checksum != 0) {
                    meta.l4_sum = meta.l4_sum + WITHOUT(hdr.udp.checksum);
                    FOLD(meta.l4_sum);
                    hdr.udp.checksum = ~meta.l4_sum[15:0];
                    if (hdr.udp.checksum == 0) {
                        hdr.udp.checksum = 0xFFFF;
                    }
                }
                hdr.udp.src_port = meta.new_src_port;
                hdr.udp.dst_port = meta.new_dst_port;
            }
        }

        FOLD(meta.ipv4_sum);
        hdr.ipv4.checksum = ~meta.ipv4_sum[15:0];
    }
}

// VXLAN around the packet. The outer source port spreads the receiver's
// load; for a reply it carries the local port's low bits, which say whose
// worker the session is.
control Encapsulate(inout headers_t hdr, inout metadata_t meta) {
    FlowHash() flow_hash;
    bit<16> spread;

    apply {
        if (meta.packet_class == PacketClass.LIP && meta.steered
            && meta.has_ports) {
            spread = meta.dst_port;
        } else {
            flow_hash.apply(hdr, meta);
            // The low eight bits chose the bucket: taken again, all flows of
            // a bucket would look alike to the receiver.
            spread = meta.flow_hash[23:8];
        }

        hdr.tunnel_ipv4.setValid();
        hdr.tunnel_ipv4.version = 4;
        hdr.tunnel_ipv4.ihl = 5;
        hdr.tunnel_ipv4.tos = 0;
        hdr.tunnel_ipv4.total_len = hdr.ipv4.total_len + TUNNEL_OVERHEAD;
        hdr.tunnel_ipv4.identification = 0;
        hdr.tunnel_ipv4.reserved = 0;
        hdr.tunnel_ipv4.dont_fragment = 1;
        hdr.tunnel_ipv4.more_fragments = 0;
        hdr.tunnel_ipv4.fragment_offset = 0;
        hdr.tunnel_ipv4.ttl = TUNNEL_TTL;
        hdr.tunnel_ipv4.protocol = PROTOCOL_UDP;
        hdr.tunnel_ipv4.src_addr = meta.tunnel_src;
        hdr.tunnel_ipv4.dst_addr = meta.tunnel_dst;

        // All other words are constant: version, IHL and TOS; the flags with
        // DF set; TTL and protocol.
        meta.tunnel_sum = meta.tunnel_sum + 0x4500 + 0x4000 + (bit<32>) (TUNNEL_TTL ++ PROTOCOL_UDP)
            + (bit<32>) hdr.tunnel_ipv4.total_len
            + HIGH(meta.tunnel_src) + LOW(meta.tunnel_src)
            + HIGH(meta.tunnel_dst) + LOW(meta.tunnel_dst);
        FOLD(meta.tunnel_sum);
        hdr.tunnel_ipv4.checksum = ~meta.tunnel_sum[15:0];

        hdr.tunnel_udp.setValid();
        hdr.tunnel_udp.src_port = TUNNEL_SOURCE_PORT_BASE | (spread & 0x3FFF);
        hdr.tunnel_udp.dst_port = VXLAN_PORT;
        hdr.tunnel_udp.length = hdr.ipv4.total_len + TUNNEL_UDP_OVERHEAD;
        hdr.tunnel_udp.checksum = 0;

        hdr.tunnel_vxlan.setValid();
        hdr.tunnel_vxlan.flags = VXLAN_FLAG_VNI;
        hdr.tunnel_vxlan.policy_flags = 0;
        hdr.tunnel_vxlan.group_policy_id = 0;
        hdr.tunnel_vxlan.vni = meta.vni;
        hdr.tunnel_vxlan.reserved = 0;
        if (meta.steered) {
            hdr.tunnel_vxlan.flags = VXLAN_FLAG_VNI | VXLAN_FLAG_GROUP;
            hdr.tunnel_vxlan.group_policy_id = meta.slot;
        }

        hdr.tunnel_ethernet.setValid();
        hdr.tunnel_ethernet.dst_addr = TUNNEL_INNER_DST_MAC;
        hdr.tunnel_ethernet.src_addr = TUNNEL_INNER_SRC_MAC;
        hdr.tunnel_ethernet.ether_type = ETHERTYPE_IPV4;
    }
}

// The tag of the outgoing port instead of the one received.
control Tagging(inout headers_t hdr, inout metadata_t meta) {
    apply {
        if (!hdr.packet_out.isValid()) {
            hdr.vlan.setInvalid();
            hdr.ethernet.ether_type = ETHERTYPE_IPV4;
        }

        // The controller may have tagged a frame itself.
        if (meta.push_tag && !hdr.vlan.isValid()) {
            hdr.vlan.setValid();
            hdr.vlan.pcp = 0;
            hdr.vlan.dei = 0;
            hdr.vlan.vid = meta.push_vid;
            hdr.vlan.ether_type = hdr.ethernet.ether_type;
            hdr.ethernet.ether_type = ETHERTYPE_VLAN;
        }
    }
}

control Rewrite(inout headers_t hdr, inout metadata_t meta) {
    Translate() translate;
    Encapsulate() encapsulate;
    Tagging() tagging;

    apply {
        // A load director gets the packet as it came, TTL included; the
        // switch counts the hop when the packet returns and is routed.
        if (meta.routed) {
            translate.apply(hdr, meta);
        }
        if (meta.encapsulate) {
            encapsulate.apply(hdr, meta);
        }
        tagging.apply(hdr, meta);
    }
}

#endif
