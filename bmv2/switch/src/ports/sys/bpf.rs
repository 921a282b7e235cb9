//! The XDP program that sends an interface's packets to AF_XDP sockets, loaded
//! and attached with bpf(2).

#![allow(unsafe_code, reason = "bpf(2) has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd};

// From linux/bpf.h and linux/if_link.h.
const BPF_MAP_CREATE: libc::c_long = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_long = 2;
const BPF_PROG_LOAD: libc::c_long = 5;
const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The members of `union bpf_attr` for BPF_MAP_CREATE that are used.
#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// For BPF_MAP_UPDATE_ELEM.
#[repr(C)]
struct MapUpdate {
    map_fd: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// For BPF_PROG_LOAD.
#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
}

/// For BPF_LINK_CREATE.
#[repr(C)]
struct LinkCreate {
    prog_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// An instruction (RFC 9669, section 3). `registers` has the source in its
/// upper half.
const fn instruction(opcode: u8, registers: u8, offset: i16, immediate: u32) -> u64 {
    opcode as u64
        | (registers as u64) << 8
        | (offset.cast_unsigned() as u64) << 16
        | (immediate as u64) << 32
}

/// `return bpf_redirect_map(map, ctx->rx_queue_index, XDP_PASS)`.
fn redirect(map: u32) -> [u64; 6] {
    const XDP_PASS: u32 = 2;
    const BPF_FUNC_REDIRECT_MAP: u32 = 51;
    /// Of rx_queue_index in struct xdp_md.
    const RX_QUEUE_INDEX: i16 = 16;
    [
        // r2 = *(u32 *)(r1 + 16)
        instruction(0x61, 0x12, RX_QUEUE_INDEX, 0),
        // r1 = map, of which the descriptor is given (source 1), 16 bytes long
        instruction(0x18, 0x11, 0, map),
        instruction(0, 0, 0, 0),
        // r3 = XDP_PASS
        instruction(0xb7, 0x03, 0, XDP_PASS),
        instruction(0x85, 0, 0, BPF_FUNC_REDIRECT_MAP),
        // exit
        instruction(0x95, 0, 0, 0),
    ]
}

/// An XDP program that sends what an interface receives to sockets, before the
/// kernel's own protocols see it. It goes when this value is dropped or the
/// process ends.
#[derive(Debug)]
pub(in crate::ports) struct Redirect {
    _link: OwnedFd,
    /// The socket of each queue.
    map: OwnedFd,
}

impl Redirect {
    /// Attaches the program to the interface with this index: what comes in on
    /// queue `i` goes to `sockets[i]`. `queues` is the most that there can ever
    /// be. `native` has the driver run the program, otherwise any driver will do.
    pub(in crate::ports) fn attach(
        interface: u32,
        native: bool,
        queues: u32,
        sockets: &[BorrowedFd<'_>],
    ) -> io::Result<Self> {
        let map = MapCreate {
            map_type: BPF_MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
        };
        // SAFETY: the command's members, which have no pointers.
        let map = unsafe { bpf_fd(BPF_MAP_CREATE, &map) }?;
        for (queue, socket) in (0..).zip(sockets) {
            set_socket(&map, queue, *socket)?;
        }
        let instructions = redirect(raw(&map));
        let license = c"Apache-2.0";
        let program = ProgLoad {
            prog_type: BPF_PROG_TYPE_XDP,
            insn_cnt: instructions.len() as u32,
            insns: instructions.as_ptr().addr() as u64,
            license: license.as_ptr().addr() as u64,
        };
        // SAFETY: the command's members; the instructions and the terminated
        // string outlive the call.
        let program = unsafe { bpf_fd(BPF_PROG_LOAD, &program) }?;
        let link = LinkCreate {
            prog_fd: raw(&program),
            target_ifindex: interface,
            attach_type: BPF_XDP,
            flags: if native {
                XDP_FLAGS_DRV_MODE
            } else {
                XDP_FLAGS_SKB_MODE
            },
        };
        // SAFETY: the command's members, which have no pointers.
        let link = unsafe { bpf_fd(BPF_LINK_CREATE, &link) }?;
        Ok(Self { _link: link, map })
    }

    /// Sends what comes in on a further queue to `socket`.
    pub(in crate::ports) fn add(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        set_socket(&self.map, queue, socket)
    }
}

fn set_socket(map: &OwnedFd, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
    let value = raw(&socket);
    let update = MapUpdate {
        map_fd: raw(map),
        padding: 0,
        key: std::ptr::from_ref(&queue).addr() as u64,
        value: std::ptr::from_ref(&value).addr() as u64,
        flags: 0,
    };
    // SAFETY: the command's members; key and value point to four bytes each,
    // which outlive the call.
    unsafe { bpf(BPF_MAP_UPDATE_ELEM, &update) }?;
    Ok(())
}

fn raw(fd: &impl AsRawFd) -> u32 {
    fd.as_raw_fd().cast_unsigned()
}

/// # Safety
/// `attributes` are those of the command, and what they point to is as the
/// command wants it and outlives the call.
unsafe fn bpf<T>(command: libc::c_long, attributes: &T) -> io::Result<i32> {
    // SAFETY: the size is that of `attributes`; the kernel takes the members
    // behind them as zero.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>(),
        )
    };
    match i32::try_from(result) {
        Ok(result @ 0..) => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

/// # Safety
/// As for [`bpf`], and the command returns a new descriptor.
unsafe fn bpf_fd<T>(command: libc::c_long, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: as the caller promises.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the descriptor is new and nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
