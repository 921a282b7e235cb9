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
    NONE = 0,
    UPLINK = 1,
    FABRIC = 2,
    LD = 3
}

// Why a packet was dropped: the index into counter `drop`. A packet has one
// reason, the first that applies in pipeline order.
enum bit<8> DropReason {
    NONE = 0,
    PARSER_ERROR = 1,
    PORT_UNKNOWN = 2,
    VLAN_STACK = 3,
    NOT_FOR_US = 4,
    UNSUPPORTED_ETHERTYPE = 5,
    BAD_IPV4_CHECKSUM = 6,
    BAD_IPV4_LENGTH = 7,
    MARTIAN_SOURCE = 8,
    TUNNEL_REFUSED = 9,
    TUNNEL_INVALID = 10,
    VIP_NO_PORT = 11,
    REPLY_SOURCE_MISMATCH = 12,
    STEERING_MISS = 13,
    NO_ROUTE = 14,
    TTL_EXPIRED = 15,
    MTU_EXCEEDED = 16,
    NEXTHOP_MISS = 17,
    EGRESS_UNKNOWN = 18
}

// Why a packet went to the controller (packet_in.reason).
enum bit<8> PuntReason {
    NONE = 0,
    ARP = 1,
    LOCAL = 2
}

// Which way a packet that was not dropped went: the index into counter
// `path`. Each such packet counts once, except that FAST_INCOMPLETE is
// counted besides the way the packet then took.
enum bit<8> Path {
    NONE = 0,
    FAST_FWD = 1,
    FAST_REV = 2,
    STEER_VIP = 3,
    STEER_LIP = 4,
    STEER_MTU = 5,
    ROUTED = 6,
    FROM_LD = 7,
    TO_CPU = 8,
    FROM_CPU = 9,
    FAST_INCOMPLETE = 10
}

// What a packet's destination is; never leaves the pipeline.
enum bit<8> PacketClass {
    TRANSIT = 0,
    VIP = 1,
    LIP = 2
}

error {
    Ipv4BadVersion,
    Ipv4BadHeaderLength
}

#endif
