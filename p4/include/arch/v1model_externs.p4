// Architecture shim, first part: what the stages need of v1model, under
// names that belong to no architecture. With v1model_package.p4 this is all
// that a port to another architecture replaces.

#ifndef GATEWAY_ARCH_EXTERNS_P4
#define GATEWAY_ARCH_EXTERNS_P4

#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

// ---- Counters of packets and bytes

#define INDEXED_COUNTER(index_t, size, name) \
    counter<index_t>(size, CounterType.packets_and_bytes) name
#define COUNT(name, index) name.count(index)

#if FLOW_COUNTERS == 2
#define FLOW_FWD_COUNTER(name) direct_counter(CounterType.packets_and_bytes) name;
#define FLOW_REV_COUNTER(name) direct_counter(CounterType.packets_and_bytes) name;
#define FLOW_FWD_COUNTED_BY(name) counters = name;
#define FLOW_REV_COUNTED_BY(name) counters = name;
#elif FLOW_COUNTERS == 1
#define FLOW_FWD_COUNTER(name) direct_counter(CounterType.packets) name;
#define FLOW_REV_COUNTER(name)
#define FLOW_FWD_COUNTED_BY(name) counters = name;
#define FLOW_REV_COUNTED_BY(name)
#elif FLOW_COUNTERS == 0
#define FLOW_FWD_COUNTER(name)
#define FLOW_REV_COUNTER(name)
#define FLOW_FWD_COUNTED_BY(name)
#define FLOW_REV_COUNTED_BY(name)
#else
#error "FLOW_COUNTERS is 0, 1 or 2"
#endif

// ---- Table properties

// Entries carry an idle timeout and the switch reports the idle ones.
#define WITH_IDLE_TIMEOUT support_timeout = true;

// ---- Hashes

// CRC-32 (IEEE 802.3) of the 13 bytes source address, destination address,
// protocol, source port, destination port, in network order; ports are zero
// where the packet has none. The controller computes the same hash to say
// where a flow goes, so it is part of the contract.
control FlowHash(inout headers_t hdr, inout metadata_t meta) {
    apply {
        // The modulus is 2^32: a 32-bit one could not be written.
        hash(meta.flow_hash, HashAlgorithm.crc32, 64w0,
             { hdr.ipv4.src_addr, hdr.ipv4.dst_addr, hdr.ipv4.protocol,
               meta.src_port, meta.dst_port },
             64w0x100000000);
    }
}

#endif
