//! Standard output, which may have been closed or be full.

use std::io::{ErrorKind, Write};

use anyhow::Context as _;

/// Prints what a subcommand has to say. After a failure it prints nothing
/// more, and [`Printer::finish`] tells of it.
pub(super) struct Printer<W> {
    out: W,
    failed: Option<std::io::Error>,
}

impl<W: Write> Printer<W> {
    pub(super) fn new(out: W) -> Self {
        Self { out, failed: None }
    }

    /// Prints a line.
    pub(super) fn line(&mut self, line: &str) {
        self.text(&format!("{line}\n"));
    }

    /// Prints whole lines.
    pub(super) fn text(&mut self, text: &str) {
        if self.failed.is_none() {
            self.failed = self.out.write_all(text.as_bytes()).err();
        }
    }

    /// Whether nothing that is printed from now on arrives.
    pub(super) fn is_closed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the output.
    ///
    /// # Errors
    /// Something could not be written. A reader that has gone, as `head` does
    /// when it has enough, is no failure.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        match self.failed.take().map_or_else(|| self.out.flush(), Err) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            result => result.context("cannot write to standard output"),
        }
    }
}
