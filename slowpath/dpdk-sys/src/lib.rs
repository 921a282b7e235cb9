//! Raw bindings to DPDK: only the functions that the `dpdk` crate uses.
//!
//! Three kinds of items are here:
//!
//! - `rte_*`: exported functions of DPDK whose signatures are stable, bound as
//!   they are;
//! - `shim_*`: functions of a small C file (`shim/shim.c`) for what DPDK
//!   defines inline, and for what takes structures that change between
//!   releases (port configuration, statistics, flow rules);
//! - `SHIM_MBUF_*`: byte offsets of the mbuf fields that are read and written
//!   on the fast path, so that access to a packet needs no call into C.
//!
//! `rte_mbuf`, `rte_mempool` and `rte_ring` are opaque: their layout differs
//! between DPDK 22.11 and later releases, and nothing here depends on it.
//!
//! # Drivers
//!
//! The DPDK libraries are linked dynamically and no driver is linked by name
//! (the exception is `net_ring`, whose library has a function that is called).
//! A shared-library build of DPDK loads all drivers of its plugin directory
//! (on Debian `/usr/lib/<triplet>/dpdk/pmds-<abi>`) in `rte_eal_init`, so
//! `net_af_packet`, `net_null`, `mempool_ring`, `bus_vdev` and every driver of
//! a network card are there without an option; `-d` adds others.

// Bindings to C are unsafe by nature; the `dpdk` crate is their only user.
#![allow(unsafe_code)]

mod bindings {
    #![allow(
        missing_docs,
        non_camel_case_types,
        non_upper_case_globals,
        non_snake_case,
        dead_code,
        unreachable_pub,
        unsafe_op_in_unsafe_fn,
        unnecessary_transmutes,
        clippy::all
    )]
    use super::{rte_mbuf, rte_mempool, rte_ring};

    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;

/// A packet buffer of DPDK; only ever behind a pointer.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct rte_mbuf {
    _opaque: [u8; 0],
}

/// A pool of packet buffers; only ever behind a pointer.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct rte_mempool {
    _opaque: [u8; 0],
}

/// A lock-free ring of pointers; only ever behind a pointer.
#[repr(C)]
#[derive(Debug)]
#[allow(non_camel_case_types)]
pub struct rte_ring {
    _opaque: [u8; 0],
}
