//! `softswitch stf`.

use super::{Folder, PROGRAM, outcome, softswitch};

const TABLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/testdata/tables.json");

fn stf(folder: &Folder, test: &str) -> (i32, String, String) {
    let test = folder.file("test.stf", test);
    outcome(softswitch().arg("stf").arg(PROGRAM).arg(test))
}

/// Frames to 02:…:02 go out of port 2, to 02:…:03 out of port 3.
const ENTRIES: &str = "\
    # hosts\n\
    add l2 hdr.ethernet.dst:0x020000000002 counted_forward(port:2) = TWO\n\
    table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:03 => 3\n";

#[test]
fn every_expectation_is_reported() {
    let folder = Folder::new("stf");
    let test = format!(
        "{ENTRIES}\
         packet 1 020000000002 020000000001 88b5 0102\n\
         expect 2 020000000002 ************ 88b5 0102 $\n\
         packet 1 020000000003 020000000001 88b5 03\n\
         expect 3 0200000000030200000000 01\n\
         check_counter l2_counter(TWO) packets == 1\n\
         check_counter l2_counter($TWO) bytes == 0b10000\n\
         check_counter l2_counter(0x1) bytes == 15\n"
    );
    let (code, stdout, stderr) = stf(&folder, &test);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let wanted = "\
        ok      line 5    port 2\n\
        ok      line 7    port 3\n\
        ok      line 8    counter l2_counter\n\
        ok      line 9    counter l2_counter\n\
        ok      line 10   counter l2_counter\n\
        5 of 5 expectations met, 0 unexpected packets\n";
    assert_eq!(stdout, wanted);
}

#[test]
fn what_differs_is_shown() {
    let folder = Folder::new("stf-differs");
    let test = format!(
        "{ENTRIES}\
         packet 1 020000000002 020000000001 88b5 0102\n\
         packet 1 020000000003 020000000001 88b5 03\n\
         expect 2 020000000002 020000000001 88b5 0103\n\
         expect 2 020000000002 020000000001 88b5 0104\n\
         check_counter l2_counter(TWO) bytes > 100\n"
    );
    let (code, stdout, _) = stf(&folder, &test);
    assert_eq!(code, 1);
    let wanted = "\
        FAILED  line 6    port 2: another packet came: 02000000000202000000000188b50102\n\
        FAILED  line 7    port 2: no packet came\n\
        FAILED  line 8    counter l2_counter: the counter is 16, compared with 100\n\
        FAILED            port 3: nothing expects 02000000000302000000000188b503\n\
        0 of 3 expectations met, 1 unexpected packets\n";
    assert_eq!(stdout, wanted);
}

#[test]
fn a_bad_test_is_refused_with_its_line() {
    let folder = Folder::new("stf-bad");
    for (test, wanted) in [
        ("packet 1 0\n", "line 1: packet data must be whole bytes"),
        (
            "\nadd nothing a:1 b()\n",
            "line 2: no table is named \"nothing\"; there are MyIngress.smac, MyIngress.l2, \
             MyIngress.classes, MyIngress.acl, MyIngress.routes\n",
        ),
        (
            "add l2 hdr.ethernet.type:1 drop()\n",
            "line 1: table MyIngress.l2 has no key field \"hdr.ethernet.type\"; it has \
             hdr.ethernet.dst\n",
        ),
        (
            "add l2 hdr.ethernet.dst:1 counted_forward()\n",
            "line 1: the argument \"port\" is missing",
        ),
        ("frobnicate\n", "line 1: unknown command \"frobnicate\""),
        (
            "add l2 hdr.ethernet.dst:0x01020000000002 counted_forward(port:2)\n",
            "line 1: MyIngress.l2: the value of hdr.ethernet.dst does not fit 48 bits",
        ),
        (
            "check_counter nowhere(1) packets == 1\n",
            "line 1: no counter is named \"nowhere\"; there are MyIngress.port_rx, ",
        ),
        (
            "\nadd l2 hdr.ethernet.dst:1 counted_forward(port:1, bogus:2)\n",
            "line 2: action counted_forward has no parameter \"bogus\"; it has port\n",
        ),
        (
            "setdefault l2 drop(port:1)\n",
            "line 1: action drop has no parameter \"port\"; it has none\n",
        ),
        (
            "add l2 hdr.ethernet.dst:1 counted_forward(port:1, port:1)\n",
            "line 1: the argument \"port\" is given twice\n",
        ),
        (
            "add l2 hdr.ethernet.dst:1 ethernet.dst:2 counted_forward(port:1)\n",
            "line 1: the key field hdr.ethernet.dst is given twice\n",
        ),
        (
            "add acl 1 hdr.ipv4.src:0x0a0000**** drop()\n",
            "line 1: 0xa00000000 does not fit the 32 bits of hdr.ipv4.src\n",
        ),
        (
            "table_add MyIngress.acl MyIngress.drop 0x100000001&&&1 1->2 0&&&0 => 1\n",
            "line 1: 0x100000001 does not fit the 32 bits of hdr.ipv4.src\n",
        ),
        (
            "table_add MyIngress.acl MyIngress.drop 1&&&0xffffffff 1->2 0&&&0x3ff => 1\n",
            "line 1: 0x3ff does not fit the 9 bits of std.ingress_port\n",
        ),
        (
            "act_prof_create_member ecmp drop\n\
             add routes hdr.ipv4.dst:0x2/33 drop()\n",
            "line 2: a prefix of 33 bits is longer than hdr.ipv4.dst, which has 32\n",
        ),
        (
            "act_prof_create_member ecmp drop\n\
             table_indirect_add routes 2/33 => 0\n",
            "line 2: a prefix of 33 bits is longer than hdr.ipv4.dst, which has 32\n",
        ),
        (
            "packet 512 00\n",
            "line 1: \"512\" is not a port: ports are 0 to 511\n",
        ),
        (
            "expect 1000 00\n",
            "line 1: \"1000\" is not a port: ports are 0 to 511\n",
        ),
        (
            "mc_node_create 1 2 512\n",
            "line 1: \"512\" is not a port: ports are 0 to 511\n",
        ),
        (
            "mirroring_add 1 512\n",
            "line 1: \"512\" is not a port: ports are 0 to 511\n",
        ),
        (
            "meter_get_rates port_meter 16\n",
            "line 1: meter MyIngress.port_meter: index 16 is out of range, the size is 16\n",
        ),
        (
            "mc_node_update 0 1\n",
            "line 1: there is no node 0: mc_node_create makes nodes, which are numbered from 0\n",
        ),
        (
            "mc_mgrp_create 1\nmc_node_associate 1 0\n",
            "line 2: there is no node 0: mc_node_create makes nodes, which are numbered from 0\n",
        ),
        (
            "mc_node_create 1 2\nmc_node_associate 7 0\n",
            "line 2: there is no multicast group 7: mc_mgrp_create makes it\n",
        ),
        (
            "mc_node_update 0\n",
            "line 1: write mc_node_update NODE PORT…\n",
        ),
        (
            "mc_node_create 1 2 | 3\n",
            "line 1: link aggregation groups (after the |) are not supported\n",
        ),
        (
            "mirroring_get 4\n",
            "line 1: there is no clone session 4: mirroring_add makes it\n",
        ),
        (
            "check_counter l2_counter($NONE) packets == 1\n",
            "line 1: no entry has the label \"NONE\": one gets it from `add … = NONE` on a line \
             before\n",
        ),
        (
            "add l2 hdr.ethernet.dst:1 drop() = E\ncheck_counter port_rx($E) packets == 1\n",
            "line 2: MyIngress.port_rx does not count entries of the table MyIngress.l2, as E is \
             one\n",
        ),
        (
            "counter_read l2_counter 0\n",
            "line 1: the table MyIngress.l2 has no entry with the handle 0\n",
        ),
        ("remove l2\n", "STF has only \"remove all\""),
    ] {
        let (code, stdout, stderr) = stf(&folder, test);
        assert_eq!((code, stdout.as_str()), (2, ""), "{test}");
        assert!(
            stderr.starts_with("softswitch: cannot carry out "),
            "{stderr}"
        );
        assert!(stderr.contains(wanted), "{test}: {stderr}");
    }
    // A parameter is easily taken for the priority that is missing.
    let test = folder.file(
        "test.stf",
        "table_add In.ternary_abc In.found 1&&&1 0&&&0 0&&&0 => 3\n",
    );
    let (code, _, stderr) = outcome(softswitch().arg("stf").arg(TABLES).arg(test));
    assert_eq!(code, 2);
    let end = "line 1: table In.ternary_abc needs a priority at the end of the line, after one \
               parameter; the lowest number wins\n";
    assert!(stderr.ends_with(end), "{stderr}");
    let (code, _, stderr) = outcome(softswitch().args(["stf", PROGRAM, "no/such.stf"]));
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("softswitch: cannot read the test no/such.stf: No such file"),
        "{stderr}"
    );
}

#[test]
fn reading_commands_show_what_they_read() {
    let folder = Folder::new("stf-reads");
    let test = format!(
        "{ENTRIES}\
         register_write MyIngress.last_len 3 65\n\
         register_read last_len 3\n\
         counter_write port_rx 1 2 120\n\
         counter_read port_rx 1\n\
         packet 1 020000000003 020000000001 88b5 03\n\
         expect 3\n\
         counter_read l2_counter 1\n\
         meter_set_rates port_meter 1 0.5:10 1:20\n\
         meter_get_rates port_meter 1\n\
         meter_get_rates port_meter 2\n\
         mirroring_add 5 2\n\
         mirroring_get 5\n\
         mirroring_add_mc 5 1\n\
         mirroring_get 5\n"
    );
    let (code, stdout, stderr) = stf(&folder, &test);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let wanted = "\
        MyIngress.last_len[3]= 65\n\
        MyIngress.port_rx[1]= 2 packets, 120 bytes\n\
        MyIngress.l2_counter[1]= 1 packets, 15 bytes\n\
        MyIngress.port_meter[1]: committed 0.5 bytes/us, burst 10; peak 1 bytes/us, burst 20\n\
        MyIngress.port_meter[2]: no rates\n\
        clone session 5: port 2\n\
        clone session 5: port 2, multicast group 1\n\
        ok      line 9    port 3\n\
        1 of 1 expectations met, 0 unexpected packets\n";
    assert_eq!(stdout, wanted);
}

#[test]
fn what_came_before_a_line_that_cannot_be_carried_out_is_reported() {
    let folder = Folder::new("stf-stopped");
    let test = format!(
        "{ENTRIES}\
         packet 1 020000000002 020000000001 88b5 01\n\
         expect 2 020000000002 020000000001 88b5 01\n\
         check_counter l2_counter($TWO) packets == 7\n\
         packet 1 020000000003 020000000001 88b5 03\n\
         register_write last_len 32 1\n\
         expect 3\n"
    );
    let (code, stdout, stderr) = stf(&folder, &test);
    assert_eq!(code, 2);
    let wanted = "\
        ok      line 5    port 2\n\
        FAILED  line 6    counter l2_counter: the counter is 1, compared with 7\n\
        1 of 2 expectations met before line 8, which could not be carried out\n";
    assert_eq!(stdout, wanted);
    let end = "test.stf: line 8: register MyIngress.last_len: index 32 is out of range, the size \
               is 32\n";
    assert!(stderr.ends_with(end), "{stderr}");
}

/// Group 5 goes to ports 2 and 3, and after the update to 3 and 4.
#[test]
fn a_node_s_ports_can_be_changed() {
    let folder = Folder::new("stf-nodes");
    let test = "\
         mc_mgrp_create 5\n\
         mc_node_create 1 2 3\n\
         mc_node_associate 5 0\n\
         add l2 hdr.ethernet.dst:0xffffffffffff flood(group:5)\n\
         packet 1 ffffffffffff 020000000001 88b5 01\n\
         mc_node_update 0 3 4\n\
         packet 1 ffffffffffff 020000000001 88b5 02\n\
         expect 2 ffffffffffff 020000000001 88b5 01 $\n\
         expect 3 ffffffffffff 020000000001 88b5 01 $\n\
         expect 3 ffffffffffff 020000000001 88b5 02 $\n\
         expect 4 ffffffffffff 020000000001 88b5 02 $\n";
    let (code, stdout, stderr) = stf(&folder, test);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let last = stdout.lines().last();
    assert_eq!(last, Some("4 of 4 expectations met, 0 unexpected packets"));
}
