//! Work on many things, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

/// Calls `work` with each thing and its position, on as many threads as there
/// are cores.
///
/// # Errors
/// The first error of each thread ends that thread; one of them is returned
/// when all have ended.
pub(crate) fn each<T: Sync>(
    things: &[T],
    work: impl Fn(usize, &T) -> Result<()> + Sync,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let worker = || -> Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                match things.get(index) {
                    Some(thing) => work(index, thing)?,
                    None => return Ok(()),
                }
            }
        };
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        for worker in workers {
            if let Ok(result) = worker.join() {
                result?;
            }
        }
        Ok(())
    })
}
