//! The stream to offload-ctl: opened again and again, for ever.

use std::time::Duration;

use offload_api::v1::{CtlMessage, LdMessage, offload_client::OffloadClient};
use sluice_config::ApiAddress;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

/// First pause after a lost connection.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
/// Longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Largest message taken from offload-ctl: a snapshot of many VIPs.
const MAX_MESSAGE: usize = 64 << 20;
/// Messages on their way out before the control thread has to wait.
const OUTGOING: usize = 64;

/// What happens to the stream. `Down` follows every `Up`.
#[derive(Debug)]
pub enum Signal {
    /// A stream is being opened: the first message is to be sent.
    Up(mpsc::Sender<LdMessage>),
    /// offload-ctl says something.
    Message(Box<CtlMessage>),
    /// The stream is gone, or could not be opened: the reason.
    Down(String),
}

/// Opens the stream and keeps opening it. Ends when nobody listens any more.
pub async fn run(address: ApiAddress, signals: mpsc::Sender<Signal>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (reason, lived) = attach(&address, &signals).await;
        if lived {
            pause = FIRST_PAUSE;
        }
        if signals.send(Signal::Down(reason)).await.is_err() {
            return;
        }
        // Up to a quarter more, so that many load directors do not come back
        // in step.
        let jitter = rand::random_range(0.0..0.25);
        tokio::time::sleep(pause.mul_f64(1.0 + jitter)).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// One life of the stream: why it ended, and whether offload-ctl ever spoke.
async fn attach(address: &ApiAddress, signals: &mpsc::Sender<Signal>) -> (String, bool) {
    let channel = match offload_api::address::connect(address).await {
        Ok(channel) => channel,
        Err(error) => return (with_sources(&error), false),
    };
    let mut client = OffloadClient::new(channel)
        .max_decoding_message_size(MAX_MESSAGE)
        .max_encoding_message_size(MAX_MESSAGE);
    let (sender, receiver) = mpsc::channel(OUTGOING);
    if signals.send(Signal::Up(sender)).await.is_err() {
        return (String::new(), false);
    }
    let mut incoming = match client.attach(ReceiverStream::new(receiver)).await {
        Ok(response) => response.into_inner(),
        Err(status) => return (status.message().to_owned(), false),
    };
    let mut lived = false;
    loop {
        match incoming.message().await {
            Ok(Some(message)) => {
                lived = true;
                if signals
                    .send(Signal::Message(Box::new(message)))
                    .await
                    .is_err()
                {
                    return (String::new(), lived);
                }
            }
            Ok(None) => return ("offload-ctl closed the stream".to_owned(), lived),
            Err(status) => return (status.message().to_owned(), lived),
        }
    }
}

/// An error with what caused it: the transport's own text is only "transport
/// error".
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
