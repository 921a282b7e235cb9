//! Bad input gets one clear sentence that names the place and the way out, and
//! changes nothing.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{GATEWAY, Lab};
use crate::report::Report;
use crate::stack::sibling;

/// A configuration fault: what is replaced, by what, and what must be said.
const FAULTS: &[(&str, &str, &str, &[&str])] = &[
    (
        "unknown field",
        "vtep = \"10.3.0.1\"",
        "vtepp = \"10.3.0.1\"",
        &["line 6", "vtepp"],
    ),
    ("bad prefix", "10.1.0.1/24", "10.1.0.1/33", &["line 13"]),
    (
        "overlapping VIP",
        "port      = 5201\nprotocol",
        "port      = \"70-90\"\nprotocol",
        &["vip[1]", "overlaps", "web"],
    ),
    (
        "local address that is a server",
        "10.9.0.0/28",
        "10.2.1.0/28",
        &["10.2.1.2", "lips"],
    ),
];

/// Feeds faults to the command line and the daemons.
pub fn run(lab: &mut Lab, report: &mut Report) {
    report.check(
        "bad configurations are refused by name and change nothing",
        |_| configurations(lab),
    );
    report.check(
        "sluice doctor finds nothing wrong here, and what is wrong elsewhere",
        |_| doctor(lab),
    );
    report.check("a process that can't start says why", |_| starts(lab));
}

fn configurations(lab: &Lab) -> Result<String> {
    let before = lab.admin.status()?.config_version;
    for (what, from, to, words) in FAULTS {
        ensure!(
            GATEWAY.contains(from),
            "{what}: the sample no longer has {from:?}"
        );
        let path = lab
            .files
            .write("bad.toml", &GATEWAY.replacen(from, to, 1))?;
        let mut command = sluice(lab)?;
        command.arg("apply").arg(path);
        let (ok, said) = said(&mut command)?;
        ensure!(!ok, "{what}: was accepted");
        for word in *words {
            ensure!(
                said.contains(word),
                "{what}: \"{word}\" is missing in: {said}"
            );
        }
    }
    let after = lab.admin.status()?.config_version;
    ensure!(before == after, "version {before} became {after}");
    Ok(format!("{} faults, each named", FAULTS.len()))
}

/// The lab works, so doctor must find nothing; then it gets faults to find.
fn doctor(lab: &Lab) -> Result<String> {
    let gateway_toml = lab.files.write("gateway.toml", GATEWAY)?;
    let config = lab.files.run.join("offload-ctl.toml");
    let slowpath = lab.files.run.join("slowpath.toml");
    let mut command = sluice(lab)?;
    command
        .arg("doctor")
        .arg("--config")
        .arg(&config)
        .arg("--gateway")
        .arg(&gateway_toml);
    for (number, interface) in &lab.topology.ports {
        command.args(["--interface", &format!("{number}@{interface}")]);
    }
    let (ok, words) = said(&mut command)?;
    ensure!(ok, "beside the switch: {words}");
    let beside_ld = |option: &str, file: &std::path::Path| -> Result<(bool, String)> {
        let mut command = lab.topology.ld.command("timeout");
        command
            .arg("30")
            .arg(sibling("sluice")?)
            .args(["doctor", option])
            .arg(file);
        said(&mut command)
    };
    let (ok, words) = beside_ld("--slowpath", &slowpath)?;
    ensure!(ok, "beside the load director: {words}");

    // The load director's interface is not in the switch's namespace, and
    // nothing answers P4Runtime in the load director's.
    let mut command = sluice(lab)?;
    command.arg("doctor").arg("--slowpath").arg(&slowpath);
    let (ok, words) = said(&mut command)?;
    ensure!(
        !ok && words.contains("ld0"),
        "a missing interface was not found: {words}"
    );
    let (ok, words) = beside_ld("--config", &config)?;
    ensure!(
        !ok && words.contains("127.0.0.1:9559"),
        "an absent switch was not found: {words}"
    );
    Ok("a working lab, a missing interface, an absent switch".into())
}

fn starts(lab: &Lab) -> Result<String> {
    let gateway = &lab.topology.gateway;
    let ld = &lab.topology.ld;
    let mut refused = 0;
    let mut refuse = |what: &str, command: &mut Command, words: &[&str]| -> Result<()> {
        let (ok, said) = said(command)?;
        ensure!(!ok, "{what}: it started");
        for word in words {
            ensure!(
                said.contains(word),
                "{what}: \"{word}\" is missing in: {said}"
            );
        }
        refused += 1;
        Ok(())
    };
    let timeout = |namespace: &crate::namespace::Namespace| {
        let mut command = namespace.command("timeout");
        command.arg("20");
        command
    };

    let mut command = timeout(gateway);
    command
        .arg(sibling("offload-ctl")?)
        .arg("--config")
        .arg(lab.files.run.join("offload-ctl.toml"));
    // The store is locked or the socket taken: either names this run's file.
    refuse("second offload-ctl", &mut command, &["offload."])?;

    // Another HTTP address: the running one would be the first complaint.
    let text = std::fs::read_to_string(lab.files.run.join("slowpath.toml"))?
        .replace("127.0.0.1:9662", "127.0.0.1:9672");
    let other = lab.files.write("slowpath-other.toml", &text)?;
    let bad = lab.files.write(
        "slowpath-bad.toml",
        &text.replace("iface=ld0", "iface=nosuch0"),
    )?;
    let mut command = timeout(ld);
    command.arg(sibling("slowpath")?).arg("--config").arg(bad);
    refuse(
        "slowpath on an interface that is not there",
        &mut command,
        &["nosuch0"],
    )?;

    let mut command = ld.command("setpriv");
    command
        .args(["--bounding-set=-all", "--inh-caps=-all", "timeout", "20"])
        .arg(sibling("slowpath")?)
        .arg("--config")
        .arg(other);
    refuse(
        "slowpath without capabilities",
        &mut command,
        &["CAP_NET_RAW"],
    )?;

    let mut command = timeout(gateway);
    command.arg(sibling("softswitch")?).args([
        "-i",
        "1@nosuch0",
        "--no-p4",
        "--",
        "--grpc-server-addr",
        "127.0.0.1:9999",
    ]);
    refuse(
        "softswitch on an interface that is not there",
        &mut command,
        &["nosuch0"],
    )?;
    Ok(format!("{refused} starts refused, each with its reason"))
}

/// The command line, in the gateway's namespace.
fn sluice(lab: &Lab) -> Result<Command> {
    let mut command = lab.topology.gateway.command("timeout");
    command
        .arg("30")
        .arg(sibling("sluice")?)
        .args(["--api", &lab.files.api().to_string()]);
    Ok(command)
}

/// Runs a command; whether it succeeded, and all it printed.
fn said(command: &mut Command) -> Result<(bool, String)> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("can't run {:?}", command.get_program()))?;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr)
    );
    if done.status.code() == Some(124) {
        bail!("did not end in time: {text}");
    }
    if text.contains("panicked at") {
        bail!("a panic reached the user: {text}");
    }
    Ok((done.status.success(), text))
}
