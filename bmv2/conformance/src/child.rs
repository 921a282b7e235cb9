//! Running a program to its end, or to a deadline.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// How often a running program is looked at.
const POLL: Duration = Duration::from_millis(5);

/// What is kept of each stream of a program's output.
const LONGEST_OUTPUT: u64 = 1 << 20;

/// How a program ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its exit status; `None` if the deadline passed and it was killed.
    pub status: Option<ExitStatus>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Outcome {
    /// Whether it ended in time and with exit code 0.
    pub fn success(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }
}

/// Runs a program; one that is still running after `deadline` is killed.
///
/// # Errors
/// If it can't be started.
pub fn run(command: &mut Command, deadline: Duration) -> Result<Outcome> {
    let program = command.get_program().to_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("can't start {}", program.display()))?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status);
        }
        if start.elapsed() > deadline {
            // It may have ended meanwhile; then there is nothing to kill.
            let _ = child.kill();
            child.wait()?;
            break None;
        }
        std::thread::sleep(POLL);
    };
    Ok(Outcome {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    })
}

fn drain(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            // What was read before a failure is still worth showing; what is
            // beyond the limit is read and forgotten so that the writer goes on.
            let _ = stream.by_ref().take(LONGEST_OUTPUT).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_and_status_come_back() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; echo err >&2; exit 3"]);
        let outcome = run(&mut command, Duration::from_secs(10)).unwrap();
        assert_eq!(outcome.status.and_then(|s| s.code()), Some(3));
        assert_eq!(
            (outcome.stdout.as_str(), outcome.stderr.as_str()),
            ("out\n", "err\n")
        );
        assert!(!outcome.success());
    }

    #[test]
    fn the_deadline_ends_it() {
        let start = Instant::now();
        let outcome = run(Command::new("sleep").arg("60"), Duration::from_millis(50)).unwrap();
        assert!(outcome.status.is_none());
        assert!(start.elapsed() < Duration::from_secs(30));
    }
}
