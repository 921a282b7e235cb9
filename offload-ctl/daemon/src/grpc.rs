//! `offload.v1` on the wire: streams of load directors, calls of operators.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures::Stream;
use offload_api::v1::admin_server::Admin;
use offload_api::v1::offload_server::Offload;
use offload_api::v1::{self, ld_message};
use p4_contract::DropReason;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

use crate::books;
use crate::core::{AdminRequest, Event, ExplainPart, LdEvent};
use crate::dataplane::{Cells, Count, Counter, Dataplane, Lost};
use crate::entry::Key;
use crate::flows::Dir;

/// Messages that wait for an LD to read them.
const TO_LD: usize = 65_536;
/// How long LDs have to answer a question.
const EXPLAIN_WAIT: Duration = Duration::from_millis(800);

/// Both services; cheap to clone.
#[derive(Clone)]
pub struct Api {
    events: mpsc::Sender<Event>,
}

impl Api {
    /// Services that hand everything to the core.
    pub fn new(events: mpsc::Sender<Event>) -> Self {
        Self { events }
    }

    /// Asks the core.
    ///
    /// # Errors
    /// The core's, or unavailable when it has ended.
    pub async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Status>>) -> AdminRequest,
    ) -> Result<T, Status> {
        let (sender, receiver) = oneshot::channel();
        let gone = || Status::unavailable("offload-ctl is stopping");
        self.events
            .send(Event::Admin(request(sender)))
            .await
            .map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}

static STREAMS: AtomicU64 = AtomicU64::new(1);

#[tonic::async_trait]
impl Offload for Api {
    type AttachStream = Pin<Box<dyn Stream<Item = Result<v1::CtlMessage, Status>> + Send>>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::LdMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut inbound = request.into_inner();
        let events = self.events.clone();
        let (sender, receiver) = mpsc::channel(TO_LD);
        tokio::spawn(async move {
            let stream = STREAMS.fetch_add(1, Ordering::Relaxed);
            let first = inbound.next().await;
            let Some(Ok(v1::LdMessage {
                message: Some(ld_message::Message::Hello(hello)),
            })) = first
            else {
                let status = Status::invalid_argument("the first message must be Hello");
                let _ = sender.try_send(Err(status));
                return;
            };
            let hello = LdEvent::Hello {
                stream,
                hello,
                sender: sender.clone(),
            };
            drop(sender);
            if events.send(Event::Ld(hello)).await.is_err() {
                return;
            }
            while let Some(Ok(message)) = inbound.next().await {
                let Some(message) = message.message else {
                    continue;
                };
                let event = LdEvent::Message { stream, message };
                if events.send(Event::Ld(event)).await.is_err() {
                    return;
                }
            }
            let _ = events.send(Event::Ld(LdEvent::Gone { stream })).await;
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

#[tonic::async_trait]
impl Admin for Api {
    async fn apply(
        &self,
        request: Request<v1::ApplyRequest>,
    ) -> Result<Response<v1::ApplyResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| AdminRequest::Apply(request, reply))
            .await
            .map(Response::new)
    }

    async fn get_config(
        &self,
        request: Request<v1::GetConfigRequest>,
    ) -> Result<Response<v1::GetConfigResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| AdminRequest::GetConfig(request, reply))
            .await
            .map(Response::new)
    }

    async fn get_status(
        &self,
        _: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::GetStatusResponse>, Status> {
        self.ask(AdminRequest::GetStatus).await.map(Response::new)
    }

    async fn list_vips(
        &self,
        request: Request<v1::ListVipsRequest>,
    ) -> Result<Response<v1::ListVipsResponse>, Status> {
        let request = request.into_inner();
        let page = self
            .ask(|reply| AdminRequest::ListVips(request, reply))
            .await?;
        let mut response = page.response;
        if let Some(dataplane) = page.dataplane {
            add_vip_counters(&*dataplane, &mut response)
                .await
                .map_err(unreadable)?;
        }
        Ok(Response::new(response))
    }

    async fn list_flows(
        &self,
        request: Request<v1::ListFlowsRequest>,
    ) -> Result<Response<v1::ListFlowsResponse>, Status> {
        let request = request.into_inner();
        let with_counters = request.with_counters;
        let page = self
            .ask(|reply| AdminRequest::ListFlows(request, reply))
            .await?;
        let mut counts: HashMap<Key, Count> = HashMap::new();
        if let Some(dataplane) = page.dataplane.filter(|_| with_counters) {
            let keys: Vec<Key> = page
                .views
                .iter()
                .flat_map(|view| Dir::BOTH.map(|dir| view.pair.key(dir)))
                .collect();
            if !keys.is_empty() {
                counts = dataplane
                    .read_entries(keys)
                    .await
                    .map_err(unreadable)?
                    .into_iter()
                    .filter_map(|reading| Some((reading.entry.key, reading.count?)))
                    .collect();
            }
        }
        let flows = page
            .views
            .into_iter()
            .map(|view| v1::FlowStatus {
                flow: Some(view.flow),
                ld: view.ld.to_string(),
                state: view.state.to_owned(),
                fwd: counts.get(&view.pair.key(Dir::Fwd)).map(totals),
                rev: counts.get(&view.pair.key(Dir::Rev)).map(totals),
            })
            .collect();
        Ok(Response::new(v1::ListFlowsResponse {
            flows,
            next_page_token: page.next_page_token,
            total: page.total,
        }))
    }

    async fn get_books(
        &self,
        _: Request<v1::GetBooksRequest>,
    ) -> Result<Response<v1::GetBooksResponse>, Status> {
        let view = self.ask(AdminRequest::Counters).await?;
        books::read(&*view.dataplane, &view.ports)
            .await
            .map(Response::new)
            .map_err(unreadable)
    }

    async fn explain(
        &self,
        request: Request<v1::ExplainRequest>,
    ) -> Result<Response<v1::ExplainResponse>, Status> {
        let tuple = request.into_inner().tuple.ok_or_else(|| {
            Status::invalid_argument("no tuple: name protocol, source and destination")
        })?;
        let part = self
            .ask(|reply| AdminRequest::Explain(tuple, reply))
            .await?;
        Ok(Response::new(finish_explanation(part).await))
    }

    async fn set_server_state(
        &self,
        request: Request<v1::SetServerStateRequest>,
    ) -> Result<Response<v1::SetServerStateResponse>, Status> {
        let request = request.into_inner();
        self.ask(|reply| AdminRequest::SetServerState(request, reply))
            .await
            .map(Response::new)
    }
}

fn unreadable(lost: Lost) -> Status {
    Status::unavailable(format!("the switch could not be read: {lost}"))
}

pub(crate) fn totals(count: &Count) -> v1::Totals {
    v1::Totals {
        packets: count.packets,
        bytes: count.bytes,
    }
}

fn cell(cells: &Cells, counter: Counter, index: u32) -> Option<v1::Totals> {
    let count = cells.get(&counter)?.get(&index).copied();
    Some(totals(&count.unwrap_or_default()))
}

async fn add_vip_counters(
    dataplane: &dyn Dataplane,
    response: &mut v1::ListVipsResponse,
) -> Result<(), Lost> {
    let cells = dataplane
        .read_counters(vec![
            Counter::VipRx,
            Counter::VipFastFwd,
            Counter::VipFastRev,
            Counter::ServerFastFwd,
            Counter::ServerFastRev,
        ])
        .await?;
    for status in &mut response.vips {
        let id = status.vip.as_ref().map_or(0, |vip| vip.vip_id);
        status.rx = cell(&cells, Counter::VipRx, id);
        status.fast_fwd = cell(&cells, Counter::VipFastFwd, id);
        status.fast_rev = cell(&cells, Counter::VipFastRev, id);
        for server in &mut status.servers {
            let id = server.server.as_ref().map_or(0, |server| server.server_id);
            server.fast_fwd = cell(&cells, Counter::ServerFastFwd, id);
            server.fast_rev = cell(&cells, Counter::ServerFastRev, id);
        }
    }
    Ok(())
}

/// The name of a drop reason as the P4 program has it.
pub fn drop_name(index: u32) -> String {
    let reason = DropReason::ALL
        .into_iter()
        .find(|reason| *reason as u32 == index);
    reason.map_or_else(
        || format!("DROP_{index}"),
        |reason| reason.name().to_owned(),
    )
}

/// Adds what the switch's entries and the LDs say.
async fn finish_explanation(mut part: ExplainPart) -> v1::ExplainResponse {
    if let Some(dataplane) = part.dataplane.take().filter(|_| !part.entries.is_empty()) {
        let keys = part.entries.iter().map(|(_, key)| *key).collect();
        match dataplane.read_entries(keys).await {
            Ok(readings) => {
                for (name, key) in &part.entries {
                    let found = readings.iter().find(|reading| reading.entry.key == *key);
                    part.steps.push(match found {
                        None => format!("{name}: no entry on the switch"),
                        Some(reading) => {
                            let count = reading.count.map_or_else(String::new, |count| {
                                format!(", {} packets, {} bytes", count.packets, count.bytes)
                            });
                            let idle = reading.idle_ms.map_or_else(String::new, |ms| {
                                format!(", last hit {}.{} s ago", ms / 1000, ms % 1000 / 100)
                            });
                            format!("{name}: entry on the switch{count}{idle}")
                        }
                    });
                }
            }
            Err(lost) => part
                .steps
                .push(format!("the switch could not be read: {lost}")),
        }
    }
    let mut found = false;
    let until = tokio::time::Instant::now() + EXPLAIN_WAIT;
    for _ in 0..part.asked.len() {
        let Ok(Some(answer)) = tokio::time::timeout_at(until, part.answers.recv()).await else {
            part.steps.push("an ld did not answer in time".to_owned());
            break;
        };
        if answer.found {
            found = true;
            for fact in answer.facts {
                part.steps.push(format!("ld: {fact}"));
            }
            if part.flow.is_none() {
                part.flow = answer.flow;
            }
        } else if part.verdict.is_empty() {
            for fact in answer.facts {
                part.steps.push(format!("ld: {fact}"));
            }
        }
    }
    let verdict = match part.verdict.as_str() {
        "" if part.asked.is_empty() => "drop:no ld is connected".to_owned(),
        "" if found => "slow".to_owned(),
        "" => {
            part.steps
                .push("no session: a SYN (or first datagram) would open one on an ld".to_owned());
            "slow".to_owned()
        }
        verdict => verdict.to_owned(),
    };
    v1::ExplainResponse {
        steps: part.steps,
        verdict,
        flow: part.flow,
    }
}
