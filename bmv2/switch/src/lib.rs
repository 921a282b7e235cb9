//! A software P4 switch that runs what p4c-bm2-ss emits and speaks P4Runtime.
