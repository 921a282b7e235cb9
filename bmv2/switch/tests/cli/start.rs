//! Starting the switch as scripts written for `simple_switch_grpc` do.

use std::net::{Ipv4Addr, Ipv6Addr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::{Folder, PROGRAM, outcome, softswitch};

/// A running switch that ends with this value, and its log.
struct Started {
    child: Child,
    log: std::path::PathBuf,
}

impl Started {
    /// Starts it in a folder; its standard error goes to a file there.
    fn new(command: &mut Command, folder: &Folder) -> Self {
        let log = folder.path().join("stderr");
        let child = command
            .current_dir(folder.path())
            .stderr(std::fs::File::create(&log).unwrap())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, log }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits until it serves; returns its log so far.
    fn ready(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let log = self.log();
            if log.contains("serving P4Runtime") {
                return log;
            }
            let ended = self.child.try_wait().unwrap();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "{ended:?} {log}"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Ends it as an operator does; returns whether it said it went well.
    fn stop(mut self) -> bool {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Waits until it ends; returns whether it said it went well.
    fn ended(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.success();
            }
            assert!(Instant::now() < deadline, "it goes on: {}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A namespace of its own lets the test set an interface down.
#[test]
fn an_interface_that_is_set_down_is_told() {
    let folder = Folder::new("set-down");
    let command = |folder: &Folder| {
        let script = "ip link set lo up && exec \"$@\"";
        let mut command = Command::new("unshare");
        command
            .args([
                "-n",
                "sh",
                "-c",
                script,
                "sh",
                env!("CARGO_BIN_EXE_softswitch"),
            ])
            .args([
                "--no-p4",
                "-i",
                "1@lo",
                "--",
                "--grpc-server-addr",
                "127.0.0.1:0",
            ])
            .env_remove("RUST_LOG");
        Started::new(&mut command, folder)
    };
    let allowed = Command::new("unshare")
        .args(["-n", "ip", "link", "set", "lo", "up"])
        .output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no network namespace of its own");
        return;
    }
    let mut switch = command(&folder);
    switch.ready();
    let pid = switch.child.id().to_string();
    let down = ["-t", &pid, "-n", "ip", "link", "set", "lo", "down"];
    assert!(
        Command::new("nsenter")
            .args(down)
            .status()
            .unwrap()
            .success()
    );
    let deadline = Instant::now() + Duration::from_secs(20);
    while !switch.log().contains("the interface has been set down") {
        assert!(Instant::now() < deadline, "{}", switch.log());
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(switch.stop());
}

/// The port in the line that tells where P4Runtime is served.
fn port(log: &str) -> u16 {
    let line = log.lines().find(|line| line.contains("serving P4Runtime"));
    let (_, address) = line.unwrap().split_once("address=").unwrap();
    let address = address.trim_start_matches('"');
    let end = address.find([' ', '"', ',']).unwrap_or(address.len());
    let (_, port) = address[..end].rsplit_once(':').unwrap();
    port.parse().unwrap()
}

#[test]
fn all_addresses_include_those_of_ipv6() {
    let folder = Folder::new("dual");
    let arguments = ["--no-p4", "--", "--grpc-server-addr", "0.0.0.0:0"];
    let mut switch = Started::new(softswitch().args(arguments), &folder);
    let port = port(&switch.ready());
    assert_ne!(port, 0);
    TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
    if std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok() {
        TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    }
    assert!(switch.stop());
}

#[test]
fn a_host_name_is_an_address() {
    let folder = Folder::new("host-name");
    let arguments = ["--no-p4", "--", "--grpc-server-addr", "localhost:0"];
    let mut switch = Started::new(softswitch().args(arguments), &folder);
    let port = port(&switch.ready());
    TcpStream::connect(("localhost", port)).unwrap();
    let (code, _, stderr) = outcome(softswitch().args([
        "--no-p4",
        "--grpc-server-addr",
        &format!("localhost:{port}"),
    ]));
    assert_eq!(code, 1);
    assert!(
        stderr.contains(&format!("`ss -ltnp sport = :{port}`")),
        "{stderr}"
    );
    assert_eq!(
        stderr.matches("ddress already in use").count(),
        1,
        "{stderr}"
    );
    assert!(switch.stop());
}

#[test]
fn a_program_beside_no_p4_is_not_read() {
    for program in [PROGRAM, "no/such.json"] {
        let folder = Folder::new("no-p4");
        let arguments = [
            "--no-p4",
            program,
            "--",
            "--grpc-server-addr",
            "127.0.0.1:0",
        ];
        let mut switch = Started::new(softswitch().args(arguments), &folder);
        let log = switch.ready();
        assert!(
            log.contains(&format!("{program} is not loaded: --no-p4")),
            "{log}"
        );
        assert!(switch.stop());
    }
    let (code, _, stderr) = outcome(softswitch().args(["--no-p4", PROGRAM, "--entries", "x"]));
    assert_eq!(code, 1);
    assert!(stderr.contains("leave one out"), "{stderr}");
}

#[test]
fn the_log_file_has_the_name_that_bmv2_gives_it() {
    let folder = Folder::new("log-file");
    let arguments = [
        "--no-p4",
        "--log-file",
        "switch.log",
        "--log-flush",
        "--",
        "--enable-swap",
    ];
    let address = ["--grpc-server-addr", "127.0.0.1:0"];
    let mut switch = Started::new(softswitch().args(arguments).args(address), &folder);
    switch.log = folder.path().join("switch.log.txt");
    let log = switch.ready();
    assert!(
        log.contains("--enable-swap behind the -- is ignored"),
        "{log}"
    );
    assert!(switch.stop());
    let (code, _, stderr) =
        outcome(softswitch().args(["--no-p4", "--log-console", "--log-file", "x"]));
    assert_ne!(code, 0);
    assert!(stderr.contains("cannot be used with"), "{stderr}");
}

/// The signals that a process ignores (proc(5)), a bit for each.
fn ignored_by(pid: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    u64::from_str_radix(mask.unwrap().trim(), 16).unwrap()
}

#[test]
fn an_ignored_interrupt_stays_ignored() {
    let folder = Folder::new("interrupt");
    let started = |script: &str| {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", script, "sh", env!("CARGO_BIN_EXE_softswitch")])
            .args(["--no-p4", "--", "--grpc-server-addr", "127.0.0.1:0"])
            .env_remove("RUST_LOG");
        let mut switch = Started::new(&mut shell, &folder);
        switch.ready();
        switch
    };
    let mut switch = started("trap '' INT; exec \"$@\"");
    let interrupt = 1_u64 << (Signal::SIGINT as i32 - 1);
    assert_ne!(ignored_by(&switch.child.id().to_string()) & interrupt, 0);
    switch.signal(Signal::SIGINT);
    assert_eq!(switch.child.try_wait().unwrap(), None);
    assert!(switch.stop());
    if ignored_by("self") & interrupt != 0 {
        println!("SKIPPED: SIGINT is ignored by whoever runs this test");
        return;
    }
    let mut switch = started("exec \"$@\"");
    switch.signal(Signal::SIGINT);
    assert!(switch.ended());
}

#[test]
fn a_program_taken_for_the_folder_of_captures_is_told() {
    for arguments in [vec!["--pcap", PROGRAM], vec!["run", "--pcap", PROGRAM]] {
        // A switch that starts nevertheless ends for want of the interface.
        let absent = ["-i", "1@absent", "--grpc-server-addr", "127.0.0.1:0"];
        let (code, _, stderr) = outcome(softswitch().args(arguments).args(absent));
        assert_eq!(code, 1);
        assert!(
            stderr.contains(&format!("`--pcap=. {PROGRAM}`")),
            "{stderr}"
        );
    }
}

#[test]
fn versions_are_printed() {
    for option in ["-v", "--version"] {
        let (code, stdout, _) = outcome(softswitch().arg(option));
        assert_eq!(code, 0);
        assert_eq!(
            stdout,
            format!("softswitch {}\n", env!("CARGO_PKG_VERSION"))
        );
    }
    let json = outcome(softswitch().arg("--json-version"));
    assert_eq!(json, (0, "2.24\n".into(), String::new()));
}

#[test]
fn causes_are_said_once() {
    let folder = Folder::new("causes");
    folder.file("empty_in.pcap", "no packets");
    let address = ["--grpc-server-addr", "127.0.0.1:0"];
    for (arguments, cause) in [
        (vec![PROGRAM, "--p4info", "no/such.txtpb"], "No such file"),
        (
            vec![PROGRAM, "--use-files", "0", "-i", "1@absent"],
            "No such file",
        ),
        (
            vec![PROGRAM, "--use-files", "0", "-i", "1@empty"],
            "neither pcap nor pcapng",
        ),
        (vec!["no/such.json"], "No such file"),
    ] {
        let mut command = softswitch();
        command
            .current_dir(folder.path())
            .args(&arguments)
            .args(address);
        let (code, _, stderr) = outcome(&mut command);
        assert_eq!(code, 1);
        let error = stderr
            .lines()
            .find(|line| line.starts_with("softswitch: "))
            .unwrap();
        assert_eq!(error.matches(cause).count(), 1, "{error}");
    }
}
