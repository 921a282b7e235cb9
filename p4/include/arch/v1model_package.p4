// Architecture shim, second part: binds the program to v1model's blocks.

#ifndef GATEWAY_ARCH_PACKAGE_P4
#define GATEWAY_ARCH_PACKAGE_P4

parser SwitchParser(packet_in packet,
                    out headers_t hdr,
                    inout metadata_t meta,
                    inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: from_cpu;
            default: from_wire;
        }
    }

#include "../parser.p4"
}

control SwitchVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.total_len,
              hdr.ipv4.identification, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments,
              hdr.ipv4.fragment_offset, hdr.ipv4.ttl, hdr.ipv4.protocol,
              hdr.ipv4.src_addr, hdr.ipv4.dst_addr,
              hdr.ipv4_options.options },
            hdr.ipv4.checksum, HashAlgorithm.csum16);

        // A packet in a tunnel is verified by stage_tunnel_end.p4, which
        // knows whether the tunnel ends here; but it cannot add up options.
        verify_checksum(hdr.inner_ipv4_options.isValid(),
            { hdr.inner_ipv4.version, hdr.inner_ipv4.ihl, hdr.inner_ipv4.tos,
              hdr.inner_ipv4.total_len, hdr.inner_ipv4.identification,
              hdr.inner_ipv4.reserved, hdr.inner_ipv4.dont_fragment,
              hdr.inner_ipv4.more_fragments, hdr.inner_ipv4.fragment_offset,
              hdr.inner_ipv4.ttl, hdr.inner_ipv4.protocol,
              hdr.inner_ipv4.src_addr, hdr.inner_ipv4.dst_addr,
              hdr.inner_ipv4_options.options },
            hdr.inner_ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SwitchIngress(inout headers_t hdr,
                      inout metadata_t meta,
                      inout standard_metadata_t std) {
    Gateway() gateway;

    apply {
        meta.ingress_port = std.ingress_port;
        meta.frame_len = (bit<16>) std.packet_length;
        meta.parser_failed = std.parser_error != error.NoError;
        meta.checksum_failed = std.checksum_error == 1;

        gateway.apply(hdr, meta);

        if (meta.drop_reason != DropReason.NONE) {
            mark_to_drop(std);
        } else {
            std.egress_spec = meta.egress_port;
        }
    }
}

// Only counts: all decisions and rewrites are made in ingress, so that the
// drop counter exists once and no metadata has to cross to egress.
control SwitchEgress(inout headers_t hdr,
                     inout metadata_t meta,
                     inout standard_metadata_t std) {
    INDEXED_COUNTER(port_t, MAX_PORTS, egress_port_tx);

    apply {
        COUNT(egress_port_tx, std.egress_port);
    }
}

// Checksums are updated incrementally where the rewrite happens
// (stage_rewrite.p4): a recomputation here would hide a packet damaged on
// the way behind a fresh, correct checksum.
control SwitchComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control SwitchDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.vlan);
        packet.emit(hdr.vlan_second);
        packet.emit(hdr.arp);
        packet.emit(hdr.ipv6);
        packet.emit(hdr.tunnel_ipv4);
        packet.emit(hdr.tunnel_udp);
        packet.emit(hdr.tunnel_vxlan);
        packet.emit(hdr.tunnel_ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ipv4_options);
        packet.emit(hdr.tcp);
        packet.emit(hdr.udp);
        packet.emit(hdr.icmp);
        packet.emit(hdr.vxlan);
        packet.emit(hdr.inner_ethernet);
        packet.emit(hdr.inner_ipv4);
        packet.emit(hdr.inner_ipv4_options);
        packet.emit(hdr.inner_tcp);
        packet.emit(hdr.inner_udp);
        packet.emit(hdr.inner_icmp);
    }
}

V1Switch(SwitchParser(),
         SwitchVerifyChecksum(),
         SwitchIngress(),
         SwitchEgress(),
         SwitchComputeChecksum(),
         SwitchDeparser()) main;

#endif
