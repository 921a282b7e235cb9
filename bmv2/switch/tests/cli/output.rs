//! What becomes of the subcommands where nobody takes their output.

use std::fs::File;
use std::process::{Command, Stdio};

use super::{Folder, PROGRAM, softswitch};

const TEST: &str = "\
    add l2 hdr.ethernet.dst:0x020000000002 counted_forward(port:2)\n\
    packet 1 020000000002 020000000001 88b5 01\n\
    expect 2\n";

/// Exit code and standard error of a command that prints to `stdout`.
fn outcome(mut command: Command, stdout: impl Into<Stdio>) -> (i32, String) {
    let output = command.stdout(stdout).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), stderr)
}

/// A pipe whose other end is closed.
fn closed() -> Stdio {
    let (_, writer) = std::io::pipe().unwrap();
    writer.into()
}

fn full() -> File {
    File::options().write(true).open("/dev/full").unwrap()
}

fn stf(test: &std::path::Path) -> Command {
    let mut command = softswitch();
    command.arg("stf").arg(PROGRAM).arg(test);
    command
}

fn trace(arguments: &[&str]) -> Command {
    let mut command = softswitch();
    command.args(["trace", PROGRAM, "--packet", "0102"]);
    command.args(arguments);
    command
}

#[test]
fn a_reader_that_has_gone_is_no_failure() {
    let folder = Folder::new("closed");
    let met = folder.file("met.stf", TEST);
    let unmet = folder.file("unmet.stf", format!("{TEST}expect 3\n"));
    assert_eq!(outcome(stf(&met), closed()), (0, String::new()));
    assert_eq!(outcome(stf(&unmet), closed()), (1, String::new()));
    assert_eq!(outcome(trace(&[]), closed()), (0, String::new()));
    assert_eq!(outcome(trace(&["--json"]), closed()), (0, String::new()));
}

#[test]
fn what_cannot_be_printed_is_told() {
    let folder = Folder::new("full");
    let met = folder.file("met.stf", TEST);
    let wanted = (
        2,
        "softswitch: cannot write to standard output: No space left on device (os error 28)\n"
            .to_owned(),
    );
    assert_eq!(outcome(stf(&met), full()), wanted);
    assert_eq!(outcome(trace(&[]), full()), wanted);
    assert_eq!(outcome(trace(&["--json"]), full()), wanted);
}

/// Errors, too, may find nobody who takes them.
#[test]
fn errors_that_cannot_be_printed_leave_the_exit_code() {
    for arguments in [["stf", PROGRAM, "no/such.stf"], ["run", "no/such", "-L"]] {
        let mut command = softswitch();
        command.args(arguments).stderr(full());
        let code = command.status().unwrap().code();
        assert_eq!(code, Some(2), "{arguments:?}");
    }
    // The log goes where errors go; 1 is the switch's own exit code.
    let mut command = softswitch();
    command.args(["run", "no/such.json"]).stderr(full());
    assert_eq!(command.status().unwrap().code(), Some(1));
}

/// Entries are logged before the interface is found missing, which is 1.
#[test]
fn a_log_that_cannot_be_written_stops_nothing() {
    let folder = Folder::new("log");
    let entries = folder.file("commands.txt", "table_set_default MyIngress.l2 NoAction\n");
    for log in [&["--log-level", "debug"][..], &["--log-console"]] {
        let mut command = softswitch();
        command.args(["run", PROGRAM, "--grpc-server-addr", "127.0.0.1:0"]);
        command.args(["-i", "1@no-such-if", "--entries"]);
        command.arg(&entries).args(log);
        command.stdout(full()).stderr(full());
        assert_eq!(command.status().unwrap().code(), Some(1), "{log:?}");
    }
}
