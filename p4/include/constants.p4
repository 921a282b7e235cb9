// Every size, width and fixed number of the program, in one place.
//
// `const` lines of the form `const bit<W> NAME = VALUE;` are also read by
// contract-gen, which hands them to the Rust side; keep one to a line.
// Table sizes are the only values a target's build may override (-D).

#ifndef GATEWAY_CONSTANTS_P4
#define GATEWAY_CONSTANTS_P4

// ---- Build options ------------------------------------------------------

// Counters of each flow entry: 2 = packets and bytes of both directions,
// 1 = packets of the forward direction, 0 = none. On a switch chip a packet
// and byte counter costs more than the flow itself, so a port may lower it.
#ifndef FLOW_COUNTERS
#define FLOW_COUNTERS 2
#endif

// Flow entries per direction.
#ifndef MAX_FLOWS
#define MAX_FLOWS 262144
#endif

// ---- Key widths ---------------------------------------------------------

#define WIDTH_PORT 9
#define WIDTH_ID 16
#define WIDTH_VNI 24

// ---- Table and counter sizes --------------------------------------------

const bit<32> MAX_PORTS = 512;
const bit<32> MAX_INGRESS_PORTS = 1024;
const bit<32> MAX_VTEPS = 64;
const bit<32> MAX_VIPS = 4096;
const bit<32> MAX_VIP_ADDRS = 4096;
const bit<32> MAX_SERVERS = 16384;
const bit<32> MAX_LOCALS = 4096;
// All buckets of all groups: 64 groups of BUCKETS.
const bit<32> MAX_BUCKETS = 16384;
const bit<32> MAX_SLOTS = 4096;
const bit<32> MAX_ROUTES = 16384;
const bit<32> MAX_NEXTHOPS = 4096;
const bit<32> MAX_DROP_REASONS = 64;
const bit<32> MAX_PATHS = 16;

// Steering buckets of one group; a power of two, so that a mask finds one.
const bit<16> BUCKETS = 256;

// ---- Ports --------------------------------------------------------------

const bit<9> CPU_PORT = 510;
const bit<9> DROP_PORT = 511;

// ---- Protocol numbers ---------------------------------------------------

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<16> ETHERTYPE_ARP = 0x0806;
const bit<16> ETHERTYPE_VLAN = 0x8100;
const bit<16> ETHERTYPE_QINQ = 0x88A8;
const bit<16> ETHERTYPE_IPV6 = 0x86DD;

const bit<8> PROTOCOL_ICMP = 1;
const bit<8> PROTOCOL_TCP = 6;
const bit<8> PROTOCOL_UDP = 17;

// RFC 7348 and draft-smith-vxlan-group-policy.
const bit<16> VXLAN_PORT = 4789;
const bit<8> VXLAN_FLAG_VNI = 0x08;
const bit<8> VXLAN_FLAG_GROUP = 0x80;

// ---- Tunnel to a load director ------------------------------------------

// Bytes that the tunnel puts before an IPv4 packet: outer IPv4 20, UDP 8,
// VXLAN 8, inner Ethernet 14.
const bit<16> TUNNEL_OVERHEAD = 50;
// The same from the UDP header on: what the outer UDP length covers besides
// the IPv4 packet.
const bit<16> TUNNEL_UDP_OVERHEAD = 30;
const bit<8> TUNNEL_TTL = 64;
// Outer UDP source ports lie in 0xC000..0xFFFF; the low 14 bits spread load.
const bit<16> TUNNEL_SOURCE_PORT_BASE = 0xC000;
const bit<48> TUNNEL_INNER_DST_MAC = 0x020000000001;
const bit<48> TUNNEL_INNER_SRC_MAC = 0x020000000002;

#endif
