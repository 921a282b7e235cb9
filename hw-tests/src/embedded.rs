//! softswitch within this process: packets go into the library, entries come
//! by its own P4Runtime server on loopback. Needs no privileges.

use std::sync::Arc;

use anyhow::Result;
use p4_contract::constants::{CPU_PORT, DROP_PORT};
use p4runtime_client::Client;
use softswitch::p4rt::{P4RuntimeServer, ServerConfig};
use softswitch::ports::Clock;
use softswitch::{Output, Switch, SwitchConfig, Worker};
use tokio::net::TcpListener;

use crate::controller::Controller;

/// A switch without ports.
#[derive(Debug)]
pub struct Embedded {
    /// Its controller.
    pub controller: Controller,
    /// The way into its pipeline.
    pub worker: Worker,
    /// The time of its packets.
    pub clock: Clock,
}

impl Embedded {
    /// A switch with the gateway's pipeline and empty tables.
    ///
    /// # Errors
    /// If the server can't be started or refuses the pipeline.
    pub fn start() -> Result<Self> {
        let switch = Switch::new(SwitchConfig {
            cpu_port: Some(CPU_PORT),
            drop_port: DROP_PORT,
            ..SwitchConfig::default()
        });
        let clock = Clock::start();
        let config = ServerConfig::default();
        let device = config.device_id;
        let server = P4RuntimeServer::new(config, &switch, clock)?;
        let runtime = Controller::runtime()?;
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
        let address = listener.local_addr()?.to_string();
        let server = Arc::new(server);
        // It ends with the runtime.
        runtime.spawn(async move { server.serve([listener], std::future::pending()).await });
        let (client, events) = runtime.block_on(Client::connect(&address, device, 1, None))?;
        let controller = Controller {
            client,
            events,
            runtime,
        };
        controller.set_pipeline()?;
        Ok(Self {
            controller,
            worker: switch.worker(),
            clock,
        })
    }

    /// What the switch transmits when this frame arrives.
    pub fn pass(&mut self, port: u16, frame: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let mut sent = Vec::new();
        let now = self.clock.now();
        self.worker.process(port, frame, now, &mut |out| {
            if let Output::Transmit { port, bytes } = out {
                sent.push((port, bytes.to_vec()));
            }
        });
        sent
    }
}
