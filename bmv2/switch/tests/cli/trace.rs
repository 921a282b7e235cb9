//! `softswitch trace`, and the entries files that it shares with `run`.

use std::path::Path;

use super::{Folder, P4INFO, PROGRAM, outcome, softswitch};

const FRAME: &str = "02000000000202000000000188b50102";

fn trace(entries: &Path, arguments: &[&str]) -> (i32, String, String) {
    outcome(
        softswitch()
            .args(["trace", PROGRAM, "--port", "1", "--entries"])
            .arg(entries)
            .args(arguments),
    )
}

#[test]
fn the_path_of_a_packet_is_printed() {
    let folder = Folder::new("trace");
    let entries = folder.file(
        "commands.txt",
        "table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:02 => 2\n",
    );
    let (code, stdout, stderr) = trace(&entries, &["--packet", FRAME]);
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(
        stdout.contains("hdr.packet_out.isValid() (node_"),
        "{stdout}"
    );
    // What p4c makes of `if (isValid())` and of locals has names of its own.
    let shown: Vec<_> = stdout
        .lines()
        .filter(|line| !line.contains("node_") && !line.contains("tmp_") && !line.contains("p4rt2"))
        .collect();
    let wanted = "\
packet         16 bytes into port 1
ingress        16 bytes, normal
  state        start
  state        parse_ethernet
    extract    ethernet, 14 bytes
  table        MyIngress.smac: miss
    key        hdr.ethernet.src = 0x020000000001
    action     NoAction()
  table        MyIngress.l2: hit
    key        hdr.ethernet.dst = 0x020000000002
    entry      hdr.ethernet.dst = 0x020000000002
    action     MyIngress.counted_forward(port = 0x0002)
    set        standard_metadata.egress_spec: 0x0 -> 0x2
egress         port 2, normal
sent           16 bytes to port 2
               02000000000202000000000188b50102";
    assert_eq!(shown, wanted.lines().collect::<Vec<_>>(), "{stdout}");

    let (code, stdout, _) = trace(&entries, &["--json", "--packet", FRAME, "--packet", "0201"]);
    assert_eq!(code, 0);
    let packets: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(packets.len(), 2);
    assert_eq!(packets[0]["packet"], FRAME);
    let events = packets[0]["events"].as_array().unwrap();
    let hit = events
        .iter()
        .find(|e| e["event"] == "table" && e["hit"] == true)
        .unwrap();
    assert_eq!(hit["name"], "MyIngress.l2");
    assert_eq!(hit["key"]["hdr.ethernet.dst"], "0x020000000002");
    assert_eq!(hit["entry"]["match"]["hdr.ethernet.dst"], "0x020000000002");
    let last = events.last().unwrap();
    assert_eq!((&last["event"], &last["port"]), (&"sent".into(), &2.into()));
    assert_eq!(last["packet"], FRAME);
    // Two bytes are no Ethernet header: core.p4's error 1.
    let events = packets[1]["events"].as_array().unwrap();
    assert!(
        events
            .iter()
            .any(|e| e["event"] == "parser_error" && e["name"] == "PacketTooShort"),
        "{stdout}"
    );
    assert_eq!(events.last().unwrap()["reason"], "ingress_drop");
}

/// The same entries in each of the formats do the same.
#[test]
fn entries_may_be_written_in_three_ways() {
    let folder = Folder::new("entries");
    let shell = folder.file(
        "commands.txt",
        "table_set_default MyIngress.l2 MyIngress.drop\n\
         table_add MyIngress.acl MyIngress.allow 9.0.0.0&&&255.0.0.0 6->17 0&&&0 => 20\n\
         table_add MyIngress.acl MyIngress.drop 9.1.0.0&&&255.255.0.0 17->17 1&&&511 => 10\n",
    );
    let lines = folder.file(
        "entries.stf",
        "setdefault l2 drop()\n\
         # A higher priority wins here. STF has no ranges.\n\
         add acl 10 hdr.ipv4.src:0x09****** allow()\n\
         add acl 20 hdr.ipv4.src:0x0901**** std.ingress_port:1 drop()\n",
    );
    // Ids as the P4Info has them: acl, drop, allow.
    let ids = |name: &str| {
        let text = std::fs::read_to_string(P4INFO).unwrap();
        let at = text.find(&format!("name: \"{name}\"")).unwrap();
        let id = text[..at].rfind("id: ").unwrap();
        text[id + 4..].lines().next().unwrap().to_owned()
    };
    let (acl, drop, allow) = (
        ids("MyIngress.acl"),
        ids("MyIngress.drop"),
        ids("MyIngress.allow"),
    );
    let entry = |priority: u32, action: &str, fields: &str| {
        format!(
            "updates {{ type: INSERT entity {{ table_entry {{ table_id: {acl} priority: {priority} \
             {fields} action {{ action {{ action_id: {action} }} }} }} }} }}\n"
        )
    };
    let wide =
        r#"match { field_id: 1 ternary { value: "\t\000\000\000" mask: "\377\000\000\000" } }"#;
    let narrow = r#"match { field_id: 1 ternary { value: "\t\001\000\000" mask: "\377\377\000\000" } }
        match { field_id: 2 range { low: "\021" high: "\021" } }
        match { field_id: 3 optional { value: "\001" } }"#;
    let proto = folder.file(
        "entries.txtpb",
        format!(
            "# proto-message: p4.v1.WriteRequest\n{}{}",
            entry(1, &allow, wide),
            entry(2, &drop, narrow)
        ),
    );
    // IPv4, UDP, from 9.1.0.2 and 9.2.0.2.
    let packet = |second: u8| {
        format!(
            "020000000001 020000000002 0800 4500001c0001000040110000 09{second:02x}0002 0a010203 \
             00010002 00080000"
        )
    };
    for file in [&shell, &lines, &proto] {
        for (second, action) in [(1, "MyIngress.drop()"), (2, "MyIngress.allow()")] {
            let (code, stdout, stderr) =
                trace(file, &["--p4info", P4INFO, "--packet", &packet(second)]);
            assert_eq!((code, stderr.as_str()), (0, ""), "{}", file.display());
            let after: Vec<_> = stdout
                .lines()
                .skip_while(|line| !line.contains("MyIngress.acl"))
                .skip_while(|line| !line.trim_start().starts_with("action"))
                .collect();
            assert!(
                after[0].ends_with(&format!(" {action}")),
                "{}: {stdout}",
                file.display()
            );
        }
    }
}

/// Lines have priorities of two kinds, and the switch has its own.
#[test]
fn priorities_are_shown_as_they_were_written() {
    let folder = Folder::new("priorities");
    let packet = "020000000001 020000000002 0800 4500001c0001000040110000 09010002 0a010203";
    let shell = "table_add MyIngress.acl MyIngress.drop 9.0.0.0&&&255.0.0.0 0->255 0&&&0 => 1\n";
    for (line, switch, written, text) in [
        (
            shell,
            2_147_483_646,
            1,
            "priority 1 (the lower number wins)",
        ),
        (
            "add acl 10 hdr.ipv4.src:0x09****** drop()\n",
            11,
            10,
            "priority 10 (the higher number wins)",
        ),
    ] {
        let file = folder.file("entries", line);
        let (code, stdout, _) = trace(&file, &["--packet", packet]);
        assert_eq!(code, 0);
        assert!(
            stdout.contains(&format!("               {text}\n")),
            "{stdout}"
        );
        let (_, stdout, _) = trace(&file, &["--json", "--packet", packet]);
        let packet: serde_json::Value = serde_json::from_str(&stdout).unwrap();
        let events = packet["events"].as_array().unwrap();
        let acl = events.iter().find(|e| e["name"] == "MyIngress.acl");
        let entry = &acl.unwrap()["entry"];
        assert_eq!(entry["priority"], switch);
        assert_eq!(entry["written_priority"], written);
    }
}

/// The program's command 3 clones at ingress, 4 at egress, both to the session
/// that the next byte names.
#[test]
fn a_clone_that_is_not_made_is_told() {
    let folder = Folder::new("no-clone");
    let entries = folder.file("commands.txt", "mirroring_add_mc 8 1\nmirroring_add 9 5\n");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/externs.json");
    let trace = |first: &str, json: bool| {
        let packet = format!("{first}00000000000000000000");
        let mut command = softswitch();
        command.args(["trace", program, "--packet", &packet, "--entries"]);
        command.arg(&entries).args(json.then_some("--json"));
        let (code, stdout, stderr) = outcome(&mut command);
        assert_eq!((code, stderr.as_str()), (0, ""));
        stdout
    };
    for command in ["03", "04"] {
        for (session, line) in [
            (
                "4d",
                "  no clone     to session 77: there is no such session\n",
            ),
            ("08", "  no clone     to session 8: it has no port\n"),
        ] {
            let stdout = trace(&format!("{command}{session}"), false);
            assert!(stdout.contains(line), "{stdout}");
        }
        let stdout = trace(&format!("{command}09"), false);
        assert!(!stdout.contains("no clone"), "{stdout}");
        assert!(stdout.contains("clone to port 5"), "{stdout}");
    }
    let packet: serde_json::Value = serde_json::from_str(&trace("034d", true)).unwrap();
    let events = packet["events"].as_array().unwrap();
    let lost = events.iter().find(|e| e["event"] == "not_cloned").unwrap();
    assert_eq!(
        (&lost["session"], &lost["session_exists"]),
        (&77.into(), &false.into())
    );
}

#[test]
fn what_lines_ask_to_be_shown_is_not_among_the_packets() {
    let folder = Folder::new("shown");
    let file = folder.file("entries", "register_read last_len 0\n");
    let (code, stdout, stderr) = trace(&file, &["--json", "--packet", FRAME]);
    assert_eq!((code, stdout.lines().count()), (0, 1));
    assert_eq!(stderr, "MyIngress.last_len[0]= 0\n");
}

#[test]
fn groups_and_members_are_numbered_from_zero() {
    let folder = Folder::new("groups");
    let entries = folder.file(
        "commands.txt",
        "act_prof_create_member MyIngress.ecmp MyIngress.set_nexthop 3 02:00:00:00:00:03\n\
         act_prof_create_member MyIngress.ecmp MyIngress.set_nexthop 4 02:00:00:00:00:04\n\
         act_prof_create_group MyIngress.ecmp\n\
         act_prof_add_member_to_group MyIngress.ecmp 1 0\n\
         table_indirect_add_with_group MyIngress.routes 10.1.0.0/16 => 0\n\
         table_indirect_add MyIngress.routes 10.2.0.0/16 => 0\n",
    );
    for (net, port) in [(1, 4), (2, 3)] {
        let packet = format!(
            "020000000001 020000000002 0800 4500001c0001000040110000 09090002 0a{net:02x}0203 \
             00010002 00080000"
        );
        let (code, stdout, stderr) = trace(&entries, &["--packet", &packet]);
        assert_eq!((code, stderr.as_str()), (0, ""));
        assert!(stdout.contains(&format!("to port {port}\n")), "{stdout}");
    }
}

#[test]
fn bad_entries_and_packets_are_refused() {
    let folder = Folder::new("trace-bad");
    for (entries, wanted) in [
        (
            "table_add MyIngress.l2 MyIngress.drop 1 2 =>\n",
            "line 1: table MyIngress.l2 has 1 key fields, 2 matches are given",
        ),
        (
            "\ntable_add MyIngress.l2 MyIngress.counted_forward 1 => 700\n",
            "line 2: ",
        ),
        (
            "table_add MyIngress.l2 MyIngress.counted_forward 1 2\n",
            "line 1: the => between matches and parameters is missing",
        ),
        (
            "table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00 => 2\n",
            "line 1: \"02:00:00:00:00\" is not a MAC address",
        ),
        (
            "table_add MyIngress.acl MyIngress.drop 1.2.3.4 1->2 0&&&0 => 1\n",
            "line 1: \"1.2.3.4\": write the ternary field hdr.ipv4.src as VALUE&&&MASK",
        ),
        (
            "table_add MyIngress.acl MyIngress.drop 1.2.3.4&&&255.255.255.255 1->2 0&&&0 =>\n",
            "line 1: table MyIngress.acl needs a priority at the end of the line; the lowest \
             number wins\n",
        ),
        (
            "table_add MyIngress.l2 MyIngress.counted_forward 1 => 2 10\n",
            "line 1: \"10\" at the end of the line is too much: entries of table MyIngress.l2 have \
             no priority\n",
        ),
        (
            "packet 1 00\n",
            "line 1: a command about packets or counters",
        ),
        (
            "updates { type: INSERT }\n",
            "refers to objects by the ids of the P4Info: give it with --p4info",
        ),
        ("\u{0}\u{1}", "line 1: unknown command"),
    ] {
        let file = folder.file("entries", entries);
        let (code, stdout, stderr) = trace(&file, &["--packet", "00"]);
        assert_eq!((code, stdout.as_str()), (2, ""), "{entries}");
        assert!(stderr.contains(wanted), "{entries}: {stderr}");
        assert!(stderr.contains(&*file.to_string_lossy()), "{stderr}");
    }
    let file = folder.file("entries", "updates { type: INSERT }\nupdates { typ: 1 }\n");
    let (code, _, stderr) = trace(&file, &["--packet", "00", "--p4info", P4INFO]);
    assert_eq!(code, 2);
    let wanted = format!(
        "softswitch: cannot read the entries in {}: line 2: field 'typ' not found for message \
         'p4.v1.Update' (read as p4.v1.WriteRequest in protobuf text format)\n",
        file.display()
    );
    assert_eq!(stderr, wanted);
    let info = folder.file("p4info", "pkg_info {\n  arc: \"v1model\"\n}\n");
    let (code, _, stderr) = trace(
        &file,
        &["--packet", "00", "--p4info", info.to_str().unwrap()],
    );
    assert_eq!(code, 2);
    let wanted = format!(
        "softswitch: cannot read the P4Info {}: line 2: field 'arc' not found for message \
         'p4.config.v1.PkgInfo' (read as p4.config.v1.P4Info in protobuf text format)\n",
        info.display()
    );
    assert_eq!(stderr, wanted);
    let (_, _, stderr) = trace(&file, &["--packet", "00", "--p4info", "no/such"]);
    assert_eq!(
        stderr,
        "softswitch: cannot read the P4Info file no/such: No such file or directory (os error 2)\n"
    );
    for (content, wanted) in [
        (
            "{\n  \"table_entries\": []\n}\n",
            "the file is JSON for the P4Runtime controller of the P4 tutorials. Understood are ",
        ),
        (
            "pkg_info {\n  arch: \"v1model\"\n}\n",
            "the file is P4Info, which is given with --p4info. Understood are ",
        ),
    ] {
        let file = folder.file("entries", content);
        let (code, _, stderr) = trace(&file, &["--packet", "00"]);
        assert_eq!(code, 2);
        let wanted = format!(
            "softswitch: cannot use the entries in {}: {wanted}",
            file.display()
        );
        assert!(stderr.starts_with(&wanted), "{stderr}");
    }
    let file = folder.file("entries", "updates { type: INSERT }\n");
    let (code, _, stderr) = trace(&file, &["--packet", "00", "--p4info", P4INFO]);
    assert_eq!(code, 2);
    assert!(stderr.contains("1 of 1 updates in "), "{stderr}");
    assert!(
        stderr.contains("\n  line 1, updates[0]: the update has no entity"),
        "{stderr}"
    );
    let file = folder.file("entries", [0xff, 0xfe]);
    let (_, _, stderr) = trace(&file, &["--packet", "00"]);
    assert!(stderr.contains("it is not text"), "{stderr}");

    let file = folder.file("entries", "");
    for (packet, wanted) in [
        ("0x0g", "'g' at position 2 is no hexadecimal digit"),
        ("012", "3 digits are no whole number of bytes"),
    ] {
        let (code, _, stderr) = trace(&file, &["--packet", packet]);
        assert_eq!(code, 2);
        assert!(stderr.contains(wanted), "{stderr}");
    }
}
