//! What can go wrong, with C error codes translated where the call is made.

use std::{ffi::CStr, fmt};

/// An `errno` value as DPDK returns it (negated) or leaves it in `rte_errno`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Errno(i32);

impl Errno {
    /// From a positive `errno` value or a negated one.
    #[must_use]
    pub const fn new(code: i32) -> Self {
        Self(code.saturating_abs())
    }

    /// The calling thread's `rte_errno`.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local integer.
        Self::new(unsafe { dpdk_sys::shim_errno() })
    }

    /// The positive `errno` value.
    #[must_use]
    pub const fn code(self) -> i32 {
        self.0
    }

    /// Whether the driver says that it cannot do this at all.
    #[must_use]
    pub const fn is_not_supported(self) -> bool {
        matches!(self.0, libc::ENOTSUP | libc::ENOSYS)
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: returns a NUL-terminated string in a per-thread or static buffer,
        // valid until the next call on this thread.
        let text = unsafe { CStr::from_ptr(dpdk_sys::rte_strerror(self.0)) };
        write!(f, "{} (errno {})", text.to_string_lossy(), self.0)
    }
}

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errno({self})")
    }
}

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The EAL starts once in a process, and a failed start counts.
    #[error("the EAL was already initialised in this process; it starts only once")]
    EalAlreadyInitialised,
    /// `rte_eal_init` refused; what it disliked is in its log on stderr.
    #[error(
        "DPDK's EAL did not start with the arguments {arguments:?}: {errno}; the lines above that \
         begin with `EAL:` say why"
    )]
    EalInit {
        /// The arguments given, without the program name.
        arguments: Vec<String>,
        /// DPDK's reason.
        errno: Errno,
    },
    /// A string for C contains a NUL byte.
    #[error("{what} {value:?} contains a NUL byte")]
    NulByte {
        /// What the string is.
        what: &'static str,
        /// The string.
        value: String,
    },
    /// A pool could not be created.
    #[error(
        "the packet buffer pool {name} of {count} buffers of {data_room} bytes could not be \
         created: {errno}; without huge pages the memory is what the EAL argument -m gives (in \
         MiB)"
    )]
    PoolCreate {
        /// Name of the pool.
        name: String,
        /// Buffers asked for.
        count: u32,
        /// Bytes of each, headroom included.
        data_room: u16,
        /// DPDK's reason.
        errno: Errno,
    },
    /// The pool has not that many free buffers; nothing was taken.
    #[error("the packet buffer pool has no {wanted} free buffers")]
    PoolExhausted {
        /// How many were asked for.
        wanted: usize,
    },
    /// A frame does not fit into a packet buffer.
    #[error(
        "a frame of {length} bytes does not fit into a packet buffer with {room} bytes of room"
    )]
    FrameTooLong {
        /// Bytes of the frame.
        length: usize,
        /// Bytes of the buffer behind the headroom.
        room: u16,
    },
    /// A ring could not be created.
    #[error("the ring {name} of {capacity} entries could not be created: {errno}")]
    RingCreate {
        /// Name of the ring.
        name: String,
        /// Entries asked for.
        capacity: usize,
        /// DPDK's reason.
        errno: Errno,
    },
    /// A thread could not be registered with the EAL.
    #[error("a thread could not be registered with the EAL: {errno}")]
    ThreadRegister {
        /// DPDK's reason.
        errno: Errno,
    },
    /// A worker thread could not be started.
    #[error("the worker thread {name} could not be started: {source}")]
    ThreadSpawn {
        /// Name of the thread.
        name: String,
        /// The system's reason.
        source: std::io::Error,
    },
    /// There is no port of that name.
    #[error(
        "there is no port {name:?}; the ports are: {}. Ports come from the EAL arguments --vdev \
         and -a", .present.join(", ")
    )]
    NoSuchPort {
        /// The name asked for.
        name: String,
        /// The names of the ports there are.
        present: Vec<String>,
    },
    /// Somebody else in this process owns the port.
    #[error("port {name} is already in use in this process")]
    PortInUse {
        /// Name of the port.
        name: String,
    },
    /// The port has fewer queues than asked for.
    #[error(
        "port {port} has {available} {direction} queues and {wanted} were asked for (for \
         net_af_packet the device argument qpairs sets the number)"
    )]
    TooManyQueues {
        /// Name of the port.
        port: String,
        /// `receive` or `transmit`.
        direction: &'static str,
        /// Queues asked for.
        wanted: u16,
        /// Queues there are.
        available: u16,
    },
    /// Frames of the wanted size do not fit through the port.
    #[error(
        "port {port} passes frames of at most {limit} bytes and an MTU of {mtu} needs {needed}; \
         {remedy}"
    )]
    FrameTooLarge {
        /// Name of the port.
        port: String,
        /// The MTU asked for, in bytes of IP packet.
        mtu: u16,
        /// Bytes of the Ethernet frame for it, with two VLAN tags, without FCS.
        needed: u32,
        /// The port's limit in bytes of frame.
        limit: u32,
        /// What to change.
        remedy: String,
    },
    /// The kernel interface behind the port has a smaller MTU.
    #[error(
        "the interface {interface} of port {port} has an MTU of {actual} and {wanted} is needed; \
         raise it with `ip link set dev {interface} mtu {wanted}`"
    )]
    InterfaceMtu {
        /// Name of the port.
        port: String,
        /// Name of the kernel interface.
        interface: String,
        /// Its MTU.
        actual: u32,
        /// The MTU asked for.
        wanted: u16,
    },
    /// The pool's buffers are too small for the port's frames.
    #[error(
        "the packet buffers of port {port} have {available} bytes of data room and {needed} are \
         needed (headroom included)"
    )]
    BufferTooSmall {
        /// Name of the port.
        port: String,
        /// Bytes needed.
        needed: u32,
        /// Bytes there are.
        available: u16,
    },
    /// A call on a port failed.
    #[error("port {port}: cannot {operation}: {errno}")]
    Port {
        /// Name of the port.
        port: String,
        /// What was tried, to be read after "cannot".
        operation: &'static str,
        /// The driver's reason.
        errno: Errno,
    },
    /// The driver of the port cannot do this; the caller has another way.
    #[error("port {port}: its driver {driver} does not support {operation}")]
    NotSupported {
        /// Name of the port.
        port: String,
        /// Name of the driver.
        driver: String,
        /// What was tried.
        operation: &'static str,
    },
    /// The driver has flow rules, but refuses this one.
    #[error("port {port} refuses the flow rule: {message} ({errno})")]
    FlowRefused {
        /// Name of the port.
        port: String,
        /// The driver's words.
        message: String,
        /// The driver's reason.
        errno: Errno,
    },
    /// Something about the AF_PACKET sockets behind a port failed.
    #[error("port {port}: cannot {operation} on its AF_PACKET sockets: {source}")]
    AfPacket {
        /// Name of the port.
        port: String,
        /// What was tried.
        operation: &'static str,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The device arguments of an AF_PACKET port contradict each other.
    #[error("{reason}")]
    AfPacketArguments {
        /// What is wrong and what to do.
        reason: String,
    },
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;
