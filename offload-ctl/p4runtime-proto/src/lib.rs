//! P4Runtime messages and services.
