// The books: every packet that ingress_port_rx counts is counted once more,
// by `drop` (with its reason) or by egress_port_tx; and every packet not
// dropped once by `path`.

#ifndef GATEWAY_BOOKS_P4
#define GATEWAY_BOOKS_P4

control Books(inout headers_t hdr, inout metadata_t meta) {
    INDEXED_COUNTER(DropReason, MAX_DROP_REASONS, drop);
    INDEXED_COUNTER(Path, MAX_PATHS, path);
    INDEXED_COUNTER(vip_id_t, MAX_VIPS, vip_fast_fwd);
    INDEXED_COUNTER(vip_id_t, MAX_VIPS, vip_fast_rev);
    INDEXED_COUNTER(server_id_t, MAX_SERVERS, server_fast_fwd);
    INDEXED_COUNTER(server_id_t, MAX_SERVERS, server_fast_rev);

    apply {
        if (meta.drop_reason != DropReason.NONE) {
            COUNT(drop, meta.drop_reason);
        } else {
            COUNT(path, meta.path);
            if (meta.path == Path.FAST_FWD) {
                COUNT(vip_fast_fwd, meta.vip_id);
                COUNT(server_fast_fwd, meta.server_id);
            } else if (meta.path == Path.FAST_REV) {
                COUNT(vip_fast_rev, meta.vip_id);
                COUNT(server_fast_rev, meta.server_id);
            } else if (meta.fast_incomplete) {
                COUNT(path, Path.FAST_INCOMPLETE);
            }
        }
    }
}

#endif
