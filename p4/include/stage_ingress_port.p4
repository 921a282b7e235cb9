// Stage 1: who sent this? The port and its VLAN give the role, the tenant
// and the MAC address that is ours there.

#ifndef GATEWAY_STAGE_INGRESS_PORT_P4
#define GATEWAY_STAGE_INGRESS_PORT_P4

control IngressPort(inout headers_t hdr, inout metadata_t meta) {
    action set_port(PortRole role, vni_t vni, mac_t mac) {
        meta.role = role;
        meta.vni = vni;
        meta.port_mac = mac;
    }

    table ingress_port {
        key = {
            meta.ingress_port : exact @name("port");
            meta.vid : exact @name("vid");
        }
        actions = {
            set_port;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_INGRESS_PORTS;
    }

    apply {
        // A priority tag (VLAN id 0) is the same as no tag.
        if (hdr.vlan.isValid()) {
            meta.vid = hdr.vlan.vid;
        }

        if (!ingress_port.apply().hit) {
            meta.drop_reason = DropReason.PORT_UNKNOWN;
        } else if (hdr.vlan_second.isValid()) {
            meta.drop_reason = DropReason.VLAN_STACK;
        } else if (hdr.arp.isValid()) {
            // Requests are broadcast, so the MAC check comes after.
            meta.punt_reason = PuntReason.ARP;
        } else if (hdr.ethernet.dst_addr != meta.port_mac) {
            meta.drop_reason = DropReason.NOT_FOR_US;
        } else if (!hdr.ipv4.isValid()) {
            meta.drop_reason = DropReason.UNSUPPORTED_ETHERTYPE;
        }
    }
}

#endif
