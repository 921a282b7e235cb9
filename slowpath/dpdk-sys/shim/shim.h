/*
 * What dpdk-sys shows of DPDK: the few plain functions that are bound as they
 * are, and, as shim_* functions, everything that DPDK defines inline or whose
 * structures change between releases. Rust never sees the layout of a DPDK
 * structure, except the mbuf fields whose offsets are given as constants.
 */
#ifndef SLUICE_DPDK_SHIM_H
#define SLUICE_DPDK_SHIM_H

#include <stddef.h>
#include <stdint.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_ring.h>
#include <rte_cycles.h>
#include <rte_version.h>

/* Byte offsets inside struct rte_mbuf, and other compile-time facts. */
enum shim_layout {
	SHIM_MBUF_BUF_ADDR = offsetof(struct rte_mbuf, buf_addr),
	SHIM_MBUF_DATA_OFF = offsetof(struct rte_mbuf, data_off),
	SHIM_MBUF_NB_SEGS = offsetof(struct rte_mbuf, nb_segs),
	SHIM_MBUF_PORT = offsetof(struct rte_mbuf, port),
	SHIM_MBUF_PKT_LEN = offsetof(struct rte_mbuf, pkt_len),
	SHIM_MBUF_DATA_LEN = offsetof(struct rte_mbuf, data_len),
	SHIM_MBUF_BUF_LEN = offsetof(struct rte_mbuf, buf_len),
	SHIM_MBUF_HEADROOM = RTE_PKTMBUF_HEADROOM,
	SHIM_MAX_ETHPORTS = RTE_MAX_ETHPORTS,
};

struct shim_port_info {
	char driver[32];
	uint32_t if_index;       /* host interface, 0 when there is none */
	uint32_t max_rx_pktlen;
	uint16_t min_mtu;
	uint16_t max_mtu;        /* UINT16_MAX when the driver does not say */
	uint16_t max_rx_queues;
	uint16_t max_tx_queues;
	uint64_t rss_types;      /* 0 when the port cannot spread by hash */
	int32_t socket;          /* NUMA node, -1 when unknown */
};

struct shim_port_stats {
	uint64_t rx_packets, rx_bytes, rx_missed, rx_errors, rx_no_mbuf;
	uint64_t tx_packets, tx_bytes, tx_errors;
};

struct shim_port_conf {
	uint16_t rx_queues;
	uint16_t tx_queues;
	uint16_t mtu;            /* 0 keeps the driver's own */
	uint8_t rss;             /* spread by IP, TCP and UDP where possible */
};

struct shim_link {
	uint32_t speed_mbps;     /* UINT32_MAX when unknown */
	uint8_t up;
	uint8_t full_duplex;
};

struct shim_flow_error {
	int32_t kind;            /* enum rte_flow_error_type */
	char message[128];
};

/* errno, thread, time */
int shim_errno(void);
uint32_t shim_lcore_id(void);
uint64_t shim_rdtsc(void);

/* mbuf: DPDK's own inline functions */
struct rte_mbuf *shim_pktmbuf_alloc(struct rte_mempool *pool);
int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs,
			    unsigned int count);
void shim_pktmbuf_free(struct rte_mbuf *m);
char *shim_pktmbuf_append(struct rte_mbuf *m, uint16_t len);
char *shim_pktmbuf_prepend(struct rte_mbuf *m, uint16_t len);
char *shim_pktmbuf_adj(struct rte_mbuf *m, uint16_t len);
int shim_pktmbuf_trim(struct rte_mbuf *m, uint16_t len);
uint16_t shim_pktmbuf_data_room(struct rte_mempool *pool);

/* rings, one producer and one consumer; both return how many were moved */
unsigned int shim_ring_enqueue_sp(struct rte_ring *r, struct rte_mbuf **bufs,
				  unsigned int n);
unsigned int shim_ring_dequeue_sc(struct rte_ring *r, struct rte_mbuf **bufs,
				  unsigned int n);
struct rte_ring *shim_ring_create(const char *name, unsigned int capacity);
unsigned int shim_ring_count(const struct rte_ring *r);

/* ports; negative results are negated errno values */
uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs,
		       uint16_t n);
uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs,
		       uint16_t n);
int shim_port_info(uint16_t port, struct shim_port_info *out);
const char *shim_port_devargs(uint16_t port);
int shim_port_configure(uint16_t port, const struct shim_port_conf *conf);
int shim_port_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx);
int shim_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors,
			struct rte_mempool *pool);
int shim_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors);
int shim_port_stats(uint16_t port, struct shim_port_stats *out);
int shim_port_link(uint16_t port, struct shim_link *out);
int shim_port_mac(uint16_t port, uint8_t *mac);
uint16_t shim_next_port(uint16_t from);

/* net_ring: a port over caller-made rings; its number, or a negated errno */
int shim_port_from_rings(const char *name, struct rte_ring **rx, unsigned int nb_rx,
			 struct rte_ring **tx, unsigned int nb_tx);

/* rte_flow: outer UDP source port under a mask, destination port exact (0: any) */
int shim_flow_udp_source(uint16_t port, uint16_t queue, uint16_t source,
			 uint16_t mask, uint16_t destination, int validate_only,
			 void **flow, struct shim_flow_error *error);
int shim_flow_destroy(uint16_t port, void *flow, struct shim_flow_error *error);

#endif
