// Copies in all combinations: the bits of a request say what is asked for at
// once. What leaves tells what came through. And checksums over payload, with
// conditions.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header request_t {
    bit<1>  clone_in;
    bit<1>  multicast;
    bit<1>  resubmit;
    bit<1>  recirculate;
    bit<1>  clone_out;
    bit<1>  drop_in;
    bit<1>  drop_out;
    bit<1>  cut;
    bit<8>  session;
    bit<16> group;
    bit<8>  port;
    bit<8>  sums; // which of the checksums apply
    bit<16> sum;
    bit<16> payload_sum;
    bit<32> crc;
}
header seen_t {
    bit<8>  instance;
    bit<8>  rid;
    bit<16> port;
    bit<16> ingress_port;
    bit<16> length;
    bit<8>  kept;
    bit<8>  also_kept;
    bit<8>  lost;
    bit<8>  passes;
    bit<8>  bad_sum;
}
header added_t { bit<32> words; }

struct inner_t {
    @field_list(1, 3)
    bit<8> also_kept;
}
struct headers_t {
    ethernet_t ethernet;
    seen_t     seen;
    added_t    added;
    request_t  request;
}
struct metadata_t {
    @field_list(1, 2)
    bit<8>  kept;
    inner_t inner;
    bit<8>  lost;
    @field_list(1, 2, 3)
    bit<8>  passes;
}

parser Reading(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) {
            0x88B5: request;
            0x88B6: seen;
            default: accept;
        }
    }
    state seen {
        packet.extract(h.seen);
        transition request;
    }
    state request {
        packet.extract(h.request);
        transition accept;
    }
}

control Check(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.request.isValid() && h.request.sums[0:0] == 1,
            { h.request.session, h.request.group, h.ethernet.src }, h.request.sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.request.isValid() && h.request.sums[1:1] == 1,
            { h.request.session, h.request.port }, h.request.payload_sum, HashAlgorithm.csum16);
        verify_checksum_with_payload(h.request.isValid() && h.request.sums[2:2] == 1,
            { h.request.group }, h.request.crc, HashAlgorithm.crc32);
    }
}

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        if (h.request.isValid()) {
            s.egress_spec = (bit<9>) h.request.port & 3;
            m.passes = m.passes + 1;
            m.kept = m.kept + 0x11;
            m.inner.also_kept = m.inner.also_kept + 0x22;
            m.lost = 0x33;
            // More at every pass, to see what is kept.
            // bmv2's queues take 64 packets: copies must not multiply.
            if (h.request.clone_in == 1 && s.instance_type != 4) {
                if (h.request.session[0:0] == 1) {
                    clone_preserving_field_list(CloneType.I2E, (bit<32>) h.request.session, 1);
                } else {
                    clone(CloneType.I2E, (bit<32>) h.request.session);
                }
                h.request.crc = 0xC1C1C1C1;
            }
            if (h.request.drop_in == 1) { mark_to_drop(s); }
            if (h.request.multicast == 1 && s.instance_type != 4) { s.mcast_grp = h.request.group; }
            if (h.request.resubmit == 1 && m.passes < 2) { resubmit_preserving_field_list(2); }
            if (h.request.cut == 1) { truncate((bit<32>) h.request.group + 34); }
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.request.isValid()) {
            if (!h.seen.isValid()) {
                h.seen.setValid();
                h.ethernet.kind = 0x88B6;
                h.seen.passes = 0;
            }
            h.seen.instance = (bit<8>) s.instance_type;
            h.seen.rid = (bit<8>) s.egress_rid;
            h.seen.port = (bit<16>) s.egress_port;
            h.seen.ingress_port = (bit<16>) s.ingress_port;
            h.seen.length = (bit<16>) s.packet_length;
            h.seen.kept = m.kept;
            h.seen.also_kept = m.inner.also_kept;
            h.seen.lost = m.lost;
            h.seen.passes = h.seen.passes + 1;
            h.seen.bad_sum = (bit<8>) s.checksum_error;
            if (h.request.clone_out == 1 && s.instance_type != 2 && h.seen.passes < 2) {
                m.kept = m.kept + 1;
                clone_preserving_field_list(CloneType.E2E, (bit<32>) h.request.session + 1, 3);
                h.added.setValid();
                h.added.words = 0xADADADAD;
            }
            if (h.request.recirculate == 1 && h.seen.passes < 2) {
                m.inner.also_kept = m.inner.also_kept + 1;
                recirculate_preserving_field_list(1);
                h.added.setInvalid();
            }
            if (h.request.drop_out == 1 && s.egress_port == 3) { mark_to_drop(s); }
        }
    }
}

control Sums(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.request.isValid() && h.request.sums[3:3] == 1,
            { h.request.session, h.request.group, h.seen.port }, h.request.sum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.request.isValid() && h.request.sums[4:4] == 1,
            { h.request.session, h.seen.instance }, h.request.payload_sum, HashAlgorithm.csum16);
        update_checksum_with_payload(h.request.isValid() && h.request.sums[5:5] == 1,
            { h.seen.length, h.seen.rid }, h.request.crc, HashAlgorithm.crc32);
        update_checksum(h.request.isValid() && h.request.sums[6:6] == 1,
            { h.ethernet.src, h.seen.rid }, h.request.sum, HashAlgorithm.crc16);
        update_checksum_with_payload(h.request.isValid() && h.request.sums[7:7] == 1,
            { h.ethernet.dst }, h.request.payload_sum, HashAlgorithm.xor16);
    }
}

control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.seen);
        packet.emit(h.request);
        packet.emit(h.added);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
