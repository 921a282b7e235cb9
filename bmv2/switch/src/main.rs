//! The binary `softswitch`.

mod app;

use std::process::ExitCode;

fn main() -> ExitCode {
    match app::run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("softswitch: {error:#}");
            ExitCode::FAILURE
        }
    }
}
