//! The control thread's loop.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sluice_config::ApiAddress;
use tokio::sync::{Notify, mpsc, watch};

use super::{Control, transport};
use crate::status::Status;

/// Longest wait for offload-ctl to acknowledge a drain.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);
/// Pace of what is due by time.
const TICK: Duration = Duration::from_millis(50);
/// Pace while commands wait for room in a worker's ring.
const BEHIND: Duration = Duration::from_millis(1);

/// How to end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shutdown {
    /// Not yet.
    #[default]
    No,
    /// At once. Offloaded flows stay on the switch.
    Stop,
    /// Take everything off the switch first.
    Drain,
}

/// Runs until `shutdown` says otherwise. The workers have been told to stop on
/// return.
pub async fn run(
    mut control: Control,
    address: ApiAddress,
    events: Arc<Notify>,
    mut shutdown: watch::Receiver<Shutdown>,
    status: watch::Sender<Arc<Status>>,
) {
    let (signals, mut incoming) = mpsc::channel(256);
    let pump = tokio::spawn(transport::run(address, signals));
    let mut outgoing: Option<mpsc::Sender<_>> = None;
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut draining: Option<Instant> = None;
    loop {
        let sender = outgoing.clone();
        let can_send = sender.is_some() && control.has_output();
        let permit = async {
            match &sender {
                Some(sender) => sender.reserve().await.ok(),
                None => None,
            }
        };
        tokio::select! {
            permit = permit, if can_send => match permit {
                Some(permit) => if let Some(message) = control.next_message(Instant::now()) {
                    permit.send(message);
                },
                // The pump says Down in a moment.
                None => outgoing = None,
            },
            signal = incoming.recv() => match signal {
                Some(transport::Signal::Up(sender)) => {
                    control.up();
                    outgoing = Some(sender);
                }
                Some(transport::Signal::Message(message)) => {
                    control.message(*message, Instant::now());
                }
                Some(transport::Signal::Down(reason)) => {
                    control.down(&reason);
                    outgoing = None;
                }
                None => break,
            },
            () = events.notified() => {
                if control.take_events(Instant::now()) {
                    // There may be more than was taken.
                    events.notify_one();
                }
            }
            _ = tick.tick() => {
                let now = Instant::now();
                control.take_events(now);
                control.tick(now);
                let latest = control.status();
                status.send_if_modified(|known| {
                    let new = !Arc::ptr_eq(known, &latest);
                    if new {
                        *known = latest;
                    }
                    new
                });
            }
            () = tokio::time::sleep(BEHIND), if control.is_behind() => control.deliver(),
            changed = shutdown.changed() => {
                let how = *shutdown.borrow();
                match how {
                    // Nobody can say anything any more.
                    _ if changed.is_err() => break,
                    Shutdown::No => {}
                    Shutdown::Stop => break,
                    Shutdown::Drain => {
                        control.drain();
                        draining = Some(Instant::now());
                    }
                }
            }
        }
        if let Some(since) = draining {
            if control.is_drained() {
                tracing::info!("nothing of this process is left on the switch");
                break;
            }
            if since.elapsed() > DRAIN_LIMIT {
                tracing::warn!(
                    "some flows could not be taken off the switch in time; offload-ctl offers \
                     them to the next process"
                );
                break;
            }
        }
    }
    control.stop();
    pump.abort();
}
