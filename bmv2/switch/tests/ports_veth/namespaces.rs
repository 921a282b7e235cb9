//! Network namespaces that are joined by veth pairs, and work within them.

use std::fs::File;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, setns};

use crate::HOSTS;

pub(crate) fn run(command: &str) -> Result<String, String> {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap())
        .args(words)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{command}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(text);
    }
    let error = String::from_utf8_lossy(&output.stderr);
    Err(format!("{command}: {}\n{text}{error}", output.status))
}

pub(crate) fn ip(arguments: &str) {
    run(&format!("ip {arguments}")).unwrap();
}

/// Network namespaces that go away with this value.
pub(crate) struct Namespaces {
    pub(crate) prefix: String,
    pub(crate) mtu: u32,
    /// Of each kind, at each end of a link.
    queues: u32,
}

impl Namespaces {
    /// The switch's namespace and one for each host, joined by veth pairs.
    /// `tag` tells apart those of one process.
    pub(crate) fn new(tag: &str, mtu: u32) -> Self {
        Self::with_queues(tag, mtu, 1)
    }

    /// As [`new`](Self::new), with interfaces of several queues.
    pub(crate) fn with_queues(tag: &str, mtu: u32, queues: u32) -> Self {
        let this = Self {
            prefix: format!("sstest{}{tag}", std::process::id()),
            mtu,
            queues,
        };
        ip(&format!("netns add {}", this.switch()));
        for host in HOSTS {
            ip(&format!("netns add {}", this.host(host)));
            this.join(host);
        }
        this
    }

    /// Makes the veth pair between a host and the switch.
    pub(crate) fn join(&self, host: u16) {
        let (ns, switch, mtu) = (self.host(host), self.switch(), self.mtu);
        let queues = format!("numrxqueues {0} numtxqueues {0}", self.queues);
        ip(&format!(
            "link add h0 netns {ns} {queues} type veth peer name p{host} netns {switch} {queues}"
        ));
        ip(&format!("-n {switch} link set p{host} mtu {mtu} up"));
        ip(&format!(
            "-n {ns} link set h0 address 02:00:00:00:00:0{host} mtu {mtu} up"
        ));
        // veth leaves checksums to hardware that is not there.
        run(&format!("ip netns exec {ns} ethtool -K h0 tx off")).unwrap();
        let other = HOSTS[0] + HOSTS[1] - host;
        ip(&format!("-n {ns} addr add 10.70.0.{host}/24 dev h0"));
        ip(&format!(
            "-n {ns} neigh add 10.70.0.{other} lladdr 02:00:00:00:00:0{other} dev h0"
        ));
    }

    pub(crate) fn switch(&self) -> String {
        format!("{}s", self.prefix)
    }

    pub(crate) fn host(&self, host: u16) -> String {
        format!("{}h{host}", self.prefix)
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in [self.switch(), self.host(1), self.host(2)] {
            let _ = run(&format!("ip netns del {name}"));
        }
    }
}

/// Runs something in a namespace. Sockets stay in the namespace of the thread
/// that opened them.
pub(crate) fn within<T: Send + 'static>(
    name: String,
    work: impl FnOnce() -> T + Send + 'static,
) -> T {
    let thread = std::thread::spawn(move || {
        let namespace = File::open(format!("/var/run/netns/{name}")).unwrap();
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        work()
    });
    thread.join().unwrap()
}

/// One test at a time: they look at what the process uses.
static ALONE: std::sync::Mutex<()> = std::sync::Mutex::new(());

pub(crate) fn alone() -> std::sync::MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|error| error.into_inner())
}

/// Why the test cannot run here.
pub(crate) fn obstacle() -> Option<&'static str> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root");
    }
    if run("ip netns list").is_err() {
        return Some("`ip netns` does not work here");
    }
    run("ethtool --version")
        .is_err()
        .then_some("there is no ethtool")
}
