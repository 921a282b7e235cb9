//! A start of the EAL that fails, in its own process.

use dpdk::{Eal, EalArgs, Error};

#[test]
fn a_missing_driver_is_an_error_and_not_an_exit() {
    let args = EalArgs::without_huge_pages(16).vdev("net_nonsense0");
    let Err(Error::EalInit { arguments, .. }) = Eal::init(&args) else {
        panic!("there is no such driver");
    };
    assert_eq!(arguments, args.as_slice());
    assert!(matches!(
        Eal::init(&EalArgs::without_huge_pages(16)),
        Err(Error::EalAlreadyInitialised)
    ));
}
