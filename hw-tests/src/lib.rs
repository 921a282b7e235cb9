//! One packet suite for any P4Runtime target.
