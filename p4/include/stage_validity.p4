// Stage 2: is this a sound IPv4 packet? Applied to the packet as received
// and again to what comes out of a tunnel.

#ifndef GATEWAY_STAGE_VALIDITY_P4
#define GATEWAY_STAGE_VALIDITY_P4

control Validity(inout headers_t hdr, inout metadata_t meta, in bit<16> room) {
    apply {
        bit<16> least = (bit<16>) hdr.ipv4.ihl << 2;
        if (hdr.tcp.isValid()) {
            least = least + 20;
        } else if (hdr.udp.isValid()) {
            least = least + 8;
        }

        if (meta.checksum_failed) {
            meta.drop_reason = DropReason.BAD_IPV4_CHECKSUM;
        } else if (hdr.ipv4.total_len < least || hdr.ipv4.total_len > room) {
            // Too short, and L4 would be read from the padding; too long,
            // and the tunnel would promise bytes that are not there.
            meta.drop_reason = DropReason.BAD_IPV4_LENGTH;
        } else if (hdr.ipv4.src_addr[31:24] == 0
                   || hdr.ipv4.src_addr[31:24] == 127
                   || hdr.ipv4.src_addr[31:29] == 7
                   || hdr.ipv4.src_addr == hdr.ipv4.dst_addr) {
            // This network, loopback, multicast and reserved (224/3 holds
            // both and the broadcast), and a packet to its own sender.
            meta.drop_reason = DropReason.MARTIAN_SOURCE;
        }
    }
}

#endif
