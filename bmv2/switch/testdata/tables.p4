// One table of each kind; the packet says which one it wants to ask. The
// answer comes back in the packet: the id of the entry that matched.
#include <core.p4>
#include <v1model.p4>

header ask_t {
    bit<8>   which;
    bit<32>  a;
    bit<16>  b;
    bit<128> c;
    bit<32>  answer;
}

struct headers_t {
    ask_t ask;
}

struct metadata_t {}

parser P(packet_in packet, out headers_t hdr, inout metadata_t meta,
         inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ask);
        transition accept;
    }
}

control V(inout headers_t hdr, inout metadata_t meta) { apply {} }

control In(inout headers_t hdr, inout metadata_t meta,
                inout standard_metadata_t std) {
    direct_counter(CounterType.packets_and_bytes) ternary_counter;

    action found(bit<32> id) {
        hdr.ask.answer = id;
    }

    table exact_ab {
        key = { hdr.ask.a : exact; hdr.ask.b : exact; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 65536;
    }
    table lpm_a {
        key = { hdr.ask.a : lpm; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table lpm_bc {
        key = { hdr.ask.b : exact; hdr.ask.c : lpm; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table ternary_abc {
        key = { hdr.ask.a : ternary; hdr.ask.b : ternary; hdr.ask.c : ternary; }
        actions = { found; NoAction; }
        default_action = NoAction();
        counters = ternary_counter;
        size = 4096;
    }
    table range_ab {
        key = { hdr.ask.a : exact; hdr.ask.b : range; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table mixed {
        key = { hdr.ask.a : lpm; hdr.ask.b : range; hdr.ask.c : optional; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table range_wide {
        key = { hdr.ask.c : range; hdr.ask.b : ternary; }
        actions = { found; NoAction; }
        default_action = NoAction();
        size = 4096;
    }
    table fixed {
        key = { hdr.ask.a : ternary; hdr.ask.b : range; }
        actions = { found; NoAction; }
        const default_action = found(99);
        const entries = {
            (0x0a000000 &&& 0xff000000, 80) : found(1);
            (0x0a000000 &&& 0xff000000, 1024 .. 2047) : found(2);
            (0x0a000000 &&& 0xff000000, _) : found(3);
            (_, 80 .. 90) : found(4);
        }
    }

    apply {
        std.egress_spec = std.ingress_port;
        switch (hdr.ask.which) {
            1: { exact_ab.apply(); }
            2: { lpm_a.apply(); }
            3: { lpm_bc.apply(); }
            4: { ternary_abc.apply(); }
            5: { range_ab.apply(); }
            6: { mixed.apply(); }
            7: { fixed.apply(); }
            8: { range_wide.apply(); }
        }
    }
}

control Out(inout headers_t hdr, inout metadata_t meta,
               inout standard_metadata_t std) { apply {} }
control C(inout headers_t hdr, inout metadata_t meta) { apply {} }
control D(packet_out packet, in headers_t hdr) {
    apply { packet.emit(hdr.ask); }
}

V1Switch(P(), V(), In(), Out(), C(), D()) main;
