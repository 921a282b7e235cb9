//! Worker threads: ordinary threads that the EAL knows.
//!
//! A registered thread has an lcore number, and with it a cache in each packet
//! buffer pool: taking and giving back buffers then rarely touches what other
//! threads use. An unregistered thread may call everything too, only slower.

use std::{io, marker::PhantomData, mem, thread::JoinHandle};

use crate::{
    Eal,
    error::{Errno, Error, Result},
};

/// The calling thread's registration with the EAL; dropping it ends it.
#[derive(Debug)]
pub struct Registered {
    lcore: u32,
    // Registration is thread-local: the value stays on its thread.
    _thread: PhantomData<*mut ()>,
}

impl Registered {
    /// Registers the calling thread.
    ///
    /// # Errors
    ///
    /// [`Error::ThreadRegister`] when all lcore numbers are taken (128 in
    /// Debian's build) or the thread is registered already.
    pub fn register(_eal: Eal) -> Result<Self> {
        // SAFETY: reads a thread-local integer.
        if unsafe { dpdk_sys::shim_lcore_id() } != LCORE_ANY {
            return Err(Error::ThreadRegister {
                errno: Errno::new(libc::EEXIST),
            });
        }
        // SAFETY: the EAL runs, and this thread is not registered.
        if unsafe { dpdk_sys::rte_thread_register() } != 0 {
            return Err(Error::ThreadRegister {
                errno: Errno::last(),
            });
        }
        // SAFETY: reads a thread-local integer.
        let lcore = unsafe { dpdk_sys::shim_lcore_id() };
        Ok(Self {
            lcore,
            _thread: PhantomData,
        })
    }

    /// The lcore number.
    #[must_use]
    pub fn lcore(&self) -> u32 {
        self.lcore
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: the value is not Send, so this is the thread that was registered.
        unsafe { dpdk_sys::rte_thread_unregister() }
    }
}

/// What `rte_lcore_id` says on a thread that is not registered.
const LCORE_ANY: u32 = u32::MAX;

/// Starts a thread with a name, bound to one processor if `cpu` says so,
/// registered with the EAL for as long as `work` runs.
///
/// # Errors
///
/// [`Error::ThreadSpawn`] when the thread cannot be started. Binding and
/// registration happen on the new thread; when they fail, `work` gets the error
/// instead of its registration.
pub fn spawn<T, F>(eal: Eal, name: &str, cpu: Option<usize>, work: F) -> Result<JoinHandle<T>>
where
    T: Send + 'static,
    F: FnOnce(Result<&Registered>) -> T + Send + 'static,
{
    let thread_name = name.to_owned();
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(move || {
            let bound = cpu.map_or(Ok(()), |cpu| Affinity::single(cpu).apply());
            let registered = match bound {
                Ok(()) => Registered::register(eal),
                Err(source) => Err(Error::ThreadSpawn {
                    name: thread_name,
                    source,
                }),
            };
            match registered {
                Ok(registered) => work(Ok(&registered)),
                Err(error) => work(Err(error)),
            }
        })
        .map_err(|source| Error::ThreadSpawn {
            name: name.to_owned(),
            source,
        })
}

/// A set of processors that a thread may run on.
#[derive(Clone)]
pub struct Affinity(libc::cpu_set_t);

impl Affinity {
    /// The calling thread's.
    ///
    /// # Errors
    ///
    /// The system's, when it cannot say.
    pub fn current() -> io::Result<Self> {
        // SAFETY: an all-zero cpu_set_t is the empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        // SAFETY: the pointer and the size are those of `set`.
        let result = unsafe { libc::sched_getaffinity(0, mem::size_of_val(&set), &raw mut set) };
        if result == 0 {
            Ok(Self(set))
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// One processor. A number beyond the set's size gives the empty set, which
    /// [`apply`](Self::apply) refuses.
    #[must_use]
    pub fn single(cpu: usize) -> Self {
        // SAFETY: an all-zero cpu_set_t is the empty set.
        let mut set: libc::cpu_set_t = unsafe { mem::zeroed() };
        if cpu < Self::SIZE {
            // SAFETY: the number is inside the set.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        Self(set)
    }

    const SIZE: usize = libc::CPU_SETSIZE as usize;

    /// Numbers of the processors in the set, rising.
    #[must_use]
    pub fn cpus(&self) -> Vec<usize> {
        (0..Self::SIZE)
            // SAFETY: the number is inside the set.
            .filter(|&cpu| unsafe { libc::CPU_ISSET(cpu, &self.0) })
            .collect()
    }

    /// Makes it the calling thread's.
    ///
    /// # Errors
    ///
    /// The system's: no processor of the set is usable.
    pub fn apply(&self) -> io::Result<()> {
        // SAFETY: the pointer and the size are those of the set.
        let result =
            unsafe { libc::sched_setaffinity(0, mem::size_of_val(&self.0), &raw const self.0) };
        if result == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}
