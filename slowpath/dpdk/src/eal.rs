//! The environment abstraction layer: start of DPDK in this process.

use std::{
    ffi::{CStr, CString, c_char, c_int},
    sync::Mutex,
};

use crate::{
    error::{Errno, Error, Result},
    thread::Affinity,
};

/// Proof that the EAL runs. There is one per process, it never ends, and it can
/// be copied freely.
#[derive(Clone, Copy, Debug)]
pub struct Eal(());

/// Arguments of the EAL, in the order they are added.
///
/// Any argument that `rte_eal_init` knows can be given with
/// [`arg`](Self::arg); the named methods are for the usual ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EalArgs(Vec<String>);

impl EalArgs {
    /// No arguments: DPDK's own defaults (huge pages, all processors, all
    /// PCI devices).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// For a lab or a test: `memory` MiB of ordinary pages, no PCI devices, no
    /// files that other processes could meet, one lcore that may run on any
    /// processor of the calling thread.
    #[must_use]
    pub fn without_huge_pages(memory: u32) -> Self {
        Self::new()
            .arg("--no-huge")
            .arg("--no-shconf")
            .arg("-m")
            .arg(memory.to_string())
            .arg("--no-pci")
            .arg("--no-telemetry")
            .arg("--lcores")
            .arg(main_lcore())
            .arg("--log-level=lib.eal:warning")
    }

    /// Adds one argument as it is.
    #[must_use]
    pub fn arg(mut self, argument: impl Into<String>) -> Self {
        self.0.push(argument.into());
        self
    }

    /// Adds arguments as they are.
    #[must_use]
    pub fn args(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.0.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds a virtual device, such as `net_null0,size=64`; its name is what
    /// [`Eal::port`] finds it by.
    #[must_use]
    pub fn vdev(self, device: impl AsRef<str>) -> Self {
        self.arg(format!("--vdev={}", device.as_ref()))
    }

    /// The arguments, without a program name.
    #[must_use]
    pub fn as_slice(&self) -> &[String] {
        &self.0
    }
}

impl From<Vec<String>> for EalArgs {
    fn from(arguments: Vec<String>) -> Self {
        Self(arguments)
    }
}

/// The lcore map of one lcore, number 0, on the processors of this thread.
/// Workers are registered threads, so the EAL needs no lcores for them.
fn main_lcore() -> String {
    let cpus = Affinity::current().map(|affinity| affinity.cpus());
    match cpus {
        Ok(cpus) if !cpus.is_empty() => {
            let list: Vec<String> = cpus.iter().map(ToString::to_string).collect();
            format!("0@({})", list.join(","))
        }
        _ => "0@0".to_owned(),
    }
}

/// Whether `rte_eal_init` was called, and never again.
static STARTED: Mutex<bool> = Mutex::new(false);

impl Eal {
    /// Starts the EAL.
    ///
    /// `rte_eal_init` binds the calling thread to its main lcore's processors,
    /// and threads started later would inherit that; the thread's own set of
    /// processors is put back. AF_PACKET ports open their sockets here, in the
    /// network namespace of the calling thread.
    ///
    /// # Errors
    ///
    /// [`Error::EalAlreadyInitialised`] after the first call, whatever came of
    /// it; [`Error::EalInit`] when DPDK refuses, for instance a `--vdev` whose
    /// driver or interface does not exist; [`Error::NulByte`].
    pub fn init(arguments: &EalArgs) -> Result<Self> {
        let mut started = match STARTED.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        };
        if *started {
            return Err(Error::EalAlreadyInitialised);
        }
        // The EAL keeps pointers to its arguments and reorders the array, so both
        // are given to it for good.
        let mut argv: Vec<*mut c_char> = Vec::with_capacity(arguments.0.len() + 2);
        for argument in std::iter::once("sluice").chain(arguments.0.iter().map(String::as_str)) {
            argv.push(c_string("EAL argument", argument)?.into_raw());
        }
        let count = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
        argv.push(std::ptr::null_mut());
        let argv = Box::leak(argv.into_boxed_slice());
        *started = true;
        let affinity = Affinity::current();
        // SAFETY: argv has `count` NUL-terminated strings and a null, all leaked, and
        // the lock above makes this the only call in the process.
        let result = unsafe { dpdk_sys::rte_eal_init(count, argv.as_mut_ptr()) };
        let errno = Errno::last();
        if let Ok(affinity) = affinity
            && let Err(error) = affinity.apply()
        {
            tracing::warn!(%error, "the processors of the starting thread were not restored");
        }
        if result < 0 {
            return Err(Error::EalInit {
                arguments: arguments.0.clone(),
                errno,
            });
        }
        tracing::info!(version = version(), arguments = ?arguments.0, "EAL started");
        Ok(Self(()))
    }
}

/// The DPDK release at run time, such as `DPDK 22.11.11`.
#[must_use]
pub fn version() -> String {
    // SAFETY: returns a pointer to a NUL-terminated string in a static buffer.
    let text = unsafe { CStr::from_ptr(dpdk_sys::rte_version()) };
    text.to_string_lossy().into_owned()
}

/// A string for C.
pub(crate) fn c_string(what: &'static str, value: &str) -> Result<CString> {
    CString::new(value).map_err(|_| Error::NulByte {
        what,
        value: value.to_owned(),
    })
}
