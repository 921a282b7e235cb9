// Stage 5: established sessions. A flow entry holds ids; the small tables
// behind them hold the rewrite. SYN, FIN and RST never come here, so a load
// director sees the beginning and the end of every connection.

#ifndef GATEWAY_STAGE_FAST_PATH_P4
#define GATEWAY_STAGE_FAST_PATH_P4

control FastPath(inout headers_t hdr, inout metadata_t meta) {
    FLOW_FWD_COUNTER(flow_fwd_v4_counter)
    FLOW_REV_COUNTER(flow_rev_v4_counter)

    bool hit;
    bool complete;

    // Client to server.
    action fwd(server_id_t server_id, local_id_t local_id, l4_port_t local_port) {
        hit = true;
        meta.server_id = server_id;
        meta.flow_local_id = local_id;
        meta.new_src_port = local_port;
    }

    // Server to client. The service's port stands here and not in vip_out: a
    // service on a range of ports has one for each session.
    action rev(ipv4_addr_t client_addr, l4_port_t client_port,
               vip_id_t vip_id, l4_port_t vip_port, server_id_t server_id) {
        hit = true;
        meta.new_dst_addr = client_addr;
        meta.new_dst_port = client_port;
        meta.flow_vip_id = vip_id;
        meta.new_src_port = vip_port;
        meta.server_id = server_id;
    }

    // Port 0: the service's port is kept (a service on a range of ports).
    action set_server(ipv4_addr_t addr, l4_port_t port) {
        meta.server_addr = addr;
        meta.server_port = port;
    }

    action set_local(ipv4_addr_t addr) {
        meta.new_src_addr = addr;
    }

    action set_vip_out(ipv4_addr_t addr) {
        meta.new_src_addr = addr;
    }

    table flow_fwd_v4 {
        key = {
            meta.vip_id : exact @name("vip_id");
            meta.dst_port : exact @name("vip_port");
            hdr.ipv4.src_addr : exact @name("client_addr");
            meta.src_port : exact @name("client_port");
        }
        actions = {
            fwd;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_FLOWS;
        WITH_IDLE_TIMEOUT
        FLOW_FWD_COUNTED_BY(flow_fwd_v4_counter)
    }

    table flow_rev_v4 {
        key = {
            meta.local_id : exact @name("local_id");
            meta.dst_port : exact @name("local_port");
            hdr.ipv4.protocol : exact @name("protocol");
        }
        actions = {
            rev;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_FLOWS;
        WITH_IDLE_TIMEOUT
        FLOW_REV_COUNTED_BY(flow_rev_v4_counter)
    }

    table server {
        key = {
            meta.server_id : exact @name("server_id");
        }
        actions = {
            set_server;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_SERVERS;
    }

    table local {
        key = {
            meta.flow_local_id : exact @name("local_id");
        }
        actions = {
            set_local;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_LOCALS;
    }

    table vip_out {
        key = {
            meta.flow_vip_id : exact @name("vip_id");
        }
        actions = {
            set_vip_out;
            @defaultonly NoAction;
        }
        const default_action = NoAction();
        size = MAX_VIPS;
    }

    apply {
        hit = false;
        complete = false;

        // What a load director would drop as malformed is its to drop.
        bit<16> l4_len = hdr.ipv4.total_len - ((bit<16>) hdr.ipv4.ihl << 2);
        bool eligible = (hdr.udp.isValid() && hdr.udp.length >= 8
                && hdr.udp.length <= l4_len)
            || (hdr.tcp.isValid() && hdr.tcp.syn == 0 && hdr.tcp.fin == 0
                && hdr.tcp.rst == 0 && hdr.tcp.data_offset >= 5
                && ((bit<16>) hdr.tcp.data_offset << 2) <= l4_len);

        if (eligible) {
            if (meta.packet_class == PacketClass.VIP) {
                flow_fwd_v4.apply();
            } else {
                flow_rev_v4.apply();
            }
        }

        if (hit) {
            // An entry of the small tables may be missing for a moment (a
            // restart, a reconciliation): then the packet goes the slow
            // way, which is always right.
            if (server.apply().hit) {
                if (meta.packet_class == PacketClass.VIP) {
                    meta.new_dst_addr = meta.server_addr;
                    meta.new_dst_port = meta.server_port;
                    if (meta.server_port == 0) {
                        meta.new_dst_port = meta.dst_port;
                    }
                    if (local.apply().hit) {
                        complete = true;
                    }
                } else {
                    if (meta.server_port == 0) {
                        meta.server_port = meta.new_src_port;
                    }
                    if (hdr.ipv4.src_addr != meta.server_addr
                        || meta.src_port != meta.server_port) {
                        // Somebody else knows the local port; a session
                        // belongs to one server.
                        meta.drop_reason = DropReason.REPLY_SOURCE_MISMATCH;
                    } else if (vip_out.apply().hit) {
                        // For the books: which service this reply is of.
                        meta.vip_id = meta.flow_vip_id;
                        complete = true;
                    }
                }
            }
            meta.fast = complete;
            meta.fast_incomplete = !complete;
        }
    }
}

#endif
