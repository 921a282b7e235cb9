//! What people and scripts see: output, errors, exit codes.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod common;

use common::{Canned, sluice, stderr, stdout};

fn succeeds(canned: &Canned, arguments: &[&str], expected: &str) {
    let output = canned.sluice(arguments);
    assert_eq!(stderr(&output), "", "{arguments:?}");
    assert_eq!(stdout(&output), expected, "{arguments:?}");
    assert_eq!(output.status.code(), Some(0), "{arguments:?}");
}

fn json(canned: &Canned, arguments: &[&str]) -> serde_json::Value {
    let output = canned.sluice(arguments);
    serde_json::from_str(&stdout(&output)).unwrap()
}

#[test]
fn apply_and_plan_show_the_difference() {
    let canned = Canned::serve();
    let file = canned.file("good.toml", "good");
    let file = file.to_str().unwrap();
    let changes = "\
~ vip \"web\": scheduler: rr -> wrr
+ vip \"web\" server \"s4\": address 10.2.4.2, port 8080
- vip \"echo\": address 10.100.0.10
";
    let planned = format!("{changes}3 changes to version 4; nothing was changed yet\n");
    succeeds(&canned, &["plan", file], &planned);
    succeeds(&canned, &["apply", file, "--dry-run"], &planned);
    let applied = format!("{changes}version 5 is in force, 3 changes\n");
    succeeds(&canned, &["apply", file], &applied);
    let value = json(&canned, &["apply", file, "--json"]);
    assert_eq!(value["applied"], true);
    assert_eq!(value["version"], 5);
    assert_eq!(value["changes"][2]["kind"], "remove");
}

#[test]
fn a_bad_file_gets_every_problem_with_its_place_and_way_out() {
    let canned = Canned::serve();
    let file = canned.file("bad.toml", "bad");
    let output = canned.sluice(&["apply", file.to_str().unwrap()]);
    assert_eq!(
        stderr(&output),
        format!(
            "sluice: {} is not valid, nothing was changed (1 problem)
  vip[1] \"iperf\".port: 10.100.0.10 port 80 overlaps port 80 of vip[0] \"web\"
    -> change address, protocol or ports
",
            file.display()
        )
    );
    assert_eq!(stdout(&output), "");
    assert_eq!(output.status.code(), Some(1));
    let output = canned.sluice(&["plan", file.to_str().unwrap(), "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(value["applied"], false);
    assert_eq!(value["problems"][0]["place"], "vip[1] \"iperf\".port");
}

#[test]
fn failures_are_one_sentence_and_an_exit_code() {
    let canned = Canned::serve();
    let file = canned.file("good.toml", "good");
    let cases: [(&[&str], i32, &str); 4] = [
        (
            &["apply", "/nosuch/gateway.toml"],
            2,
            "sluice: cannot read /nosuch/gateway.toml: No such file or directory (os error 2)\n",
        ),
        (
            &["apply", file.to_str().unwrap(), "--expect", "99"],
            1,
            "sluice: the configuration is at version 4, not 99\n",
        ),
        (
            &["drain", "web", "s9"],
            1,
            "sluice: vip \"web\" has no server \"s9\"; it has: s1, s2\n",
        ),
        (
            &["show", "flows", "--vip", "nosuch"],
            1,
            "sluice: there is no vip \"nosuch\"\n",
        ),
    ];
    for (arguments, code, message) in cases {
        let output = canned.sluice(arguments);
        assert_eq!(stderr(&output), message, "{arguments:?}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}");
    }
    let output = sluice(&["--api", "unix:/nosuch/socket", "show", "status"]);
    assert_eq!(
        stderr(&output),
        "sluice: offload-ctl does not answer at unix:/nosuch/socket (No such file or directory (os error 2)); start it, or name its address with --api or SLUICE_API\n"
    );
    assert_eq!(output.status.code(), Some(3));
    let output = sluice(&["--api", "nonsense", "show", "status"]);
    assert!(stderr(&output).contains("unix:/absolute/path"));
    assert_eq!(output.status.code(), Some(2));
    let output = sluice(&["explain", "tcp", "10.1.0.2", "10.100.0.10:80"]);
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn status_at_a_glance() {
    let canned = Canned::serve();
    succeeds(
        &canned,
        &["show", "status"],
        "\
offload-ctl 0.1.0, up 7 min, configuration version 4, 200 offloaded sessions
switch 127.0.0.1:9559: connected, in line with the configuration
  compared 3 min ago, 2 differences repaired

LD   STATE          VERSION  HEARTBEAT  WORKERS  SESSIONS  OFFLOADED  SOFTWARE
ld1  connected            4  2 min ago        2     1,234        200  0.1.0
ld2  not connected        0  never            0         ?          0

TABLE        ENTRIES     SIZE  USED
flow_fwd_v4  131,072  262,144   50%
",
    );
    let value = json(&canned, &["show", "status", "--json"]);
    assert_eq!(value["switch"]["converged"], true);
    assert_eq!(value["lds"][0]["gauges"]["sessions"], 1234);
    assert_eq!(value["counters"]["installs"], 300);
}

#[test]
fn vips_with_their_servers_on_all_pages() {
    let canned = Canned::serve();
    succeeds(
        &canned,
        &["show", "vips"],
        "\
VIP   ADDRESS                    SERVER            STATE            WEIGHT    PACKETS  FAST TO  FAST FROM
web   tcp 10.100.0.10:80         1 server          wrr                      1,000,000  999,000  2,000,000
                                 s1 10.2.1.2:8080  draining              3             999,000          ?
echo  udp 10.100.0.10:7000-7007  1 server          removed, ending          1,000,000  999,000  2,000,000
                                 s1 10.2.1.2       draining              3             999,000          ?
",
    );
    let value = json(&canned, &["show", "vips", "--json"]);
    assert_eq!(value["vips"][1]["retiring"], true);
    assert_eq!(value["vips"][0]["servers"][0]["state"], "draining");
}

#[test]
fn flows_with_names_and_counters() {
    let canned = Canned::serve();
    succeeds(
        &canned,
        &["show", "flows", "--counters"],
        "\
VIP  PORT  CLIENT          SERVER  LOCAL PORT  LD   STATE      PACKETS TO  PACKETS FROM
web    80  10.1.0.2:40000  s1            2048  ld1  installed          10         2,000
1 of 1 flows
",
    );
    let value = json(&canned, &["show", "flows", "--json"]);
    assert_eq!(value["flows"][0]["flow"]["client"], "10.1.0.2:40000");
    assert_eq!(value["flows"][0]["fwd"], serde_json::Value::Null);
}

#[test]
fn drops_and_whether_the_books_balance() {
    let canned = Canned::serve();
    succeeds(
        &canned,
        &["show", "drops"],
        "\
IN BY PORT  PACKETS     BYTES
clients       1,000  62.5 KiB

OUT BY PORT  PACKETS    BYTES
s1               990  1.4 MiB

WAY       PACKETS    BYTES
FAST_FWD      990  1.4 MiB

DROPPED BECAUSE  PACKETS  BYTES
NO_ROUTE               7  420 B

3 packets are not accounted for (some may have been under way while this was read)
",
    );
    let value = json(&canned, &["show", "drops", "--json"]);
    assert_eq!(value["unaccounted_packets"], 3);
    assert_eq!(value["drops"][0]["name"], "NO_ROUTE");
}

#[test]
fn the_rest() {
    let canned = Canned::serve();
    succeeds(
        &canned,
        &["show", "config"],
        "# version 4, applied 3 min ago\n# drained by an operator: web/s2\n[switch]\nvtep = \"10.3.0.1\"\n",
    );
    let shown = stdout(&canned.sluice(&["show", "config", "--at", "3"]));
    assert!(shown.starts_with("# version 3, "), "{shown}");
    let rolled = canned.sluice(&["rollback", "3"]);
    assert!(stdout(&rolled).ends_with("version 5 is in force, 3 changes\n"));
    let refused = canned.sluice(&["rollback", "1"]);
    assert_eq!(stderr(&refused), "sluice: version 1 is not kept\n");
    assert_eq!(refused.status.code(), Some(1));
    succeeds(
        &canned,
        &["explain", "tcp", "10.1.0.2:40000", "10.100.0.10:80"],
        " 1. class: vip \"web\"\n 2. fast path: yes\n=> fast: the switch forwards it by itself\n",
    );
    succeeds(
        &canned,
        &["drain", "web", "s1"],
        "version 7: server \"s1\" of vip \"web\" gets no new connections; established ones go on\n",
    );
    succeeds(
        &canned,
        &["undrain", "web", "s1"],
        "version 6: server \"s1\" of vip \"web\" is in service\n",
    );
}
