//! Packet I/O: ports, the threads that serve them, and their books.
//!
//! [`DataPlane::start`] opens the ports and starts the workers. A worker takes
//! packets in bursts, runs each to completion through the switch, and sends
//! what comes out in batches. It sleeps in `poll` when nothing arrives, so an
//! idle switch costs nothing.
//!
//! Every packet that is lost here is counted with its reason (but for those of
//! the microseconds in which an interface is opened again); see [`PortSnapshot`]
//! and [`DataPlaneSnapshot`].

mod batch;
mod channel;
mod clock;
mod counters;
mod dataplane;
mod files;
mod monitor;
mod opening;
mod packet_socket;
mod packet_tx;
mod pcap;
mod port;
mod sys;
mod tap;
mod turn;
mod vlan;
mod worker;
mod xdp;
mod xdp_tx;

pub use channel::{ChannelEnd, ChannelPort, channel_port};
pub use clock::Clock;
pub use counters::{LinkState, PortSnapshot, TxLoss};
pub use dataplane::{DataPlane, DataPlaneConfig, DataPlaneSnapshot, PacketInSink, Pause, PortSpec};
pub use pcap::PcapReadError;

/// Why the data plane could not start.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// Two ports have the same number.
    #[error("port {0} is given twice: every port needs a number of its own")]
    Duplicate(u16),
    /// The number is that of the CPU port or the drop port.
    #[error("port {port} ({interface}) has the number of the {role} port: choose another number")]
    Reserved {
        /// The number.
        port: u16,
        /// The interface.
        interface: String,
        /// "CPU" or "drop".
        role: &'static str,
    },
    /// No such interface in this network namespace.
    #[error(
        "port {port}: there is no interface named {interface} in this network namespace; \
         `ip link` lists those that exist"
    )]
    NoInterface {
        /// The port's number.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// Packet sockets need CAP_NET_RAW.
    #[error(
        "port {port}: opening a packet socket on {interface} is not permitted; \
         run as root or give the binary the capability cap_net_raw"
    )]
    NotPermitted {
        /// The port's number.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// The file that packets of a port should come from.
    #[error("port {port}: cannot take packets from {}: {source}", path.display())]
    File {
        /// The port's number.
        port: u16,
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        source: PcapReadError,
    },
    /// A file that packets of a port should go to.
    #[error("port {port}: cannot write packets to {}: {source}", path.display())]
    Output {
        /// The port's number.
        port: u16,
        /// The file.
        path: std::path::PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// TAP devices need CAP_NET_ADMIN.
    #[error(
        "port {port}: making or using the TAP device {interface} is not permitted; \
         run as root or give the binary the capability cap_net_admin"
    )]
    TapNotPermitted {
        /// The port's number.
        port: u16,
        /// The device.
        interface: String,
    },
    /// No device can have this name.
    #[error("port {port}: no TAP device can be named {interface:?}: {problem}")]
    TapName {
        /// The port's number.
        port: u16,
        /// The name.
        interface: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The interface is there, but not one that can be attached to so.
    #[error(
        "port {port}: the interface {interface} is there and is no TAP device, or one with \
         several queues; `-i {port}@{interface}` without `tap:` attaches other interfaces"
    )]
    NotTap {
        /// The port's number.
        port: u16,
        /// The interface.
        interface: String,
    },
    /// The device has another user.
    #[error(
        "port {port}: the TAP device {interface} is in use, by another port of this switch or \
         by another process; give every port a device of its own"
    )]
    TapInUse {
        /// The port's number.
        port: u16,
        /// The device.
        interface: String,
    },
    /// AF_XDP does not work for this interface.
    #[error(
        "port {port}: AF_XDP on {interface} {problem}; \
         `-i {port}@{interface}` without `xdp:` uses a packet socket instead"
    )]
    Xdp {
        /// The port's number.
        port: u16,
        /// The interface.
        interface: String,
        /// What is in the way.
        problem: XdpProblem,
    },
    /// Another failure.
    #[error("port {port} ({interface}): cannot {action}: {source}")]
    Io {
        /// The port's number.
        port: u16,
        /// The interface.
        interface: String,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kernel's messages about interfaces cannot be had.
    #[error("cannot watch the interfaces: {0}")]
    Monitor(std::io::Error),
    /// A thread could not be started.
    #[error("cannot start a worker thread: {0}")]
    Thread(std::io::Error),
}

/// Why AF_XDP does not work for an interface.
#[derive(Debug, thiserror::Error)]
pub enum XdpProblem {
    /// The kernel lacks it.
    #[error("is not in this kernel (CONFIG_XDP_SOCKETS, CONFIG_BPF_SYSCALL)")]
    Unsupported,
    /// The process lacks capabilities.
    #[error(
        "is not permitted (tried to {action}): run as root or give the binary the \
         capabilities cap_net_raw, cap_net_admin and cap_bpf"
    )]
    NotPermitted {
        /// What was tried.
        action: &'static str,
    },
    /// Another program or socket has the interface.
    #[error("is in use: the interface has another XDP program or its queue another socket")]
    Busy,
    /// RLIMIT_MEMLOCK is too low.
    #[error("needs more locked memory than is allowed: raise `ulimit -l`")]
    Locked,
    /// Packets of this length do not fit a frame.
    #[error("takes an MTU of at most 3818 bytes, and it is {mtu}: `ip link set IFACE mtu 3818`")]
    Mtu {
        /// The interface's MTU in bytes.
        mtu: u32,
    },
    /// Every queue has a socket with its memory.
    #[error(
        "takes at most 64 receive queues, and the interface has {queues}; more than there are \
         workers are of no use: `ethtool -L IFACE combined 64` (`rx 64` for some drivers)"
    )]
    Queues {
        /// How many it has.
        queues: u32,
    },
    /// Another failure.
    #[error("does not work, cannot {action}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
}
