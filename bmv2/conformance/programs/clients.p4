// What the real clients exercise: every kind of match, counters, meters and
// registers, a selector, a digest, replication, idle timeouts, packet I/O.

#include "common.p4"

struct headers_t {
    packet_in_t  packet_in;
    packet_out_t packet_out;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
    ports_t      ports;
}

struct metadata_t {
    @field_list(1)
    bit<9> came_from;
    bit<2> colour;
}

struct seen_t {
    bit<48> mac;
    bit<9>  port;
}

parser Reading(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        transition select(s.ingress_port) {
            CPU_PORT: from_controller;
            default: ethernet;
        }
    }
    state from_controller {
        packet.extract(h.packet_out);
        transition ethernet;
    }
    state ethernet {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.protocol) {
            6: ports;
            17: ports;
            default: accept;
        }
    }
    state ports {
        packet.extract(h.ports);
        transition accept;
    }
}

control Check(inout headers_t h, inout metadata_t m) {
    apply { }
}

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(512, CounterType.packets_and_bytes) by_port;
    meter(16, MeterType.packets) rate;
    register<bit<32>>(16) last_source;
    direct_counter(CounterType.packets_and_bytes) host_hits;
    direct_counter(CounterType.packets) filter_hits;
    direct_meter<bit<2>>(MeterType.bytes) route_rate;

    action forward(bit<9> port) { s.egress_spec = port; }
    action to_controller() { s.egress_spec = CPU_PORT; }
    action drop() { mark_to_drop(s); }
    action broadcast(bit<16> group) { s.mcast_grp = group; }
    action mirror(bit<9> port) {
        clone_preserving_field_list(CloneType.I2E, 5, 1);
        s.egress_spec = port;
    }

    // The exact match.
    action host_forward(bit<9> port) { host_hits.count(); forward(port); }
    action host_to_controller() { host_hits.count(); to_controller(); }
    action host_broadcast(bit<16> group) { host_hits.count(); broadcast(group); }
    action host_mirror(bit<9> port) { host_hits.count(); mirror(port); }
    action host_miss() { host_hits.count(); }
    table host {
        key = { h.ethernet.dst: exact @name("dst"); }
        actions = { host_forward; host_to_controller; host_broadcast; host_mirror; host_miss; }
        default_action = host_miss();
        counters = host_hits;
        support_timeout = true;
        size = 1024;
    }

    // The longest prefix, with a meter.
    action route_to(bit<9> port, bit<48> next_hop) {
        route_rate.read(m.colour);
        s.egress_spec = port;
        h.ethernet.src = h.ethernet.dst;
        h.ethernet.dst = next_hop;
        h.ipv4.ttl = h.ipv4.ttl - 1;
    }
    action route_drop() { route_rate.read(m.colour); mark_to_drop(s); }
    action no_route() { route_rate.read(m.colour); }
    table route {
        key = { h.ipv4.dst: lpm @name("dst"); }
        actions = { route_to; route_drop; no_route; }
        default_action = no_route();
        meters = route_rate;
        size = 256;
    }

    // Ternary, range and optional.
    action permit() { filter_hits.count(); }
    action deny() { filter_hits.count(); mark_to_drop(s); exit; }
    action redirect(bit<9> port) { filter_hits.count(); s.egress_spec = port; exit; }
    table filter {
        key = {
            h.ipv4.src: ternary @name("src");
            h.ipv4.protocol: optional @name("protocol");
            h.ports.dst: range @name("port");
        }
        actions = { permit; deny; redirect; }
        default_action = permit();
        counters = filter_hits;
        size = 128;
    }

    // A selector over the sources.
    action_selector(HashAlgorithm.crc16, 64, 16) paths;
    table balance {
        key = {
            h.ethernet.src: exact @name("src");
            h.ipv4.src: selector;
            h.ipv4.dst: selector;
        }
        actions = { forward; drop; NoAction; }
        implementation = paths;
        size = 64;
    }

    // A profile without a selector.
    action_profile(32) marks;
    action mark(bit<8> tos) { h.ipv4.tos = tos; }
    table marking {
        key = { h.ipv4.protocol: exact @name("protocol"); }
        actions = { mark; NoAction; }
        implementation = marks;
        size = 64;
    }

    // Whose source is not here is reported.
    table known {
        key = { h.ethernet.src: exact @name("src"); }
        actions = { NoAction; }
        default_action = NoAction();
        size = 1024;
    }

    apply {
        m.came_from = s.ingress_port;
        by_port.count((bit<32>) s.ingress_port);
        if (h.packet_out.isValid()) {
            bit<9> to = h.packet_out.egress_port;
            bit<7> through = h.packet_out.through;
            h.packet_out.setInvalid();
            if (through == 0) {
                s.egress_spec = to;
                exit;
            }
        }
        if (!known.apply().hit) {
            digest<seen_t>(1, { h.ethernet.src, m.came_from });
        }
        if (h.ipv4.isValid()) {
            last_source.write((bit<32>) h.ipv4.dst[3:0], h.ipv4.src);
            bit<2> colour;
            rate.execute_meter((bit<32>) h.ipv4.dst[3:0], colour);
            h.ipv4.flags[1:0] = colour;
            filter.apply();
            marking.apply();
            route.apply();
        }
        if (!host.apply().hit) {
            balance.apply();
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (s.egress_port == CPU_PORT) {
            h.packet_in.setValid();
            h.packet_in.ingress_port = m.came_from;
            h.packet_in.reason = (bit<7>) s.instance_type[6:0];
        }
    }
}

control Sums(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.ipv4.isValid(),
            { h.ipv4.version, h.ipv4.words, h.ipv4.tos, h.ipv4.length, h.ipv4.id, h.ipv4.flags,
              h.ipv4.offset, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.src, h.ipv4.dst },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.packet_in);
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.ports);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
