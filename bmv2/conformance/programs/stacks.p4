// Header stacks, unions, stacks of unions and fields of variable length: a
// request names what is done with those that were parsed.

#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header request_t {
    bit<8>  what;
    bit<8>  index;
    bit<16> length; // of the options, in bits
    bit<8>  note;
}
header label_t { bit<15> value; bit<1> more; }
header small_t { bit<8> tag; bit<8> value; }
header large_t { bit<8> tag; bit<24> value; }
header options_t { bit<8> first; varbit<128> data; bit<8> last; }
header pair_t { bit<100> left; bit<28> right; }
header_union item_t {
    small_t small;
    large_t large;
}
header found_t {
    bit<32> parser_error;
    bit<8>  last_index;
    bit<8>  labels;
    bit<8>  others;
    bit<8>  items;
    bit<16> peeked;
    bit<104> ahead;
}

struct headers_t {
    ethernet_t ethernet;
    found_t    found;
    request_t  request;
    options_t  options;
    options_t  copied;
    label_t[4] labels;
    label_t[4] others;
    item_t     alone;
    item_t[3]  items;
    pair_t     pair;
}
struct metadata_t {
    bit<8>   last_index;
    bit<16>  peeked;
    bit<104> ahead;
    bit<8>   count;
}

parser Reading(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<16>>(4) also_requests;
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) {
            0x88B5: request;
            also_requests: request;
            default: accept;
        }
    }
    state request {
        packet.extract(h.request);
        m.ahead = packet.lookahead<bit<104>>();
        packet.extract(h.options, (bit<32>) h.request.length);
        transition select(h.options.first, packet.lookahead<bit<16>>()) {
            (1 .. 9, 0x8000 &&& 0x8000): alone;
            (0 .. 99, _): labels;
            (100, 0x0101): items;
            (101, _): pair;
            default: accept;
        }
    }
    state labels {
        packet.extract(h.labels.next);
        m.last_index = (bit<8>) h.labels.lastIndex;
        m.count = m.count + 1;
        transition select(h.labels.last.more, m.count) {
            (1, 0 .. 200): labels;
            default: items;
        }
    }
    state alone {
        small_t ahead = packet.lookahead<small_t>();
        m.peeked = ahead.tag ++ ahead.value;
        transition select(ahead.value[0:0]) {
            0: alone_small;
            1: alone_large;
        }
    }
    state alone_small { packet.extract(h.alone.small); transition items; }
    state alone_large { packet.extract(h.alone.large); transition items; }
    state items {
        transition select(packet.lookahead<bit<8>>()) {
            1: small;
            2: large;
            3: pair;
            default: accept;
        }
    }
    state small { packet.extract(h.items.next.small); transition items; }
    state large { packet.extract(h.items.next.large); transition items; }
    state pair { packet.extract(h.pair); transition accept; }
}

control Check(inout headers_t h, inout metadata_t m) { apply { } }

control Forwarding(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action nothing() { }
    action push_one() { h.labels.push_front(1); }
    action push_three() { h.labels.push_front(3); h.labels[2].setValid(); h.labels[2].value = 7; }
    action push_all() { h.labels.push_front(4); h.labels[3].setValid(); }
    action push_more() { h.labels.push_front(6); h.labels[0].setValid(); }
    action pop_one() { h.labels.pop_front(1); }
    action pop_two() { h.labels.pop_front(2); }
    action pop_all() { h.labels.pop_front(5); }
    action copy_stack() { h.others = h.labels; h.others.pop_front(1); }
    action clear_stack() { h.labels = h.others; }
    action move_element() { h.labels[0] = h.labels[1]; h.labels[3] = h.labels[0]; }
    action drop_element() { h.labels[1].setInvalid(); h.labels[2].setValid(); }
    action revive() { h.labels[0].setInvalid(); h.labels[0].setValid(); }
    action by_small() { h.alone.small.setValid(); h.alone.small.value = 9; }
    action by_large() { h.alone.large.setValid(); h.alone.large.tag = 3; }
    action by_none() { h.alone.small.setInvalid(); h.alone.large.setInvalid(); }
    action copy_member() { h.alone.small = h.items[0].small; }
    action copy_union() { h.alone = h.items[0]; }
    action shift_union() { h.items[0] = h.items[1]; }
    action copy_options() { h.copied = h.options; }
    action move_options() { h.copied = h.options; h.options.setInvalid(); }
    action empty_options() { h.options.setInvalid(); h.options.setValid(); h.options.last = 0x77; }
    action swap_pair() {
        bit<100> l = h.pair.left;
        h.pair.left = (bit<100>) h.pair.right;
        h.pair.right = l[99:72];
    }

    table operate {
        key = { h.request.what: exact @name("what"); }
        actions = {
            nothing; push_one; push_three; push_all; push_more; pop_one; pop_two; pop_all;
            copy_stack; clear_stack; move_element; drop_element; revive; by_small; by_large;
            by_none; copy_member; copy_union; shift_union; copy_options;
            move_options; empty_options; swap_pair;
        }
        const default_action = nothing();
        const entries = {
            1: push_one();
            2: push_three();
            3: push_all();
            4: push_more();
            5: pop_one();
            6: pop_two();
            7: pop_all();
            8: copy_stack();
            9: clear_stack();
            10: move_element();
            11: drop_element();
            12: revive();
            13: by_small();
            14: by_large();
            15: by_none();
            16: copy_member();
            17: copy_union();
            18: shift_union();
            21: copy_options();
            22: move_options();
            23: empty_options();
            24: swap_pair();
        }
    }

    apply {
        s.egress_spec = 3;
        if (h.request.isValid()) {
            // Only what is there is read.
            bool full = h.labels[3].isValid() && h.labels[2].isValid()
                && h.labels[1].isValid() && h.labels[0].isValid();
            if (h.request.what == 30 && full) {
                h.request.note = h.labels[h.request.index & 3].value[7:0];
            } else if (h.request.what == 31 && full) {
                h.labels[h.request.index & 3].value = 15w0x1234;
            } else if (h.request.what == 32 && full) {
                if (h.labels[0] == h.labels[1]) { h.request.note = h.request.note + 1; }
                if (h.labels[2] != h.labels[3]) { h.request.note = h.request.note + 2; }
            } else if (h.request.what == 33 && h.items[0].small.isValid() && h.items[1].small.isValid()) {
                if (h.items[0].small == h.items[1].small) { h.request.note = h.request.note + 4; }
            } else {
                operate.apply();
            }
            h.found.setValid();
            h.found.last_index = m.last_index;
            h.found.peeked = m.peeked;
            h.found.ahead = m.ahead;
            h.found.labels = 0;
            if (h.labels[0].isValid()) { h.found.labels = h.found.labels | 1; }
            if (h.labels[1].isValid()) { h.found.labels = h.found.labels | 2; }
            if (h.labels[2].isValid()) { h.found.labels = h.found.labels | 4; }
            if (h.labels[3].isValid()) { h.found.labels = h.found.labels | 8; }
            h.found.others = 0;
            if (h.others[0].isValid()) { h.found.others = h.found.others | 1; }
            if (h.others[3].isValid()) { h.found.others = h.found.others | 8; }
            h.found.items = 0;
            if (h.items[0].small.isValid()) { h.found.items = h.found.items | 1; }
            if (h.items[1].large.isValid()) { h.found.items = h.found.items | 2; }
            if (h.items[2].small.isValid()) { h.found.items = h.found.items | 4; }
            if (h.alone.isValid()) { h.found.items = h.found.items | 16; }
            if (s.parser_error == error.NoError) { h.found.parser_error = 0; }
            else if (s.parser_error == error.PacketTooShort) { h.found.parser_error = 1; }
            else if (s.parser_error == error.NoMatch) { h.found.parser_error = 2; }
            else if (s.parser_error == error.StackOutOfBounds) { h.found.parser_error = 3; }
            else if (s.parser_error == error.HeaderTooShort) { h.found.parser_error = 4; }
            else if (s.parser_error == error.ParserInvalidArgument) { h.found.parser_error = 6; }
            else { h.found.parser_error = 99; }
        }
    }
}

control Leaving(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { if (h.request.isValid()) { h.request.length = (bit<16>) s.packet_length; } }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control Writing(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.found);
        packet.emit(h.request);
        packet.emit(h.options);
        packet.emit(h.copied);
        packet.emit(h.labels);
        packet.emit(h.others);
        packet.emit(h.alone);
        packet.emit(h.items);
        packet.emit(h.pair);
    }
}

V1Switch(Reading(), Check(), Forwarding(), Leaving(), Sums(), Writing()) main;
