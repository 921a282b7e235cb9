// Digests of every kind that the compiler takes. The EtherType says which is
// sent.

#include <core.p4>
#include <v1model.p4>

error { Unheard }
enum Kind { First, Second, Third }
enum bit<8> Code { five = 5, many = 200 }
type bit<9> Port_t;
@p4runtime_translation("example.org/port", 32)
type bit<9> Translated_t;

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}
// Behind packets of the types 7 and 8: how many bits of `rest` there are.
header trail_t {
    bit<8> length;
    varbit<40> rest;
    bit<8> last;
}
struct headers_t { ethernet_t ethernet; trail_t trail; }
struct metadata_t { }

struct inner_t { bit<4> number; bool flag; }
struct everything_t {
    bit<48> mac;
    error problem;
    Kind kind;
    Code code;
    bool yes;
    inner_t inner;
    tuple<bit<3>, bool> pair;
    Port_t port;
    int<7> negative;
    ethernet_t whole;
    Translated_t translated;
}
struct twice_t { bit<48> mac; }
struct varying_t { bit<8> length; varbit<40> rest; bit<3> fixed; }
struct with_header_t { trail_t trail; bit<8> number; }

parser Reading(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        verify(hdr.ethernet.type != 1, error.Unheard);
        transition select(hdr.ethernet.type) {
            7 .. 8: trail;
            default: accept;
        }
    }
    state trail {
        packet.extract(hdr.trail, (bit<32>) packet.lookahead<bit<8>>());
        transition accept;
    }
}
control Verify(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Sending(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 2;
        if (hdr.ethernet.type == 1) {
            digest<everything_t>(1, {
                hdr.ethernet.src, std.parser_error, Kind.Second, Code.many, true, { 4w9, false },
                { 3w5, true }, (Port_t) std.ingress_port, -7s3, hdr.ethernet,
                (Translated_t) std.ingress_port
            });
        } else if (hdr.ethernet.type == 2) {
            digest<twice_t>(1, { hdr.ethernet.src });
        } else if (hdr.ethernet.type == 3) {
            digest<twice_t>(1, { hdr.ethernet.dst });
        } else if (hdr.ethernet.type == 4) {
            digest(1, { hdr.ethernet.src, hdr.ethernet.type });
        } else if (hdr.ethernet.type == 5) {
            digest(1, { hdr.ethernet.type, hdr.ethernet.dst });
        } else if (hdr.ethernet.type == 6) {
            digest(1, { hdr.ethernet.dst, hdr.ethernet.type });
        } else if (hdr.ethernet.type == 7) {
            digest<varying_t>(1, { hdr.trail.length, hdr.trail.rest, 3w5 });
        } else if (hdr.ethernet.type == 8 || hdr.ethernet.type == 9) {
            digest<with_header_t>(1, { hdr.trail, 8w77 });
        }
    }
}
control Leaving(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply { } }
control Compute(inout headers_t hdr, inout metadata_t meta) { apply { } }
control Writing(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.ethernet); } }

V1Switch(Reading(), Verify(), Sending(), Leaving(), Compute(), Writing()) main;
