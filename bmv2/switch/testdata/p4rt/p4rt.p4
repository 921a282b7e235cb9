// A program with one of everything that P4Runtime can reach, for the tests of
// the P4Runtime server; with -DNEXT its successor, which adds a table, swaps
// the parameters of an action and drops a table.
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 510;

@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;
}

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<7> pad;
}

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}

header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> diffserv;
    bit<16> total_len;
    bit<16> id;
    bit<16> fragment;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}

struct headers_t {
    packet_in_t packet_in;
    packet_out_t packet_out;
    ethernet_t ethernet;
    ipv4_t ipv4;
}

struct metadata_t {
    bit<16> class;
}

struct mac_learn_t {
    bit<48> src;
    bit<9> port;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x0800: parse_ipv4;
            default: accept;
        }
    }
    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        transition accept;
    }
}

control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyIngress(inout headers_t hdr, inout metadata_t meta,
                  inout standard_metadata_t std) {
    counter(64, CounterType.packets_and_bytes) port_rx;
    meter(16, MeterType.bytes) port_meter;
    register<bit<32>>(32) last_len;
    direct_counter(CounterType.packets_and_bytes) l2_counter;
    direct_meter<bit<2>>(MeterType.packets) acl_meter;
    action_selector(HashAlgorithm.crc16, 64, 14) ecmp;

    bit<2> colour = 0;

    action drop() {
        mark_to_drop(std);
    }

    action flood(bit<16> group) {
        std.mcast_grp = group;
    }

    action punt(bit<7> reason) {
        hdr.packet_in.setValid();
        hdr.packet_in.ingress_port = std.ingress_port;
        hdr.packet_in.reason = reason;
        std.egress_spec = CPU_PORT;
    }

    action set_class(bit<16> class) {
        meta.class = class;
    }

    action allow() {
        acl_meter.read(colour);
    }

#ifdef NEXT
    action set_nexthop(bit<48> dst, bit<9> port) {
#else
    action set_nexthop(bit<9> port, bit<48> dst) {
#endif
        std.egress_spec = port;
        hdr.ethernet.dst = dst;
    }

    action learn() {
        digest<mac_learn_t>(1, { hdr.ethernet.src, std.ingress_port });
    }

    action counted_forward(bit<9> port) {
        std.egress_spec = port;
        l2_counter.count();
    }

    // Exact, with idle timeout and a direct counter.
    table l2 {
        key = { hdr.ethernet.dst: exact; }
        actions = { counted_forward; @defaultonly drop; @defaultonly punt; @tableonly flood; NoAction; }
        default_action = drop();
        counters = l2_counter;
        support_timeout = true;
        size = 1048576;
    }

#ifdef NEXT
    table types {
        key = { hdr.ethernet.type: exact; }
        actions = { drop; NoAction; }
        default_action = NoAction();
        size = 16;
    }
#else
    table smac {
        key = { hdr.ethernet.src: exact; }
        actions = { learn; NoAction; }
        default_action = NoAction();
        size = 1024;
    }
#endif

    // Ternary, range and optional, with a direct meter.
    table acl {
        key = {
            hdr.ipv4.src: ternary;
            hdr.ipv4.protocol: range;
            std.ingress_port: optional;
        }
        actions = { allow; drop; NoAction; }
        default_action = NoAction();
        meters = acl_meter;
        size = 4;
    }

    // Longest prefix, through a selector.
    table routes {
        key = {
            hdr.ipv4.dst: lpm;
            hdr.ipv4.src: selector;
            hdr.ipv4.id: selector;
        }
        actions = { set_nexthop; drop; NoAction; }
        implementation = ecmp;
        size = 1024;
    }

    table classes {
        key = { hdr.ipv4.diffserv: exact; }
        actions = { set_class; NoAction; }
        const default_action = NoAction();
        const entries = {
            0x00 : set_class(1);
            0xb8 : set_class(46);
        }
    }

    apply {
        if (hdr.packet_out.isValid()) {
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
        } else {
            port_rx.count((bit<32>) std.ingress_port);
            port_meter.execute_meter((bit<32>) std.ingress_port, colour);
            last_len.write((bit<32>) std.ingress_port, (bit<32>) std.packet_length);
#ifdef NEXT
            types.apply();
#else
            smac.apply();
#endif
            if (l2.apply().miss) {
                if (hdr.ipv4.isValid()) {
                    classes.apply();
                    acl.apply();
                    routes.apply();
                }
            }
        }
    }
}

control MyEgress(inout headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t std) {
    apply { }
}

control MyCompute(inout headers_t hdr, inout metadata_t meta) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyCompute(), MyDeparser()) main;
