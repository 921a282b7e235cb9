// Stage 3: tunnels that end here. What a load director sends back is
// unpacked, and from here on the stages see only the packet inside.

#ifndef GATEWAY_STAGE_TUNNEL_END_P4
#define GATEWAY_STAGE_TUNNEL_END_P4

// Verifies the header checksum of the packet inside. Not left to the
// architecture, whose verification runs before the tables and so cannot
// tell a tunnel that ends here from one that only passes through.
control InnerChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        meta.inner_sum = meta.inner_sum
            + (bit<32>) (hdr.inner_ipv4.version ++ hdr.inner_ipv4.ihl
                         ++ hdr.inner_ipv4.tos)
            + (bit<32>) hdr.inner_ipv4.total_len
            + (bit<32>) hdr.inner_ipv4.identification
            + (bit<32>) (hdr.inner_ipv4.reserved
                         ++ hdr.inner_ipv4.dont_fragment
                         ++ hdr.inner_ipv4.more_fragments
                         ++ hdr.inner_ipv4.fragment_offset)
            + (bit<32>) (hdr.inner_ipv4.ttl ++ hdr.inner_ipv4.protocol)
            + (bit<32>) hdr.inner_ipv4.checksum
            + HIGH(hdr.inner_ipv4.src_addr) + LOW(hdr.inner_ipv4.src_addr)
            + HIGH(hdr.inner_ipv4.dst_addr) + LOW(hdr.inner_ipv4.dst_addr);
        FOLD(meta.inner_sum);
        meta.checksum_failed = meta.inner_sum != 0xFFFF;
    }
}

control TunnelEnd(inout headers_t hdr, inout metadata_t meta) {
    InnerChecksum() inner_checksum;
    Validity() inner_validity;
    bool ours;

    action decap() {
        ours = true;
    }

    table vtep {
        key = {
            hdr.ipv4.dst_addr : exact @name("dst");
        }
        actions = {
            decap;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_VTEPS;
    }

    apply {
        ours = false;
        // A VTEP's address may be an ordinary address of ours as well, so
        // only the tunnel's port is taken.
        if (hdr.udp.isValid() && hdr.udp.dst_port == VXLAN_PORT) {
            vtep.apply();
        }

        if (ours) {
            bit<16> room = hdr.udp.length - TUNNEL_UDP_OVERHEAD;
            bit<16> outer_len = ((bit<16>) hdr.ipv4.ihl << 2) + hdr.udp.length;

            if (meta.role != PortRole.LD) {
                meta.drop_reason = DropReason.TUNNEL_REFUSED;
            } else if (!hdr.inner_ipv4.isValid()
                       || hdr.vxlan.flags & VXLAN_FLAG_VNI == 0
                       || outer_len > hdr.ipv4.total_len) {
                meta.drop_reason = DropReason.TUNNEL_INVALID;
            } else {
                if (!hdr.inner_ipv4_options.isValid()) {
                    inner_checksum.apply(hdr, meta);
                }
                meta.vni = hdr.vxlan.vni;
                meta.from_tunnel = true;

                hdr.ipv4 = hdr.inner_ipv4;
                hdr.ipv4_options = hdr.inner_ipv4_options;
                hdr.tcp = hdr.inner_tcp;
                hdr.udp = hdr.inner_udp;
                hdr.icmp = hdr.inner_icmp;
                hdr.vxlan.setInvalid();
                hdr.inner_ethernet.setInvalid();
                hdr.inner_ipv4.setInvalid();
                hdr.inner_ipv4_options.setInvalid();
                hdr.inner_tcp.setInvalid();
                hdr.inner_udp.setInvalid();
                hdr.inner_icmp.setInvalid();

                inner_validity.apply(hdr, meta, room);
            }
        }
    }
}

#endif
