//! Values as P4Runtime bytestrings.
