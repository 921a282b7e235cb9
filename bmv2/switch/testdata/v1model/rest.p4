// What every program here ends with: controls that do nothing, unless it
// says otherwise.
#ifndef VERIFY
#define VERIFY
#endif
#ifndef UPDATE
#define UPDATE
#endif
#ifndef DEPARSE
#define DEPARSE p.emit(h);
#endif

control V(inout headers h, inout meta m) { apply { VERIFY } }

control C(inout headers h, inout meta m) { apply { UPDATE } }
#ifndef OWN_EGRESS

control E(inout headers h, inout meta m, inout standard_metadata_t s) { apply { } }
#endif

control D(packet_out p, in headers h) { apply { DEPARSE } }

V1Switch(P(), V(), I(), E(), C(), D()) main;
