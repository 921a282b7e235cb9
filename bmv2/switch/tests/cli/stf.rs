//! `softswitch stf`.

use super::{Folder, PROGRAM, outcome, softswitch};

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
         check_counter l2_counter(TWO) packets == 1\n"
    );
    let (code, stdout, stderr) = stf(&folder, &test);
    assert_eq!((code, stderr.as_str()), (0, ""), "{stdout}");
    let wanted = "\
        ok      line 5    port 2\n\
        ok      line 7    port 3\n\
        ok      line 8    counter l2_counter\n\
        3 of 3 expectations met, 0 unexpected packets\n";
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
            "line 2: no table, or more than one, is named \"nothing\"",
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
            "line 1: there is no counter \"nowhere\"",
        ),
    ] {
        let (code, _, stderr) = stf(&folder, test);
        assert_eq!(code, 2, "{test}");
        assert!(
            stderr.starts_with("softswitch: cannot carry out "),
            "{stderr}"
        );
        assert!(stderr.contains(wanted), "{test}: {stderr}");
    }
    let (code, _, stderr) = outcome(softswitch().args(["stf", PROGRAM, "no/such.stf"]));
    assert_eq!(code, 2);
    assert!(
        stderr.starts_with("softswitch: cannot read the test no/such.stf: No such file"),
        "{stderr}"
    );
}
