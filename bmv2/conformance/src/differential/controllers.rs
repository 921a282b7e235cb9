//! The controllers' streams to one switch, and what is heard on them.

use std::collections::BTreeMap;
use std::sync::mpsc as blocking;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime_proto::p4::v1::stream_message_request::Update as Up;
use p4runtime_proto::p4::v1::stream_message_response::Update as Down;
use p4runtime_proto::status::update_errors;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::canonical;
use super::step::{Acknowledge, MAIN, StreamNumber};

/// Messages that may wait to be sent on a stream.
const WAITING: usize = 64;

/// The open streams.
pub(super) struct Controllers {
    client: P4RuntimeClient<Channel>,
    open: BTreeMap<StreamNumber, mpsc::Sender<p4::StreamMessageRequest>>,
    heard: blocking::Sender<String>,
    digests: Arc<Mutex<Digests>>,
}

/// What is to become of digest lists.
#[derive(Default)]
struct Digests {
    kept_back: bool,
    /// The last list of each digest, and the stream on which it came.
    last: BTreeMap<u32, (StreamNumber, u64)>,
}

impl Controllers {
    /// No streams yet, and where the texts of all messages will come out. Those
    /// of streams other than [`MAIN`] begin with the stream's number.
    pub(super) fn new(client: P4RuntimeClient<Channel>) -> (Self, blocking::Receiver<String>) {
        let (heard, messages) = blocking::channel();
        let controllers = Self {
            client,
            open: BTreeMap::new(),
            heard,
            digests: Arc::default(),
        };
        (controllers, messages)
    }

    /// Sends a message on a stream; opens it if it is not. Must be called
    /// within a runtime.
    ///
    /// # Errors
    /// If the switch has ended the stream.
    pub(super) async fn tell(
        &mut self,
        stream: StreamNumber,
        message: p4::StreamMessageRequest,
    ) -> Result<()> {
        let to_switch = match self.open.get(&stream) {
            Some(open) => open.clone(),
            None => self.open(stream),
        };
        let sent = to_switch.send(message).await;
        sent.with_context(|| format!("stream {stream} has ended"))
    }

    /// Sends an update.
    ///
    /// # Errors
    /// As [`Self::tell`].
    pub(super) async fn update(&mut self, stream: StreamNumber, update: Up) -> Result<()> {
        let message = p4::StreamMessageRequest {
            update: Some(update),
        };
        self.tell(stream, message).await
    }

    fn open(&mut self, stream: StreamNumber) -> mpsc::Sender<p4::StreamMessageRequest> {
        let (to_switch, outbound) = mpsc::channel(WAITING);
        self.open.insert(stream, to_switch.clone());
        let listener = Listener {
            stream,
            heard: self.heard.clone(),
            // It must not keep the stream open.
            to_switch: to_switch.downgrade(),
            digests: Arc::clone(&self.digests),
        };
        let mut client = self.client.clone();
        tokio::spawn(async move {
            // The answer may begin only with the first message.
            let ended = match client.stream_channel(ReceiverStream::new(outbound)).await {
                Ok(inbound) => listener.listen(inbound.into_inner()).await,
                Err(status) => status.code(),
            };
            listener.say(&format!("{}{}", canonical::ENDED, name(ended)));
        });
        to_switch
    }

    /// Ends a stream.
    pub(super) fn close(&mut self, stream: StreamNumber) {
        self.open.remove(&stream);
    }

    /// Says how digest lists are acknowledged, or acknowledges one.
    ///
    /// # Errors
    /// If there is none, or its stream has ended.
    pub(super) async fn acknowledge(&mut self, how: Acknowledge) -> Result<()> {
        let digest = match how {
            Acknowledge::AtOnce | Acknowledge::Never => {
                lock(&self.digests).kept_back = how == Acknowledge::Never;
                return Ok(());
            }
            Acknowledge::Last(digest) => digest,
        };
        let last = lock(&self.digests).last.get(&digest).copied();
        let Some((stream, list_id)) = last else {
            bail!("no list of digest {digest} has come");
        };
        let ack = p4::DigestListAck {
            digest_id: digest,
            list_id,
        };
        self.update(stream, Up::DigestAck(ack)).await
    }
}

/// Who hears what comes on one stream.
struct Listener {
    stream: StreamNumber,
    heard: blocking::Sender<String>,
    to_switch: mpsc::WeakSender<p4::StreamMessageRequest>,
    digests: Arc<Mutex<Digests>>,
}

impl Listener {
    /// Until the stream ends; how it did.
    async fn listen(&self, mut inbound: tonic::Streaming<p4::StreamMessageResponse>) -> Code {
        loop {
            match inbound.message().await {
                Ok(Some(message)) => {
                    for text in self.texts(message.update).await {
                        self.say(&text);
                    }
                }
                Ok(None) => return Code::Ok,
                Err(status) => return status.code(),
            }
        }
    }

    fn say(&self, text: &str) {
        let text = match self.stream {
            MAIN => text.to_owned(),
            stream => format!("controller {stream}: {text}"),
        };
        // Fails only after the end, when it does not matter.
        let _ = self.heard.send(text);
    }

    async fn texts(&self, update: Option<Down>) -> Vec<String> {
        match update {
            Some(Down::Arbitration(update)) => vec![canonical::arbitration(&update)],
            Some(Down::Packet(packet)) => vec![canonical::packet_in(packet)],
            Some(Down::Digest(list)) => {
                self.take_note(&list).await;
                canonical::digests(list)
            }
            Some(Down::IdleTimeoutNotification(notice)) => canonical::idle(notice),
            Some(Down::Error(error)) => {
                let code = name(Code::from_i32(error.canonical_code));
                vec![format!("{}{code}", canonical::STREAM_ERROR)]
            }
            _ => Vec::new(),
        }
    }

    /// Remembers a digest list, and acknowledges it if that is to be.
    async fn take_note(&self, list: &p4::DigestList) {
        let kept_back = {
            let mut digests = lock(&self.digests);
            let last = (self.stream, list.list_id);
            digests.last.insert(list.digest_id, last);
            digests.kept_back
        };
        if kept_back {
            return;
        }
        let ack = p4::DigestListAck {
            digest_id: list.digest_id,
            list_id: list.list_id,
        };
        if let Some(to_switch) = self.to_switch.upgrade() {
            let message = p4::StreamMessageRequest {
                update: Some(Up::DigestAck(ack)),
            };
            // Fails only after the end, when it does not matter.
            let _ = to_switch.send(message).await;
        }
    }
}

fn lock(digests: &Mutex<Digests>) -> std::sync::MutexGuard<'_, Digests> {
    digests.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The code, and the codes of the updates where there are such.
pub(super) fn status_text(status: &Status) -> String {
    let code = name(status.code());
    match update_errors(status) {
        Ok(Some(errors)) => {
            let each: Vec<String> = errors.iter().map(|e| name(e.grpc_code())).collect();
            format!("{code} [{}]", each.join(", "))
        }
        _ => code,
    }
}

/// As the specification writes it.
pub(super) fn name(code: Code) -> String {
    let mut text = String::new();
    for c in format!("{code:?}").chars() {
        if c.is_ascii_uppercase() && !text.is_empty() && code != Code::Ok {
            text.push('_');
        }
        text.push(c.to_ascii_uppercase());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_named_as_the_specification_does() {
        assert_eq!(name(Code::Ok), "OK");
        assert_eq!(name(Code::InvalidArgument), "INVALID_ARGUMENT");
        assert_eq!(name(Code::NotFound), "NOT_FOUND");
    }
}
