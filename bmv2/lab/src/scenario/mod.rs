//! What the lab does, one scenario a file.

pub mod bad_input;
pub mod churn;
pub mod failures;
pub mod main_job;

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::admin::Admin;
use crate::books::Books;
use crate::servers::Offered;
use crate::stack::{Files, Stack};
use crate::topology::Topology;
use crate::traffic::{Download, wait_for};

/// The intent that the lab applies.
pub const GATEWAY: &str = include_str!("../../../../config/samples/gateway.toml");

/// A running lab.
#[derive(Debug)]
pub struct Lab {
    /// Sluice's processes; dropped before the namespaces they run in.
    pub stack: Stack,
    /// Namespaces and links.
    pub topology: Topology,
    /// offload-ctl's API.
    pub admin: Admin,
    /// Files of the run.
    pub files: Files,
    /// Where downloads go.
    pub downloads: PathBuf,
    /// Address of all VIPs.
    pub vip: Ipv4Addr,
    /// 1 MiB.
    pub small: Offered,
    /// 64 MiB.
    pub medium: Offered,
    /// 1 GiB.
    pub large: Offered,
}

/// MB/s of downloads in whose middle something happens: eight seconds for the
/// medium file.
const SLOW_MB: u32 = 8;

impl Lab {
    /// Waits until offload-ctl is the switch's primary with the wanted
    /// pipeline and the load director works with the present configuration.
    ///
    /// # Errors
    /// If that does not come about, or a process ends.
    pub fn wait_until_ready(&mut self, limit: Duration) -> Result<Duration> {
        let mut state = String::new();
        let stack = &mut self.stack;
        let admin = &self.admin;
        let waited = wait_for("Sluice is ready", limit, || {
            stack.check()?;
            // offload-ctl may not listen yet.
            let status = match admin.status() {
                Ok(status) => status,
                Err(error) => {
                    state = format!("{error:#}");
                    return Ok(false);
                }
            };
            let switch = status.switch.unwrap_or_default();
            let ld = status.lds.first().cloned().unwrap_or_default();
            state = format!(
                "switch connected: {}, primary: {} ({}); load director connected: {}, \
                 configuration {} of {}",
                switch.connected,
                switch.primary,
                switch.detail,
                ld.connected,
                ld.config_version,
                status.config_version
            );
            Ok(switch.connected
                && switch.primary
                && switch.pipeline_cookie == switch.wanted_cookie
                && status.config_version > 0
                && ld.connected
                && ld.last.is_some()
                && ld.config_version == status.config_version)
        });
        match waited {
            Ok(time) => Ok(time),
            Err(error) => bail!("{error:#}; {state}"),
        }
    }

    /// Starts a download and waits until the switch rewrites its packets.
    ///
    /// # Errors
    /// If that does not come about.
    pub fn offloaded_download(&self, name: &str) -> Result<Download> {
        let before = Books::read(&self.admin)?.fast();
        let mut download = Download::start(
            &self.topology.client,
            self.vip,
            &self.medium,
            self.downloads.join(name),
            Some(SLOW_MB),
        )?;
        wait_for("the download is offloaded", Duration::from_secs(15), || {
            if download.is_done()? {
                bail!("the download ended before it was offloaded");
            }
            let books = Books::read(&self.admin)?;
            Ok(books.flow_entries.0 > 0 && books.flow_entries.1 > 0 && books.fast() > before + 100)
        })?;
        Ok(download)
    }

    /// A new connection that must succeed.
    ///
    /// # Errors
    /// If it does not.
    pub fn probe(&self) -> Result<String> {
        let path = self.downloads.join("probe");
        let done =
            Download::start(&self.topology.client, self.vip, &self.small, path, None)?.finish()?;
        Ok(done.server)
    }
}
