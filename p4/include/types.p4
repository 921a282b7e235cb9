// Names for widths, and the enums that both P4 and Rust speak.
//
// contract-gen reads the enums from here: P4Info names only those that are
// the type of an action's parameter or of a controller header's field, and
// the indices of counters are neither.

#ifndef GATEWAY_TYPES_P4
#define GATEWAY_TYPES_P4

typedef bit<48> mac_t;
typedef bit<32> ipv4_addr_t;
typedef bit<16> l4_port_t;
typedef bit<12> vlan_id_t;
typedef bit<WIDTH_PORT> port_t;
typedef bit<WIDTH_VNI> vni_t;

// Ids are allocated by offload-ctl; 0 is never used, so a zeroed field means
// "none".
typedef bit<WIDTH_ID> vip_id_t;
typedef bit<WIDTH_ID> server_id_t;
typedef bit<WIDTH_ID> local_id_t;
typedef bit<WIDTH_ID> group_t;
typedef bit<WIDTH_ID> bucket_t;
typedef bit<WIDTH_ID> slot_t;
typedef bit<WIDTH_ID> nexthop_id_t;

// What is attached to a switch port.
enum bit<8> PortRole {
    // Not set.
    NONE = 0,
    // Towards the outside: clients.
    UPLINK = 1,
    // Towards the inside: servers.
    FABRIC = 2,
    // A load director; the only place our tunnel is accepted from.
    LD = 3
}

// Why a packet was dropped: the index into counter `drop`. A packet has one
// reason, the first that applies in pipeline order.
enum bit<8> DropReason {
    // Not dropped; never counted.
    NONE = 0,
    // The frame ends within a header, or the IPv4 version or header length is impossible.
    PARSER_ERROR = 1,
    // No `ingress_port` entry for this port and VLAN.
    PORT_UNKNOWN = 2,
    // Two VLAN tags.
    VLAN_STACK = 3,
    // The frame's destination is not the MAC address of the port.
    NOT_FOR_US = 4,
    // Neither IPv4 nor ARP.
    UNSUPPORTED_ETHERTYPE = 5,
    // The IPv4 header's checksum is wrong.
    BAD_IPV4_CHECKSUM = 6,
    // The IPv4 total length is shorter than its headers or longer than what carries it.
    BAD_IPV4_LENGTH = 7,
    // A source that nobody can have, or the destination's own address.
    MARTIAN_SOURCE = 8,
    // A tunnel to our VTEP from a port that has no load director.
    TUNNEL_REFUSED = 9,
    // A tunnel to our VTEP without VNI, or with anything but IPv4 inside.
    TUNNEL_INVALID = 10,
    // TCP or UDP to a virtual address, but to no port with a service.
    VIP_NO_PORT = 11,
    // A packet to a session's local port that is not from the session's server.
    REPLY_SOURCE_MISMATCH = 12,
    // No `bucket` or no `slot` entry: no load director to send to.
    STEERING_MISS = 13,
    // No `route_v4` entry.
    NO_ROUTE = 14,
    // TTL 0 or 1 on a packet that would be routed.
    TTL_EXPIRED = 15,
    // Longer than its next hop takes, and no load director's business.
    MTU_EXCEEDED = 16,
    // No `nexthop` entry.
    NEXTHOP_MISS = 17,
    // No `egress_port` entry, or no port that packets can leave by.
    EGRESS_UNKNOWN = 18
}

// Why a packet went to the controller (packet_in.reason).
enum bit<8> PuntReason {
    // Not sent to the controller.
    NONE = 0,
    // Any ARP packet.
    ARP = 1,
    // Addressed to the switch itself.
    LOCAL = 2
}

// Which way a packet that was not dropped went: the index into counter
// `path`. Each such packet counts once, except that FAST_INCOMPLETE is
// counted besides the way the packet then took.
enum bit<8> Path {
    // None yet; never counted.
    NONE = 0,
    // Rewritten, client to server.
    FAST_FWD = 1,
    // Rewritten, server to client.
    FAST_REV = 2,
    // To a load director, by the bucket of its hash.
    STEER_VIP = 3,
    // To a load director, by the slot of the local address.
    STEER_LIP = 4,
    // A fast hit too big for its next hop, to a load director.
    STEER_MTU = 5,
    // Transit, by the routing table.
    ROUTED = 6,
    // Out of a load director's tunnel, by the routing table.
    FROM_LD = 7,
    // To the controller.
    TO_CPU = 8,
    // From the controller.
    FROM_CPU = 9,
    // A flow entry hit, but `server`, `local` or `vip_out` had no entry.
    FAST_INCOMPLETE = 10
}

error {
    Ipv4BadVersion,
    Ipv4BadHeaderLength
}

#endif
