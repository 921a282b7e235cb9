// Sluice's data plane: a layer-4 gateway in one pipeline.
//
// Decide first, rewrite last. Every stage only finds out; the packet is
// written at the end. So any table entry may vanish at any time and the
// packet still goes to a load director as it came.
//
// Nothing here or in the stages depends on an architecture: include/arch is
// the shim. docs/table-contract.md describes the tables.

#include "include/constants.p4"
#include "include/types.p4"
#include "include/headers.p4"
#include "include/metadata.p4"
#include "include/ones_complement.p4"
#include "include/arch/v1model_externs.p4"
#include "include/stage_ingress_port.p4"
#include "include/stage_validity.p4"
#include "include/stage_tunnel_end.p4"
#include "include/stage_class.p4"
#include "include/stage_fast_path.p4"
#include "include/stage_routing.p4"
#include "include/stage_steering.p4"
#include "include/stage_nexthop.p4"
#include "include/stage_egress_port.p4"
#include "include/stage_rewrite.p4"
#include "include/books.p4"

control Gateway(inout headers_t hdr, inout metadata_t meta) {
    INDEXED_COUNTER(port_t, MAX_PORTS, ingress_port_rx);

    IngressPort() ingress_port;
    Validity() validity;
    TunnelEnd() tunnel_end;
    Class() class;
    FastPath() fast_path;
    Routing() routing;
    Steering() steering;
    NextHop() nexthop;
    EgressPort() egress_port;
    Rewrite() rewrite;
    Books() books;

    apply {
        COUNT(ingress_port_rx, meta.ingress_port);

        if (meta.parser_failed) {
            // First, since nothing of such a packet can be trusted.
            meta.drop_reason = DropReason.PARSER_ERROR;
        } else if (hdr.packet_out.isValid()) {
            meta.path = Path.FROM_CPU;
            // A number too big for a port must not wrap to another port.
            if (hdr.packet_out.egress_port >= (bit<16>) CPU_PORT) {
                meta.drop_reason = DropReason.EGRESS_UNKNOWN;
            } else {
                meta.egress_port = (port_t) hdr.packet_out.egress_port;
            }
        } else {
            ingress_port.apply(hdr, meta);

            if (UNDECIDED(meta)) {
                bit<16> room = meta.frame_len - 14;
                if (hdr.vlan.isValid()) {
                    room = room - 4;
                }
                validity.apply(hdr, meta, room);
            }

            if (UNDECIDED(meta)) {
                tunnel_end.apply(hdr, meta);
            }

            if (hdr.tcp.isValid()) {
                meta.has_ports = true;
                meta.src_port = hdr.tcp.src_port;
                meta.dst_port = hdr.tcp.dst_port;
            } else if (hdr.udp.isValid()) {
                meta.has_ports = true;
                meta.src_port = hdr.udp.src_port;
                meta.dst_port = hdr.udp.dst_port;
            }

            // What a load director sends back has been through all this.
            if (UNDECIDED(meta) && !meta.from_tunnel) {
                class.apply(hdr, meta);
                // An id of zero is no service: the address alone matched.
                if (UNDECIDED(meta)
                    && (meta.vip_id != 0 || meta.local_id != 0)) {
                    fast_path.apply(hdr, meta);
                }
            }

            if (UNDECIDED(meta)) {
                if (meta.fast || meta.packet_class == PacketClass.TRANSIT) {
                    routing.apply(hdr, meta);
                }
            }

            if (UNDECIDED(meta)
                && !meta.routed) {
                steering.apply(hdr, meta);
            }

            if (UNDECIDED(meta)) {
                nexthop.apply(hdr, meta);
            }
        }

        if (UNDECIDED(meta)) {
            egress_port.apply(hdr, meta);
        }

        if (UNDECIDED(meta)) {
            rewrite.apply(hdr, meta);
        } else if (meta.drop_reason == DropReason.NONE) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (bit<16>) meta.ingress_port;
            hdr.packet_in.reason = meta.punt_reason;
            meta.egress_port = CPU_PORT;
            meta.path = Path.TO_CPU;
        }

        books.apply(hdr, meta);
    }
}

#include "include/arch/v1model_package.p4"
