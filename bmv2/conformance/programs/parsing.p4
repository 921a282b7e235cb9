// Parsing: a stack of labels, options of variable length, lookahead, verify,
// a union, errors. What was found is written into a trailer's fields.

#include <core.p4>
#include <v1model.p4>

error { BadVersion, TooManyLabels }

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header label_t { bit<20> value; bit<3> class; bit<1> last; bit<8> ttl; }
header options_t { varbit<320> data; }
header ipv4_t {
    bit<4>  version;
    bit<4>  words;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<3>  flags;
    bit<13> offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}
header short_t { bit<8> tag; bit<8> value; }
header long_t { bit<8> tag; bit<24> value; }
header_union item_t {
    short_t small;
    long_t  large;
}
header found_t {
    bit<32> error_code;
    bit<8>  labels;
    bit<8>  next;
    bit<16> options;
    bit<8>  small;
    bit<8>  large;
    bit<8>  checksum_error;
    bit<8>  peeked;
}

struct headers_t {
    found_t    found;
    ethernet_t ethernet;
    label_t[4] labels;
    ipv4_t     ipv4;
    options_t  options;
    item_t     item;
}
struct metadata_t {
    bit<8>  peeked;
    bit<16> options;
    bit<8>  next;
    bit<20> label;
}

parser Reading(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) {
            0x8847: labels;
            0x0800: ipv4;
            0x0900 &&& 0xFF00: item;
            0x1000 .. 0x10FF: skip;
            default: accept;
        }
    }
    state labels {
        packet.extract(h.labels.next);
        m.next = (bit<8>) h.labels.lastIndex;
        transition select(h.labels.last.last) {
            0: labels;
            default: after_labels;
        }
    }
    state after_labels {
        m.peeked = packet.lookahead<bit<8>>();
        transition select(m.peeked[7:4]) {
            4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        verify(h.ipv4.version == 4, error.BadVersion);
        verify(h.ipv4.words >= 5, error.HeaderTooShort);
        m.options = ((bit<16>) h.ipv4.words - 5) * 4;
        packet.extract(h.options, (bit<32>) m.options * 8);
        transition accept;
    }
    state item {
        transition select(packet.lookahead<bit<8>>()) {
            1: small;
            2: large;
            default: accept;
        }
    }
    state small { packet.extract(h.item.small); transition accept; }
    state large { packet.extract(h.item.large); transition accept; }
    state skip {
        packet.advance(16);
        m.peeked = packet.lookahead<bit<16>>()[7:0];
        transition item;
    }
}

control Check(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.ipv4.isValid(),
            { h.ipv4.version, h.ipv4.words, h.ipv4.tos, h.ipv4.length, h.ipv4.id, h.ipv4.flags,
              h.ipv4.offset, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.src, h.ipv4.dst, h.options.data },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action to(bit<9> port) { s.egress_spec = port; }
    action pop_label(bit<9> port) { h.labels.pop_front(1); s.egress_spec = port; }
    action push_label(bit<20> value, bit<9> port) {
        h.labels.push_front(1);
        h.labels[0].setValid();
        h.labels[0].value = value;
        h.labels[0].class = 1;
        h.labels[0].last = 0;
        h.labels[0].ttl = 63;
        s.egress_spec = port;
    }
    action drop() { mark_to_drop(s); }
    table by_label {
        key = {
            h.labels[0].isValid(): exact @name("labelled");
            m.label: ternary @name("label");
        }
        actions = { to; pop_label; push_label; drop; }
        default_action = to(1);
        size = 64;
    }
    apply {
        // A field of a header that is not there has no defined value.
        m.label = 0;
        if (h.labels[0].isValid()) { m.label = h.labels[0].value; }
        by_label.apply();
        if (h.item.small.isValid()) {
            h.item.small.value = h.item.small.value + 1;
        } else if (h.item.large.isValid()) {
            bit<8> value = h.item.large.value[7:0];
            h.item.small.setValid();
            h.item.small.tag = 1;
            h.item.small.value = value;
        }
        h.found.setValid();
        h.found.labels = 0;
        if (h.labels[0].isValid()) { h.found.labels = h.found.labels + 1; }
        if (h.labels[1].isValid()) { h.found.labels = h.found.labels + 2; }
        if (h.labels[2].isValid()) { h.found.labels = h.found.labels + 4; }
        if (h.labels[3].isValid()) { h.found.labels = h.found.labels + 8; }
        h.found.next = m.next;
        h.found.options = m.options;
        h.found.small = h.item.small.isValid() ? 8w1 : 8w0;
        h.found.large = h.item.large.isValid() ? 8w1 : 8w0;
        h.found.checksum_error = (bit<8>) s.checksum_error;
        h.found.peeked = m.peeked;
        if (s.parser_error == error.NoError) { h.found.error_code = 0; }
        else if (s.parser_error == error.PacketTooShort) { h.found.error_code = 1; }
        else if (s.parser_error == error.StackOutOfBounds) { h.found.error_code = 2; }
        else if (s.parser_error == error.HeaderTooShort) { h.found.error_code = 3; }
        else if (s.parser_error == error.BadVersion) { h.found.error_code = 4; }
        else if (s.parser_error == error.ParserInvalidArgument) { h.found.error_code = 5; }
        else { h.found.error_code = 99; }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }

control Sums(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.ipv4.isValid() && h.ipv4.words > 5,
            { h.ipv4.version, h.ipv4.words, h.ipv4.tos, h.ipv4.length, h.ipv4.id, h.ipv4.flags,
              h.ipv4.offset, h.ipv4.ttl, h.ipv4.protocol, h.ipv4.src, h.ipv4.dst, h.options.data },
            h.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.found);
        packet.emit(h.labels);
        packet.emit(h.ipv4);
        packet.emit(h.options);
        packet.emit(h.item);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
