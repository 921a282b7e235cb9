//! A client that sends requests as bytes that were made before, from one thread:
//! what is timed is the switch, neither the making of messages nor a client's
//! threads that wake each other.

use anyhow::{Context, Result};
use p4runtime_proto::p4::v1::{Uint128, Update, WriteRequest, write_request::Atomicity};
use prost::Message;
use prost::bytes::{Buf, BufMut};
use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};

/// Messages as they are on the wire.
#[derive(Debug, Default, Clone, Copy)]
struct Bytes;

impl Codec for Bytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Bytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let mut item = vec![0; from.remaining()];
        from.copy_to_slice(&mut item);
        Ok(Some(item))
    }
}

/// A connection for Write alone. The thread that calls does everything: waiting
/// for an answer costs one wake-up.
pub struct RawClient {
    grpc: Grpc<Channel>,
    runtime: Runtime,
}

impl RawClient {
    pub fn connect(address: &str) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let channel = runtime.block_on(endpoint.connect())?;
        Ok(Self {
            grpc: Grpc::new(channel),
            runtime,
        })
    }

    /// Sends requests one after the other, each when the one before it is
    /// answered; all of them must be applied.
    pub fn write_all(&mut self, requests: Vec<Vec<u8>>) -> Result<()> {
        let Self { grpc, runtime } = self;
        runtime.block_on(async {
            for request in requests {
                grpc.ready().await?;
                let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
                grpc.unary(tonic::Request::new(request), path, Bytes)
                    .await
                    .context("a write was refused")?;
            }
            Ok(())
        })
    }
}

/// A write request as bytes.
pub fn request(device: u64, election: u128, updates: Vec<Update>) -> Vec<u8> {
    WriteRequest {
        device_id: device,
        election_id: Some(Uint128 {
            high: (election >> 64) as u64,
            low: election as u64,
        }),
        updates,
        atomicity: Atomicity::ContinueOnError as i32,
        ..WriteRequest::default()
    }
    .encode_to_vec()
}
