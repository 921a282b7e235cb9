//! The code that build.rs generates, laid out by protobuf package.

#![allow(missing_docs, reason = "the schema comments what its names leave open")]
#![allow(
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    reason = "generated code is not ours to style"
)]

/// Messages of packages under `google`.
pub mod google {
    /// The status message and the canonical codes.
    pub mod rpc {
        tonic::include_proto!("google.rpc");
    }
}

/// Messages of packages under `p4`.
pub mod p4 {
    /// The P4Runtime service and its messages.
    pub mod v1 {
        tonic::include_proto!("p4.v1");
    }

    /// Descriptions of P4 programs.
    pub mod config {
        /// P4Info and the types of P4 programs.
        pub mod v1 {
            tonic::include_proto!("p4.config.v1");
        }
    }
}
