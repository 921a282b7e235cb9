//! The offload control API, offload.v1.
