// What the stages tell each other about one packet. All zero at the start.

#ifndef GATEWAY_METADATA_P4
#define GATEWAY_METADATA_P4

// What a packet's destination is; never leaves the pipeline.
enum bit<8> PacketClass {
    TRANSIT = 0,
    VIP = 1,
    LIP = 2
}

struct metadata_t {
    // ---- Filled by the architecture before the first stage
    port_t ingress_port;
    bit<16> frame_len;
    bool parser_failed;
    bool checksum_failed;

    // ---- The verdict. A packet with a drop or punt reason passes the
    // remaining stages untouched.
    DropReason drop_reason;
    PuntReason punt_reason;
    port_t egress_port;
    Path path;

    // ---- Ingress port
    PortRole role;
    vni_t vni;
    vlan_id_t vid;
    mac_t port_mac;

    // ---- Tunnel end
    bool from_tunnel;

    // ---- L4 view: ports are zero where a packet has none to look at
    bool has_ports;
    l4_port_t src_port;
    l4_port_t dst_port;

    // ---- Class
    PacketClass packet_class;
    vip_id_t vip_id;
    group_t group;
    local_id_t local_id;
    slot_t slot;

    // ---- Fast path
    bool fast;
    bool fast_incomplete;
    server_id_t server_id;
    // What the flow entry says, as keys of the small tables.
    local_id_t flow_local_id;
    vip_id_t flow_vip_id;
    ipv4_addr_t server_addr;
    l4_port_t server_port;
    ipv4_addr_t new_src_addr;
    ipv4_addr_t new_dst_addr;
    l4_port_t new_src_port;
    l4_port_t new_dst_port;

    // ---- Steering and routing
    bool steered;
    bool routed;
    bit<32> flow_hash;
    bucket_t bucket;
    nexthop_id_t nexthop_id;
    bit<16> mtu;

    // ---- Next hop
    bool encapsulate;
    ipv4_addr_t tunnel_src;
    ipv4_addr_t tunnel_dst;

    // ---- Checksum sums. Each starts at zero with the packet and is only ever
    // added to: a sum assigned as a whole would be copied by the compiler
    // into every place that reads it, four times over for each carry.
    bit<32> inner_sum;
    bit<32> ipv4_sum;
    bit<32> l4_sum;
    bit<32> tunnel_sum;

    // ---- Egress port
    bool push_tag;
    vlan_id_t push_vid;
}

// True while a packet still looks for its way.
#define UNDECIDED(meta) \
    (meta.drop_reason == DropReason.NONE && meta.punt_reason == PuntReason.NONE)

#endif
