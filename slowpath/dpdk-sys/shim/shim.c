#include "shim.h"

#include <errno.h>
#include <string.h>

#include <rte_dev.h>
#include <rte_devargs.h>
#include <rte_eth_ring.h>
#include <rte_ether.h>
#include <rte_flow.h>
#include <rte_version.h>

#if RTE_VERSION < RTE_VERSION_NUM(22, 11, 0, 0)
#error "DPDK 22.11 or newer is needed"
#endif

/* Rust reads these fields at the offsets of enum shim_layout with these widths. */
#define FIELD(name) (((struct rte_mbuf *)0)->name)
_Static_assert(sizeof(FIELD(buf_addr)) == sizeof(void *), "mbuf.buf_addr");
_Static_assert(sizeof(FIELD(data_off)) == 2, "mbuf.data_off");
_Static_assert(sizeof(FIELD(nb_segs)) == 2, "mbuf.nb_segs");
_Static_assert(sizeof(FIELD(port)) == 2, "mbuf.port");
_Static_assert(sizeof(FIELD(pkt_len)) == 4, "mbuf.pkt_len");
_Static_assert(sizeof(FIELD(data_len)) == 2, "mbuf.data_len");
_Static_assert(sizeof(FIELD(buf_len)) == 2, "mbuf.buf_len");
_Static_assert(offsetof(struct rte_mbuf, pkt_len) % 4 == 0, "mbuf.pkt_len");

int shim_errno(void)
{
	return rte_errno;
}

uint32_t shim_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t shim_rdtsc(void)
{
	return rte_rdtsc();
}

struct rte_mbuf *shim_pktmbuf_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

int shim_pktmbuf_alloc_bulk(struct rte_mempool *pool, struct rte_mbuf **bufs,
			    unsigned int count)
{
	return rte_pktmbuf_alloc_bulk(pool, bufs, count);
}

void shim_pktmbuf_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

char *shim_pktmbuf_append(struct rte_mbuf *m, uint16_t len)
{
	return rte_pktmbuf_append(m, len);
}

char *shim_pktmbuf_prepend(struct rte_mbuf *m, uint16_t len)
{
	return rte_pktmbuf_prepend(m, len);
}

char *shim_pktmbuf_adj(struct rte_mbuf *m, uint16_t len)
{
	return rte_pktmbuf_adj(m, len);
}

int shim_pktmbuf_trim(struct rte_mbuf *m, uint16_t len)
{
	return rte_pktmbuf_trim(m, len);
}

uint16_t shim_pktmbuf_data_room(struct rte_mempool *pool)
{
	return rte_pktmbuf_data_room_size(pool);
}

unsigned int shim_ring_enqueue_sp(struct rte_ring *r, struct rte_mbuf **bufs,
				  unsigned int n)
{
	return rte_ring_sp_enqueue_burst(r, (void *const *)bufs, n, NULL);
}

unsigned int shim_ring_dequeue_sc(struct rte_ring *r, struct rte_mbuf **bufs,
				  unsigned int n)
{
	return rte_ring_sc_dequeue_burst(r, (void **)bufs, n, NULL);
}

struct rte_ring *shim_ring_create(const char *name, unsigned int capacity)
{
	return rte_ring_create(name, capacity, SOCKET_ID_ANY,
			       RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

unsigned int shim_ring_count(const struct rte_ring *r)
{
	return rte_ring_count(r);
}

uint16_t shim_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs,
		       uint16_t n)
{
	return rte_eth_rx_burst(port, queue, bufs, n);
}

uint16_t shim_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **bufs,
		       uint16_t n)
{
	return rte_eth_tx_burst(port, queue, bufs, n);
}

int shim_port_info(uint16_t port, struct shim_port_info *out)
{
	struct rte_eth_dev_info info;
	int ret = rte_eth_dev_info_get(port, &info);

	if (ret != 0)
		return ret;
	memset(out, 0, sizeof(*out));
	if (info.driver_name != NULL)
		strncpy(out->driver, info.driver_name, sizeof(out->driver) - 1);
	out->if_index = info.if_index;
	out->max_rx_pktlen = info.max_rx_pktlen;
	out->min_mtu = info.min_mtu;
	out->max_mtu = info.max_mtu;
	out->max_rx_queues = info.max_rx_queues;
	out->max_tx_queues = info.max_tx_queues;
	out->rss_types = info.flow_type_rss_offloads;
	out->socket = rte_eth_dev_socket_id(port);
	return 0;
}

const char *shim_port_devargs(uint16_t port)
{
	struct rte_eth_dev_info info;
	const struct rte_devargs *args;

	if (rte_eth_dev_info_get(port, &info) != 0 || info.device == NULL)
		return NULL;
	args = rte_dev_devargs(info.device);
	return args == NULL ? NULL : args->args;
}

int shim_port_configure(uint16_t port, const struct shim_port_conf *conf)
{
	struct rte_eth_dev_info info;
	struct rte_eth_conf eth;
	uint64_t rss = RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP;
	int ret = rte_eth_dev_info_get(port, &info);

	if (ret != 0)
		return ret;
	memset(&eth, 0, sizeof(eth));
	eth.rxmode.mtu = conf->mtu;
	rss &= info.flow_type_rss_offloads;
	if (conf->rss && conf->rx_queues > 1 && rss != 0) {
		eth.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		eth.rx_adv_conf.rss_conf.rss_hf = rss;
	}
	return rte_eth_dev_configure(port, conf->rx_queues, conf->tx_queues, &eth);
}

int shim_port_descriptors(uint16_t port, uint16_t *rx, uint16_t *tx)
{
	return rte_eth_dev_adjust_nb_rx_tx_desc(port, rx, tx);
}

int shim_rx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors,
			struct rte_mempool *pool)
{
	return rte_eth_rx_queue_setup(port, queue, descriptors,
				      rte_eth_dev_socket_id(port), NULL, pool);
}

int shim_tx_queue_setup(uint16_t port, uint16_t queue, uint16_t descriptors)
{
	return rte_eth_tx_queue_setup(port, queue, descriptors,
				      rte_eth_dev_socket_id(port), NULL);
}

int shim_port_stats(uint16_t port, struct shim_port_stats *out)
{
	struct rte_eth_stats stats;
	int ret = rte_eth_stats_get(port, &stats);

	if (ret != 0)
		return ret;
	out->rx_packets = stats.ipackets;
	out->rx_bytes = stats.ibytes;
	out->rx_missed = stats.imissed;
	out->rx_errors = stats.ierrors;
	out->rx_no_mbuf = stats.rx_nombuf;
	out->tx_packets = stats.opackets;
	out->tx_bytes = stats.obytes;
	out->tx_errors = stats.oerrors;
	return 0;
}

int shim_port_link(uint16_t port, struct shim_link *out)
{
	struct rte_eth_link link;
	int ret = rte_eth_link_get_nowait(port, &link);

	if (ret != 0)
		return ret;
	out->speed_mbps = link.link_speed;
	out->up = link.link_status == RTE_ETH_LINK_UP;
	out->full_duplex = link.link_duplex == RTE_ETH_LINK_FULL_DUPLEX;
	return 0;
}

int shim_port_mac(uint16_t port, uint8_t *mac)
{
	struct rte_ether_addr addr;
	int ret = rte_eth_macaddr_get(port, &addr);

	if (ret == 0)
		memcpy(mac, addr.addr_bytes, RTE_ETHER_ADDR_LEN);
	return ret;
}

uint16_t shim_next_port(uint16_t from)
{
	return rte_eth_find_next(from);
}

int shim_port_from_rings(const char *name, struct rte_ring **rx, unsigned int nb_rx,
			 struct rte_ring **tx, unsigned int nb_tx)
{
	int port = rte_eth_from_rings(name, rx, nb_rx, tx, nb_tx, 0);

	if (port >= 0)
		return port;
	return rte_errno != 0 ? -rte_errno : -EINVAL;
}

static int flow_result(int ret, const struct rte_flow_error *from,
		       struct shim_flow_error *to)
{
	memset(to, 0, sizeof(*to));
	to->kind = from->type;
	if (from->message != NULL)
		strncpy(to->message, from->message, sizeof(to->message) - 1);
	return ret;
}

int shim_flow_udp_source(uint16_t port, uint16_t queue, uint16_t source,
			 uint16_t mask, uint16_t destination, int validate_only,
			 void **flow, struct shim_flow_error *error)
{
	struct rte_flow_attr attr;
	struct rte_flow_item_udp spec, udp_mask;
	struct rte_flow_item pattern[4];
	struct rte_flow_action_queue to_queue;
	struct rte_flow_action actions[2];
	struct rte_flow_error err;
	int ret;

	memset(&attr, 0, sizeof(attr));
	memset(&spec, 0, sizeof(spec));
	memset(&udp_mask, 0, sizeof(udp_mask));
	memset(pattern, 0, sizeof(pattern));
	memset(actions, 0, sizeof(actions));
	memset(&to_queue, 0, sizeof(to_queue));
	memset(&err, 0, sizeof(err));

	attr.ingress = 1;
	spec.hdr.src_port = rte_cpu_to_be_16(source & mask);
	udp_mask.hdr.src_port = rte_cpu_to_be_16(mask);
	if (destination != 0) {
		spec.hdr.dst_port = rte_cpu_to_be_16(destination);
		udp_mask.hdr.dst_port = 0xffff;
	}
	pattern[0].type = RTE_FLOW_ITEM_TYPE_ETH;
	pattern[1].type = RTE_FLOW_ITEM_TYPE_IPV4;
	pattern[2].type = RTE_FLOW_ITEM_TYPE_UDP;
	pattern[2].spec = &spec;
	pattern[2].mask = &udp_mask;
	pattern[3].type = RTE_FLOW_ITEM_TYPE_END;
	to_queue.index = queue;
	actions[0].type = RTE_FLOW_ACTION_TYPE_QUEUE;
	actions[0].conf = &to_queue;
	actions[1].type = RTE_FLOW_ACTION_TYPE_END;

	if (flow != NULL)
		*flow = NULL;
	ret = rte_flow_validate(port, &attr, pattern, actions, &err);
	if (ret != 0 || validate_only || flow == NULL)
		return flow_result(ret, &err, error);
	*flow = rte_flow_create(port, &attr, pattern, actions, &err);
	if (*flow != NULL)
		return 0;
	return flow_result(rte_errno != 0 ? -rte_errno : -EINVAL, &err, error);
}

int shim_flow_destroy(uint16_t port, void *flow, struct shim_flow_error *error)
{
	struct rte_flow_error err;

	memset(&err, 0, sizeof(err));
	return flow_result(rte_flow_destroy(port, flow, &err), &err, error);
}
