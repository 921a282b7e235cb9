// Value sets of every kind of key. The port that a packet leaves by says which
// of them its fields were in.

#include <core.p4>
#include <v1model.p4>

header fields_t {
    bit<16> exact_;
    bit<12> ternary_;
    bit<4>  filler;
    bit<32> lpm_;
    bit<16> range_;
    bit<8>  optional_;
    bit<72> wide;
    bit<8>  next;
}
struct headers_t { fields_t fields; }
struct metadata_t { }

struct mixed_t {
    bit<16> exact_;
    @match(ternary) bit<12> ternary_;
    @match(lpm) bit<32> lpm_;
    @match(range) bit<16> range_;
    @match(optional) bit<8> optional_;
}
struct wide_t {
    @match(range) bit<72> wide;
    bit<4> filler;
}

parser Reading(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<mixed_t>(4) mixed;
    value_set<wide_t>(2) wide;
    value_set<bit<8>>(3) behind;
    state start {
        packet.extract(hdr.fields);
        transition select(hdr.fields.exact_, hdr.fields.ternary_, hdr.fields.lpm_, hdr.fields.range_, hdr.fields.optional_) {
            mixed: in_mixed;
            default: look_at_wide;
        }
    }
    state in_mixed {
        std.egress_spec = 1;
        transition accept;
    }
    state look_at_wide {
        transition select(hdr.fields.wide, hdr.fields.filler) {
            wide: in_wide;
            default: look_behind;
        }
    }
    state in_wide {
        std.egress_spec = 2;
        transition accept;
    }
    state look_behind {
        transition select(packet.lookahead<bit<8>>()) {
            behind: in_behind;
            default: accept;
        }
    }
    state in_behind {
        std.egress_spec = 3;
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Sending(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_spec == 0) {
            mark_to_drop(std);
        }
    }
}
control Leaving(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Writing(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }

V1Switch(Reading(), Verify(), Sending(), Leaving(), Compute(), Writing()) main;
