//! The offload control API, `offload.v1`.
//!
//! `proto/offload.proto` is the contract: one bidirectional stream per load
//! director ([`v1::offload_client`]) and unary calls for operators
//! ([`v1::admin_client`]). Everything here is generated from it, apart from the
//! revision number and the opening of channels.

pub mod address;

/// Revision of `offload.v1` that this build speaks. Both ends refuse a peer
/// whose revision differs, in a sentence that says which side to upgrade.
pub const API_REVISION: u32 = 1;

/// Messages, clients and servers of `offload.v1`.
#[allow(
    missing_docs,
    unreachable_pub,
    rustdoc::invalid_html_tags,
    clippy::large_enum_variant,
    clippy::doc_lazy_continuation
)]
pub mod v1 {
    tonic::include_proto!("offload.v1");
}
