//! A P4Runtime client: arbitration, pipeline, batched writes, reads, packet I/O.
