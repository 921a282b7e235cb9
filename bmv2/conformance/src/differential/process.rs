//! A switch's process.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use hw_tests::netns::Namespace;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::side::{ADDRESS, CPU_PORT, DEVICE, Launch, PORTS};

/// A switch's process; dropping it ends it.
pub(super) struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a switch in a namespace, without a program.
    pub(super) fn start(launch: &Launch, namespace: &Namespace) -> Result<Self> {
        let log = &launch.log;
        let file = File::create(log).with_context(|| format!("can't write {}", log.display()))?;
        // ip gives it the /sys of the namespace, where bmv2 looks whether a
        // port is up, and becomes setpriv, which becomes the switch; the kernel
        // ends it should this thread end without doing so.
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", namespace.name()])
            .args(["setpriv", "--pdeathsig", "KILL"])
            .arg(&launch.program);
        for port in PORTS {
            command.arg("-i").arg(format!("{port}@sw{port}"));
        }
        command
            .args(["--no-p4", "--device-id", &DEVICE.to_string()])
            .args(&launch.arguments)
            .args(["--", "--grpc-server-addr", ADDRESS])
            .args(["--cpu-port", &CPU_PORT.to_string()]);
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .with_context(|| format!("can't start {}", launch.program.display()))?;
        Ok(Self {
            child,
            log: log.clone(),
        })
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Whether it works on something.
    pub(super) fn is_busy(&self) -> bool {
        is_busy(&self.child.id().to_string(), None)
    }

    /// The last that it printed.
    pub(super) fn log_tail(&self) -> String {
        tail(&self.log)
    }
}

/// Whether a thread of a process, perhaps only one of a name, runs or could.
pub(super) fn is_busy(process: &str, name: Option<&str>) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task"));
    tasks.into_iter().flatten().flatten().any(|task| {
        // Its fields: number, name in parentheses, state, ... (proc(5)).
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        let (before, after) = stat.rsplit_once(')').unwrap_or_default();
        let named = name.is_none_or(|name| before.ends_with(&format!("({name}")));
        named && matches!(after.trim_start().chars().next(), Some('R' | 'D'))
    })
}

fn tail(log: &Path) -> String {
    let text = std::fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let mut lines: Vec<&str> = text.lines().rev().take(4).collect();
    lines.reverse();
    if lines.is_empty() {
        return "it printed nothing".into();
    }
    lines.join(" | ")
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(id) = i32::try_from(self.child.id())
            && matches!(self.child.try_wait(), Ok(None))
        {
            // It may just have ended.
            let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_busy() {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let spin = || {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            };
            let spinning = std::thread::Builder::new().name("spinning".into());
            assert!(spinning.spawn_scoped(scope, spin).is_ok());
            let start = Instant::now();
            let mut seen = false;
            while !seen && start.elapsed() < Duration::from_secs(10) {
                seen = is_busy("self", Some("spinning"));
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            seen
        });
        assert!(seen);
        assert!(!is_busy("self", Some("nobody")));
    }
}
