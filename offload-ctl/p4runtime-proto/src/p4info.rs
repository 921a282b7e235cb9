//! P4Info in protobuf text format.
