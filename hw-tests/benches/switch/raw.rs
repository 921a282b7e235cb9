//! A client that sends requests as bytes that were made before: what is timed
//! is the switch, not the making of messages.

use anyhow::{Context, Result};
use p4runtime_proto::p4::v1::{Uint128, Update, WriteRequest, write_request::Atomicity};
use prost::Message;
use prost::bytes::{Buf, BufMut};
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

/// A connection for Write alone.
pub struct RawClient(Grpc<Channel>);

impl RawClient {
    pub async fn connect(address: &str) -> Result<Self> {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        Ok(Self(Grpc::new(endpoint.connect().await?)))
    }

    /// Sends one request and waits for its answer; all of it must be applied.
    pub async fn write(&mut self, request: Vec<u8>) -> Result<()> {
        self.0.ready().await?;
        let path = PathAndQuery::from_static("/p4.v1.P4Runtime/Write");
        self.0
            .unary(tonic::Request::new(request), path, Bytes)
            .await
            .context("a write was refused")?;
        Ok(())
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
