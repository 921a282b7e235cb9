//! The program itself: every start-up error is one sentence with a way out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};

const GATEWAY: &str = include_str!("../../../config/samples/gateway.toml");

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spawn(arguments: &[&Path]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_offload-ctl"));
    command.arg("--config").arg(arguments[0]);
    if let Some(intent) = arguments.get(1) {
        command.arg("--intent").arg(intent);
    }
    Running(command.stderr(Stdio::piped()).spawn().unwrap())
}

/// The last line of a start that fails.
fn fails(arguments: &[&Path]) -> String {
    let mut child = spawn(arguments);
    let mut text = String::new();
    child
        .0
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(child.0.wait().unwrap().code(), Some(1));
    let start = text.find("offload-ctl: ").expect("a sentence");
    text[start..].trim_end().to_owned()
}

/// Waits for a line of the log that holds `wanted`.
fn says(child: &mut Running, wanted: &str) {
    let mut lines = BufReader::new(child.0.stderr.as_mut().unwrap()).lines();
    assert!(
        lines.any(|line| line.unwrap().contains(wanted)),
        "never said: {wanted}"
    );
}

fn config(dir: &Path, name: &str, api: &str, more: &str) -> std::path::PathBuf {
    let path = dir.join(format!("{name}.toml"));
    // Nobody listens at port 9 of loopback.
    let text = format!(
        "api = [\"{api}\"]\nstore = \"{}\"\n{more}\n[p4runtime]\naddress = \"127.0.0.1:9\"\n",
        dir.join(format!("{name}.redb")).display()
    );
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn an_unreachable_switch_is_told_and_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", dir.path().join("sock").display());
    let config = config(dir.path(), "a", &socket, "");
    let mut child = spawn(&[&config]);
    says(&mut child, "127.0.0.1:9");
    assert!(child.0.try_wait().unwrap().is_none(), "it keeps trying");
}

#[test]
fn an_address_in_use_and_a_locked_store() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", dir.path().join("sock").display());
    let first = config(dir.path(), "a", &socket, "");
    let mut child = spawn(&[&first]);
    says(&mut child, "offload-ctl is up");
    let second = config(dir.path(), "b", &socket, "");
    let said = fails(&[&second]);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(&socket) && said.contains("in use"), "{said}");
    let said = fails(&[&first]);
    assert!(said.contains("is locked"), "{said}");
    // A socket that a dead process left behind is no obstacle.
    drop(child);
    let mut child = spawn(&[&second]);
    says(&mut child, "offload-ctl is up");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap();
    let other = format!("unix:{}", dir.path().join("other").display());
    let http = format!("http = \"{address}\"");
    let third = config(dir.path(), "c", &other, &http);
    let said = fails(&[&third]);
    assert!(
        said.contains(&address.to_string()) && said.contains("`http`"),
        "{said}"
    );
}

#[test]
fn bad_files_are_told_by_place() {
    let dir = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", dir.path().join("sock").display());
    let said = fails(&[&dir.path().join("nosuch.toml")]);
    assert!(said.contains("nosuch.toml"), "{said}");
    let typo = config(dir.path(), "a", &socket, "htpp = \"127.0.0.1:1\"");
    let said = fails(&[&typo]);
    assert!(said.contains("line ") && said.contains("htpp"), "{said}");
    let missing = config(
        dir.path(),
        "b",
        &socket,
        "[pipeline]\ndevice_config = \"/nosuch.json\"\np4info = \"/nosuch.txtpb\"",
    );
    let said = fails(&[&missing]);
    assert!(said.contains("/nosuch.json"), "{said}");
    let info = dir.path().join("other.txtpb");
    std::fs::write(&info, "pkg_info { arch: \"v1model\" }").unwrap();
    let json = dir.path().join("other.json");
    std::fs::write(&json, "{}").unwrap();
    let foreign = config(
        dir.path(),
        "c",
        &socket,
        &format!(
            "[pipeline]\ndevice_config = \"{}\"\np4info = \"{}\"",
            json.display(),
            info.display()
        ),
    );
    let said = fails(&[&foreign]);
    assert!(said.contains("does not match the contract"), "{said}");
    let good = config(dir.path(), "d", &socket, "");
    let intent = dir.path().join("gateway.toml");
    std::fs::write(&intent, GATEWAY.replace("port      = 5201", "port = 80")).unwrap();
    let said = fails(&[&good, &intent]);
    assert!(said.contains("vip[1] \"iperf\".port"), "{said}");
}
