// What the switch can do beside matching: the packet's first byte says what
// is wanted of it.
#include <core.p4>
#define V1MODEL_VERSION 20200408
#include <v1model.p4>

const bit<8> OP_FORWARD = 0;
const bit<8> OP_DROP = 1;
const bit<8> OP_MULTICAST = 2;
const bit<8> OP_CLONE_INGRESS = 3;
const bit<8> OP_CLONE_EGRESS = 4;
const bit<8> OP_RESUBMIT = 5;
const bit<8> OP_RECIRCULATE = 6;
const bit<8> OP_DIGEST = 7;
const bit<8> OP_REGISTER = 8;
const bit<8> OP_METER = 9;
const bit<8> OP_HASH = 10;
const bit<8> OP_TRUNCATE = 11;
const bit<8> OP_SELECT = 12;
const bit<8> OP_TO_CPU = 13;
const bit<8> OP_ENDLESS = 14;
const bit<8> OP_EGRESS_DROP = 15;
const bit<8> OP_IDLE = 16;
const bit<8> OP_ASSERT = 17;
const bit<8> OP_WIDE_REGISTER = 18;
const bit<8> OP_DIRECT_METER = 19;
const bit<8> OP_DROP_BY_COPY = 20;
const bit<8> OP_WIDE_METER = 21;

header cmd_t {
    bit<8>  op;
    bit<8>  arg;
    bit<16> value;
    bit<8>  instance;     // instance_type as egress sees it
    bit<8>  rid;          // egress_rid
    bit<8>  kept;         // metadata that a copy keeps
    bit<8>  lost;         // metadata that a copy loses
    bit<16> port;         // ingress_port as egress sees it
    bit<16> length;       // packet_length as egress sees it
}

header sum_t {
    bit<16> checksum;
    bit<16> data;
}

@controller_header("packet_in")
header packet_in_t { bit<16> ingress_port; }
@controller_header("packet_out")
header packet_out_t { bit<16> egress_port; }

struct headers_t {
    packet_out_t packet_out;
    packet_in_t  packet_in;
    cmd_t        cmd;
    sum_t        sum;
}

struct seen_t {
    bit<8>  arg;
    bit<16> value;
    bit<9>  port;
}

struct metadata_t {
    @field_list(1) bit<8> kept;
    bit<8> lost;
    bit<2> colour;
    bit<200> wide_colour;
    bool   bad_sum;
}

// Called from a table, it works on a copy of the metadata.
action drop_by_copy(inout standard_metadata_t any) {
    mark_to_drop(any);
}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    value_set<bit<8>>(4) summed;
    state start {
        transition select(std.ingress_port) {
            510: from_cpu;
            default: cmd;
        }
    }
    state from_cpu {
        packet.extract(hdr.packet_out);
        transition cmd;
    }
    state cmd {
        packet.extract(hdr.cmd);
        transition select(hdr.cmd.arg) {
            summed: sum;
            default: accept;
        }
    }
    state sum {
        packet.extract(hdr.sum);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.sum.isValid(), { hdr.cmd.op, hdr.cmd.arg, hdr.sum.data },
                        hdr.sum.checksum, HashAlgorithm.csum16);
    }
}

control In(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    counter<bit<8>>(32, CounterType.packets_and_bytes) by_op;
    register<bit<16>, bit<8>>(8) cells;
    register<bit<100>, bit<8>>(2) wide_cells;
    meter<bit<8>>(4, MeterType.packets) limits;
    direct_meter<bit<2>>(MeterType.bytes) flow_limit;
    direct_meter<bit<200>>(MeterType.packets) wide_limit;
    direct_counter(CounterType.packets) flow_counter;
    action_selector(HashAlgorithm.crc16, 64, 16) members;

    action to(bit<9> port) { std.egress_spec = port; }
    action drop() { mark_to_drop(std); }

    table select_port {
        key = { hdr.cmd.arg : exact; hdr.cmd.value : selector; }
        actions = { to; drop; NoAction; }
        default_action = drop();
        implementation = members;
        size = 16;
    }
    table idle {
        key = { hdr.cmd.arg : exact; }
        actions = { to; NoAction; }
        default_action = NoAction();
        support_timeout = true;
        counters = flow_counter;
        size = 16;
    }
    table copy_dropping {
        key = { hdr.cmd.arg : exact; }
        actions = { drop_by_copy(std); NoAction; }
        default_action = drop_by_copy(std);
        size = 16;
    }
    action colour_it() { flow_limit.read(meta.colour); }
    table metered {
        key = { hdr.cmd.arg : exact; }
        actions = { colour_it; NoAction; }
        default_action = NoAction();
        meters = flow_limit;
        size = 16;
    }
    action colour_widely() { wide_limit.read(meta.wide_colour); }
    table metered_widely {
        key = { hdr.cmd.arg : exact; }
        actions = { colour_widely; NoAction; }
        default_action = NoAction();
        meters = wide_limit;
        size = 16;
    }

    apply {
        if (std.parser_error != error.NoError) {
            mark_to_drop(std);
            exit;
        }
        if (hdr.packet_out.isValid()) {
            std.egress_spec = (bit<9>) hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            exit;
        }
        by_op.count(hdr.cmd.op);
        std.egress_spec = 1;
        bit<8> op = hdr.cmd.op;
        bit<8> again = 0;
        if (std.instance_type == 6 || std.instance_type == 4) {
            again = 1;
        } else {
            meta.kept = 0x5a;
            meta.lost = 0xa5;
        }
        if (std.checksum_error == 1) {
            hdr.cmd.value = 0xbad;
        }
        if (op == OP_DROP) {
            std.mcast_grp = 1;
            mark_to_drop(std);
        } else if (op == OP_MULTICAST) {
            mark_to_drop(std);
            std.mcast_grp = hdr.cmd.value;
        } else if (op == OP_CLONE_INGRESS) {
            clone_preserving_field_list(CloneType.I2E, (bit<32>) hdr.cmd.arg, 1);
            hdr.cmd.value = 0xffff;
        } else if (op == OP_RESUBMIT && again == 0) {
            hdr.cmd.value = 0xffff;
            resubmit_preserving_field_list(1);
        } else if (op == OP_DIGEST) {
            digest<seen_t>(1, { hdr.cmd.arg, hdr.cmd.value, std.ingress_port });
        } else if (op == OP_REGISTER) {
            bit<16> old;
            cells.read(old, hdr.cmd.arg);
            cells.write(hdr.cmd.arg, old + hdr.cmd.value);
            hdr.cmd.value = old;
        } else if (op == OP_WIDE_REGISTER) {
            bit<100> old;
            wide_cells.read(old, hdr.cmd.arg);
            wide_cells.write(hdr.cmd.arg, (old << 16) | (bit<100>) hdr.cmd.value);
            hdr.cmd.value = (bit<16>) (old >> 80);
        } else if (op == OP_METER) {
            limits.execute_meter(hdr.cmd.arg, meta.colour);
            hdr.cmd.value = (bit<16>) meta.colour;
        } else if (op == OP_DIRECT_METER) {
            metered.apply();
            hdr.cmd.value = (bit<16>) meta.colour;
        } else if (op == OP_WIDE_METER) {
            meta.wide_colour = ~200w0;
            metered_widely.apply();
            hdr.cmd.value = (bit<16>) meta.wide_colour;
            if (meta.wide_colour >> 16 != 0) {
                hdr.cmd.value = 0xbad;
            }
        } else if (op == OP_HASH) {
            hash(hdr.cmd.value, HashAlgorithm.crc16, 16w100,
                 { hdr.cmd.op, hdr.cmd.arg, hdr.cmd.value }, 16w1000);
        } else if (op == OP_TRUNCATE) {
            truncate((bit<32>) hdr.cmd.value);
        } else if (op == OP_SELECT) {
            select_port.apply();
        } else if (op == OP_TO_CPU) {
            std.egress_spec = 510;
        } else if (op == OP_ENDLESS) {
            resubmit_preserving_field_list(1);
        } else if (op == OP_IDLE) {
            idle.apply();
        } else if (op == OP_DROP_BY_COPY) {
            std.mcast_grp = 1;
            copy_dropping.apply();
        } else if (op == OP_ASSERT) {
            assert(hdr.cmd.arg != 0);
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t std) {
    apply {
        if (!hdr.cmd.isValid()) {
            exit;
        }
        if (std.egress_port == 510) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = (bit<16>) std.ingress_port;
        }
        hdr.cmd.instance = (bit<8>) std.instance_type;
        hdr.cmd.rid = (bit<8>) std.egress_rid;
        hdr.cmd.kept = meta.kept;
        hdr.cmd.lost = meta.lost;
        hdr.cmd.port = (bit<16>) std.ingress_port;
        hdr.cmd.length = (bit<16>) std.packet_length;
        if (hdr.cmd.op == OP_CLONE_EGRESS && std.instance_type == 0) {
            hdr.cmd.value = 0xeeee;
            clone_preserving_field_list(CloneType.E2E, (bit<32>) hdr.cmd.arg, 1);
        }
        if (hdr.cmd.op == OP_RECIRCULATE && std.instance_type == 0 && hdr.cmd.arg == 0) {
            hdr.cmd.arg = 1;
            hdr.cmd.value = hdr.cmd.value + 1;
            recirculate_preserving_field_list(1);
        }
        if (hdr.cmd.op == OP_EGRESS_DROP) {
            mark_to_drop(std);
        }
    }
}

control C(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.sum.isValid(), { hdr.cmd.op, hdr.cmd.arg, hdr.sum.data },
                        hdr.sum.checksum, HashAlgorithm.csum16);
    }
}

control D(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.cmd);
        packet.emit(hdr.sum);
    }
}

V1Switch(P(), V(), In(), Out(), C(), D()) main;
