// Header layouts, and the one struct that holds them.

#ifndef GATEWAY_HEADERS_P4
#define GATEWAY_HEADERS_P4

// Before a frame that goes to the controller.
@controller_header("packet_in")
header packet_in_t {
    bit<16> ingress_port;
    PuntReason reason;
}

// Before a frame that comes from the controller.
@controller_header("packet_out")
header packet_out_t {
    bit<16> egress_port;
}

header ethernet_t {
    mac_t dst_addr;
    mac_t src_addr;
    bit<16> ether_type;
}

// IEEE 802.1Q, from the bits after the tag's own type.
header vlan_t {
    bit<3> pcp;
    bit<1> dei;
    vlan_id_t vid;
    bit<16> ether_type;
}

// RFC 826 for Ethernet and IPv4.
header arp_t {
    bit<16> hardware_type;
    bit<16> protocol_type;
    bit<8> hardware_len;
    bit<8> protocol_len;
    bit<16> operation;
    mac_t sender_mac;
    ipv4_addr_t sender_ip;
    mac_t target_mac;
    ipv4_addr_t target_ip;
}

// RFC 791, the fixed part.
header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> total_len;
    bit<16> identification;
    bit<1> reserved;
    bit<1> dont_fragment;
    bit<1> more_fragments;
    bit<13> fragment_offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
}

// A header of its own, so that packets without options (all but a few)
// never touch a field of variable length.
header ipv4_options_t {
    varbit<320> options;
}

// RFC 8200, the fixed part. Recognised, not yet forwarded.
header ipv6_t {
    bit<4> version;
    bit<8> traffic_class;
    bit<20> flow_label;
    bit<16> payload_len;
    bit<8> next_header;
    bit<8> hop_limit;
    bit<128> src_addr;
    bit<128> dst_addr;
}

// RFC 9293, the fixed part; options travel as payload.
header tcp_t {
    l4_port_t src_port;
    l4_port_t dst_port;
    bit<32> seq_no;
    bit<32> ack_no;
    bit<4> data_offset;
    bit<4> reserved;
    bit<1> cwr;
    bit<1> ece;
    bit<1> urg;
    bit<1> ack;
    bit<1> psh;
    bit<1> rst;
    bit<1> syn;
    bit<1> fin;
    bit<16> window;
    bit<16> checksum;
    bit<16> urgent;
}

// RFC 768.
header udp_t {
    l4_port_t src_port;
    l4_port_t dst_port;
    bit<16> length;
    bit<16> checksum;
}

// RFC 792, what every message has.
header icmp_t {
    bit<8> type;
    bit<8> code;
    bit<16> checksum;
}

// RFC 7348, with the group policy fields of draft-smith-vxlan-group-policy.
header vxlan_t {
    bit<8> flags;
    bit<8> policy_flags;
    bit<16> group_policy_id;
    vni_t vni;
    bit<8> reserved;
}

// Three packets at most lie one behind the other: the tunnel that this
// switch puts around (tunnel_*), the packet as received, and, if that is
// VXLAN, what it carries (inner_*). When our own tunnel ends here, inner_*
// moves up and the stages see an ordinary packet.
struct headers_t {
    packet_out_t packet_out;
    packet_in_t packet_in;
    ethernet_t ethernet;
    vlan_t vlan;
    vlan_t vlan_second;
    arp_t arp;
    ipv6_t ipv6;

    ipv4_t tunnel_ipv4;
    udp_t tunnel_udp;
    vxlan_t tunnel_vxlan;
    ethernet_t tunnel_ethernet;

    ipv4_t ipv4;
    ipv4_options_t ipv4_options;
    tcp_t tcp;
    udp_t udp;
    icmp_t icmp;
    vxlan_t vxlan;

    ethernet_t inner_ethernet;
    ipv4_t inner_ipv4;
    ipv4_options_t inner_ipv4_options;
    tcp_t inner_tcp;
    udp_t inner_udp;
    icmp_t inner_icmp;
}

#endif
