//! offload-ctl's administrative API as the lab uses it.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use offload_api::v1::admin_client::AdminClient;
use offload_api::v1::{
    ApplyRequest, ApplyResponse, GetBooksRequest, GetBooksResponse, GetStatusRequest,
    GetStatusResponse, ListFlowsRequest, ListVipsRequest, SetServerStateRequest, VipStatus,
    set_server_state_request::Action,
};
use sluice_config::ApiAddress;
use tokio::runtime::Runtime;
use tonic::transport::Channel;

/// A client that connects anew for each call: the server is killed and
/// started again under it.
#[derive(Debug)]
pub struct Admin {
    runtime: Runtime,
    address: ApiAddress,
}

/// Longest time for one call.
const LIMIT: Duration = Duration::from_secs(15);
/// Largest message, for pages of flows.
const MESSAGE: usize = 64 << 20;

impl Admin {
    /// A client of the API at `address`.
    pub fn new(runtime: Runtime, address: ApiAddress) -> Self {
        Self { runtime, address }
    }

    fn call<T, F>(&self, what: &str, f: impl FnOnce(AdminClient<Channel>) -> F) -> Result<T>
    where
        F: Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    {
        self.runtime.block_on(async {
            let work = async {
                let channel = offload_api::address::connect(&self.address)
                    .await
                    .with_context(|| format!("offload-ctl does not answer at {}", self.address))?;
                let client = AdminClient::new(channel).max_decoding_message_size(MESSAGE);
                match f(client).await {
                    Ok(response) => Ok(response.into_inner()),
                    Err(status) => bail!("{what}: {}: {}", status.code(), status.message()),
                }
            };
            match tokio::time::timeout(LIMIT, work).await {
                Ok(result) => result,
                Err(_) => bail!("{what}: no answer within {} s", LIMIT.as_secs()),
            }
        })
    }

    /// Applies, or plans, a configuration.
    ///
    /// # Errors
    /// If the call fails; problems of the configuration are in the response.
    pub fn apply(&self, config_toml: &str, dry_run: bool) -> Result<ApplyResponse> {
        let request = ApplyRequest {
            config_toml: config_toml.to_owned(),
            dry_run,
            expected_version: 0,
        };
        self.call(
            "Apply",
            |mut client| async move { client.apply(request).await },
        )
    }

    /// Version, switch, load directors.
    ///
    /// # Errors
    /// If the call fails.
    pub fn status(&self) -> Result<GetStatusResponse> {
        self.call("GetStatus", |mut client| async move {
            client.get_status(GetStatusRequest {}).await
        })
    }

    /// The switch's counters.
    ///
    /// # Errors
    /// If the call fails.
    pub fn books(&self) -> Result<GetBooksResponse> {
        self.call("GetBooks", |mut client| async move {
            client.get_books(GetBooksRequest {}).await
        })
    }

    /// Offloaded flows that offload-ctl holds.
    ///
    /// # Errors
    /// If the call fails.
    pub fn flows(&self) -> Result<u64> {
        let request = ListFlowsRequest {
            page_size: 1,
            ..ListFlowsRequest::default()
        };
        let response = self.call("ListFlows", |mut client| async move {
            client.list_flows(request).await
        })?;
        Ok(response.total)
    }

    /// Every VIP with its totals.
    ///
    /// # Errors
    /// If the call fails.
    pub fn vips(&self) -> Result<Vec<VipStatus>> {
        let mut vips = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = ListVipsRequest {
                page_size: 500,
                page_token,
            };
            let page = self.call("ListVips", |mut client| async move {
                client.list_vips(request).await
            })?;
            vips.extend(page.vips);
            if page.next_page_token.is_empty() {
                return Ok(vips);
            }
            page_token = page.next_page_token;
        }
    }

    /// Sets a server's state.
    ///
    /// # Errors
    /// If the call fails.
    pub fn set_server(&self, vip: &str, server: &str, action: Action) -> Result<()> {
        let request = SetServerStateRequest {
            vip: vip.into(),
            server: server.into(),
            action: action.into(),
        };
        self.call("SetServerState", |mut client| async move {
            client.set_server_state(request).await
        })
        .map(drop)
    }

    /// Counters and gauges of the only load director, from its last heartbeat.
    ///
    /// # Errors
    /// If it is not connected or has not sent one.
    pub fn ld(&self) -> Result<Ld> {
        let status = self.status()?;
        let ld = status
            .lds
            .into_iter()
            .next()
            .context("no load director is known")?;
        if !ld.connected {
            bail!("load director {} is not connected", ld.name);
        }
        let last = ld.last.context("the load director has sent no heartbeat")?;
        Ok(Ld {
            counters: last.counters.into_iter().collect(),
            gauges: last.gauges.into_iter().collect(),
            config_version: ld.config_version,
        })
    }
}

/// What a load director said of itself.
#[derive(Clone, Debug, Default)]
pub struct Ld {
    /// Totals since its start.
    pub counters: BTreeMap<String, u64>,
    /// Momentary values.
    pub gauges: BTreeMap<String, u64>,
    /// Version of the snapshot it works with.
    pub config_version: u64,
}

impl Ld {
    /// A total; absent is 0.
    pub fn counter(&self, name: &str) -> u64 {
        self.counters.get(name).copied().unwrap_or_default()
    }

    /// A momentary value.
    ///
    /// # Errors
    /// If the load director does not report it: a check on an absent value
    /// could not fail.
    pub fn gauge(&self, name: &str) -> Result<u64> {
        self.gauges
            .get(name)
            .copied()
            .with_context(|| format!("the load director reports no \"{name}\""))
    }
}
