//! The hosts of the lab and the links between them and the switch.
//!
//! ```text
//!   c1 ── p1 ┐          ┌ p2 ── s1
//!            ├  switch ─┼ p3 ── s2
//!   ld ── p5 ┘  (gw)    └ p4 ── s3
//! ```
//!
//! Addresses come from `config/samples/gateway.toml`.

use anyhow::{Context, Result};
use sluice_config::{Gateway, Port, PortRole};

use crate::namespace::{self, Namespace};

/// The interface of a load director.
pub const LD_INTERFACE: &str = "ld0";

/// All namespaces of one run.
#[derive(Debug)]
pub struct Topology {
    /// The switch and offload-ctl.
    pub gateway: Namespace,
    /// The clients.
    pub client: Namespace,
    /// The servers, in the order of their ports.
    pub servers: Vec<Namespace>,
    /// The load director.
    pub ld: Namespace,
    /// Ports of the switch: number and interface.
    pub ports: Vec<(u16, String)>,
}

impl Topology {
    /// Makes the namespaces and links that `config` describes.
    ///
    /// # Errors
    /// If the machine refuses; what was made is removed again.
    pub fn build(run: u32, config: &Gateway) -> Result<Self> {
        let gateway = Namespace::create(run, "gw")?;
        let client = Namespace::create(run, "c1")?;
        let ld = Namespace::create(run, "ld")?;
        let mut servers = Vec::new();
        let mut ports = Vec::new();
        for port in &config.ports {
            let interface = format!("p{}", port.number);
            let (namespace, peer) = match port.role {
                PortRole::Uplink => (&client, "eth0"),
                PortRole::Ld => (&ld, LD_INTERFACE),
                PortRole::Fabric => {
                    servers.push(Namespace::create(run, &format!("s{}", servers.len() + 1))?);
                    (servers.last().context("no server")?, "eth0")
                }
            };
            namespace::link(&gateway, &interface, namespace, peer, port.mtu)?;
            host(namespace, peer, port)?;
            ports.push((port.number, interface));
        }
        // The kernel beside the load director's port sees the tunnel's packets
        // too and would answer with port unreachable.
        ld.nft(
            "table inet sluice {\n chain input {\n  type filter hook input priority 0;\n  \
             udp dport 4789 drop\n }\n}\n",
        )?;
        Ok(Self {
            gateway,
            client,
            servers,
            ld,
            ports,
        })
    }

    /// Leaves everything behind when dropped.
    pub fn keep(&mut self) {
        self.gateway.keep();
        self.client.keep();
        self.ld.keep();
        for server in &mut self.servers {
            server.keep();
        }
    }

    /// Packets the kernel delivered to each of the switch's interfaces, which
    /// is what a switch that loses nothing has received.
    ///
    /// # Errors
    /// If the counters can't be read.
    pub fn delivered(&self) -> Result<Vec<(u16, u64)>> {
        self.ports
            .iter()
            .map(|(number, interface)| {
                let text = self.gateway.shell(&format!(
                    "cat /sys/class/net/{interface}/statistics/rx_packets"
                ))?;
                let packets = text.trim().parse().context("rx_packets is no number")?;
                Ok((*number, packets))
            })
            .collect()
    }
}

/// Addresses a host on the link of `port`: the second address, or the third if
/// that is the switch's.
fn host(namespace: &Namespace, interface: &str, port: &Port) -> Result<()> {
    let address = port
        .address
        .hosts()
        .find(|address| *address != port.address.addr())
        .context("the link has no address for a host")?;
    let prefix = format!("{address}/{}", port.address.prefix_len());
    namespace.ip(&["address", "add", &prefix, "dev", interface])?;
    let gateway = port.address.addr().to_string();
    namespace.ip(&["route", "add", "default", "via", &gateway])
}
