// The states of the parser, which the architecture's parser block includes
// in its body: its start state goes to `from_cpu` for frames of the
// controller and to `from_wire` for all others. In scope are `packet`, the
// input, and `hdr`, the headers.
//
// An error stops parsing where it stands; the first stage drops such a
// packet, whatever was read of it.

    // Frames from the controller are sent as they are; only a tag is looked
    // for, so that egress does not push a second one.
    state from_cpu {
        packet.extract(hdr.packet_out);
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_VLAN: parse_cpu_vlan;
            ETHERTYPE_QINQ: parse_cpu_vlan;
            default: accept;
        }
    }

    state parse_cpu_vlan {
        packet.extract(hdr.vlan);
        transition accept;
    }

    state from_wire {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_VLAN: parse_vlan;
            ETHERTYPE_QINQ: parse_vlan;
            default: accept;
        }
    }

    state parse_vlan {
        packet.extract(hdr.vlan);
        transition select(hdr.vlan.ether_type) {
            ETHERTYPE_IPV4: parse_ipv4;
            ETHERTYPE_ARP: parse_arp;
            ETHERTYPE_IPV6: parse_ipv6;
            ETHERTYPE_VLAN: parse_vlan_second;
            ETHERTYPE_QINQ: parse_vlan_second;
            default: accept;
        }
    }

    // Two tags are refused, so what follows them does not matter.
    state parse_vlan_second {
        packet.extract(hdr.vlan_second);
        transition accept;
    }

    state parse_arp {
        packet.extract(hdr.arp);
        transition accept;
    }

    state parse_ipv6 {
        packet.extract(hdr.ipv6);
        transition accept;
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.Ipv4BadVersion);
        verify(hdr.ipv4.ihl >= 5, error.Ipv4BadHeaderLength);
        transition select(hdr.ipv4.ihl) {
            5: parse_l4;
            default: parse_ipv4_options;
        }
    }

    state parse_ipv4_options {
        packet.extract(hdr.ipv4_options,
                       (bit<32>) (((bit<16>) hdr.ipv4.ihl - 5) << 5));
        transition parse_l4;
    }

    // Only a packet that is no fragment has L4: the first fragment has the
    // ports too, but it must go the way of those behind it.
    state parse_l4 {
        transition select(hdr.ipv4.fragment_offset, hdr.ipv4.more_fragments,
                          hdr.ipv4.protocol) {
            (0, 0, PROTOCOL_TCP): parse_tcp;
            (0, 0, PROTOCOL_UDP): parse_udp;
            (0, 0, PROTOCOL_ICMP): parse_icmp;
            default: accept;
        }
    }

    state parse_tcp {
        packet.extract(hdr.tcp);
        transition accept;
    }

    state parse_icmp {
        packet.extract(hdr.icmp);
        transition accept;
    }

    // The length keeps short datagrams to this port, which cannot hold a
    // tunnelled IPv4 packet, from being parsed past their end.
    state parse_udp {
        packet.extract(hdr.udp);
        transition select(hdr.udp.dst_port, hdr.udp.length) {
            (VXLAN_PORT, TUNNEL_OVERHEAD .. 0xFFFF): parse_vxlan;
            default: accept;
        }
    }

    state parse_vxlan {
        packet.extract(hdr.vxlan);
        packet.extract(hdr.inner_ethernet);
        transition select(hdr.inner_ethernet.ether_type) {
            ETHERTYPE_IPV4: parse_inner_ipv4;
            default: accept;
        }
    }

    state parse_inner_ipv4 {
        packet.extract(hdr.inner_ipv4);
        verify(hdr.inner_ipv4.version == 4, error.Ipv4BadVersion);
        verify(hdr.inner_ipv4.ihl >= 5, error.Ipv4BadHeaderLength);
        transition select(hdr.inner_ipv4.ihl) {
            5: parse_inner_l4;
            default: parse_inner_ipv4_options;
        }
    }

    state parse_inner_ipv4_options {
        packet.extract(hdr.inner_ipv4_options,
                       (bit<32>) (((bit<16>) hdr.inner_ipv4.ihl - 5) << 5));
        transition parse_inner_l4;
    }

    state parse_inner_l4 {
        transition select(hdr.inner_ipv4.fragment_offset,
                          hdr.inner_ipv4.more_fragments,
                          hdr.inner_ipv4.protocol) {
            (0, 0, PROTOCOL_TCP): parse_inner_tcp;
            (0, 0, PROTOCOL_UDP): parse_inner_udp;
            (0, 0, PROTOCOL_ICMP): parse_inner_icmp;
            default: accept;
        }
    }

    state parse_inner_tcp {
        packet.extract(hdr.inner_tcp);
        transition accept;
    }

    state parse_inner_udp {
        packet.extract(hdr.inner_udp);
        transition accept;
    }

    state parse_inner_icmp {
        packet.extract(hdr.inner_icmp);
        transition accept;
    }
