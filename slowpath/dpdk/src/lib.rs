//! Safe wrappers for the parts of DPDK that Sluice uses.
