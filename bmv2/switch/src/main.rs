//! The binary `softswitch`.

mod app;

use std::process::ExitCode;

fn main() -> ExitCode {
    app::run()
}
