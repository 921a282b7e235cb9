//! System calls that have no safe wrapper elsewhere, one concern a file. All
//! unsafe code of the ports is here.

#![allow(unsafe_code, reason = "socket options have no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

mod bpf;
#[cfg(test)]
pub(super) mod isolated;
mod link;
mod packet;
mod prefetch;
mod ring;
mod rx_ring;
mod tap;
mod tx_ring;
mod wake;
mod xdp;

pub(super) use bpf::Redirect;
pub(super) use link::{Link, Queues, link, queues};
pub(super) use packet::{
    ALL_PROTOCOLS, FanoutGroup, SEND_BATCH, bind, close_gate, ignore_outgoing, join_fanout,
    open_gate, packet_socket, send_many, set_promiscuous, take_drops,
};
pub(super) use ring::RingLayout;
pub(super) use rx_ring::RxRing;
pub(super) use tap::{has_tap, open_tap, set_up};
pub(super) use tx_ring::TxRing;
pub(super) use wake::Wake;
pub(super) use xdp::{XDP_MAX_PACKET, XskFrames, XskMode, XskRx, XskSocket};

fn set_option<T: Copy>(fd: BorrowedFd<'_>, level: i32, name: i32, value: &T) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, plain data that
    // outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result)
}

/// `T` must be integers or arrays of them: all bit patterns are valid.
fn get_option<T: Copy + Default>(fd: BorrowedFd<'_>, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and the length describe `value`; the kernel writes
    // at most `length` bytes, and the callers in this module use integers.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            name,
            (&raw mut value).cast(),
            &raw mut length,
        )
    };
    check(result)?;
    Ok(value)
}

fn check(result: i32) -> io::Result<()> {
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
