//! `softswitch run` with `--use-files`: the whole switch, without interfaces.

use std::io::Write as _;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

use super::{Folder, PROGRAM, outcome, softswitch};

/// A pcap file as its specification has it, big-endian, times in seconds.
fn pcap(packets: &[(u32, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0xa1, 0xb2, 0xc3, 0xd4, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0];
    bytes.extend([0, 0, 0xff, 0xff, 0, 0, 0, 1]);
    for (second, packet) in packets {
        let length = u32::try_from(packet.len()).unwrap();
        for word in [*second, 0, length, length] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend(*packet);
    }
    bytes
}

/// The packets of a file that libpcap would have written here.
fn packets(bytes: &[u8]) -> Vec<Vec<u8>> {
    let word = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(16), word(20)), (0xa1b2_c3d4, 262_144, 1));
    let (mut at, mut packets) = (24, Vec::new());
    while at < bytes.len() {
        let length = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, length);
        packets.push(bytes[at + 16..at + 16 + length].to_vec());
        at += 16 + length;
    }
    packets
}

fn frame(to: u8, number: u8) -> Vec<u8> {
    vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, 9, 0x88, 0xb5, number]
}

/// A running switch that ends with this value.
struct Running(Child);

impl Running {
    fn start(folder: &Folder, arguments: &[&str]) -> Self {
        let child = softswitch()
            .current_dir(folder.path())
            .args(["run", PROGRAM, "--entries", "commands.txt"])
            .args(["--grpc-server-addr", "127.0.0.1:0", "--use-files", "0"])
            .args(arguments)
            .stderr(std::fs::File::create(folder.path().join("log")).unwrap())
            .spawn()
            .unwrap();
        Self(child)
    }

    /// Ends it as an operator does; returns whether it said it went well.
    fn stop(mut self) -> bool {
        let pid = nix::unistd::Pid::from_raw(self.0.id().cast_signed());
        nix::sys::signal::kill(pid, nix::sys::signal::SIGTERM).unwrap();
        self.0.wait().unwrap().success()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn wait_for_bytes(path: &Path, length: usize) -> Vec<u8> {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let bytes = std::fs::read(path).unwrap_or_default();
        if bytes.len() >= length {
            return bytes;
        }
        assert!(
            Instant::now() < deadline,
            "{} bytes in {}",
            bytes.len(),
            path.display()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

const ENTRIES: &str = "\
    table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:01 => 1\n\
    table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:02 => 2\n\
    table_add MyIngress.l2 MyIngress.counted_forward 02:00:00:00:00:03 => 3\n";

#[test]
fn packets_of_all_files_go_in_the_order_of_their_times() {
    let folder = Folder::new("files");
    folder.file("commands.txt", ENTRIES);
    let (a, b, c, d) = (frame(3, 1), frame(3, 2), frame(3, 3), frame(1, 4));
    folder.file("one_in.pcap", pcap(&[(10, &a), (30, &c)]));
    folder.file("two_in.pcap", pcap(&[(20, &b), (40, &d)]));
    folder.file("three_in.pcap", pcap(&[]));
    let switch = Running::start(&folder, &["-i", "1@one", "-i", "2@two", "-i", "3@three"]);
    let record = 16 + a.len();
    let three = wait_for_bytes(&folder.path().join("three_out.pcap"), 24 + 3 * record);
    assert_eq!(packets(&three), [a, b, c]);
    let one = wait_for_bytes(&folder.path().join("one_out.pcap"), 24 + record);
    assert_eq!(packets(&one), [d]);
    assert!(switch.stop());
    let two = std::fs::read(folder.path().join("two_out.pcap")).unwrap();
    assert_eq!(packets(&two), Vec::<Vec<u8>>::new());
}

/// More packets than the worker gets at once, of two files in turn.
#[test]
fn many_packets_keep_their_order() {
    let folder = Folder::new("many-packets");
    folder.file("commands.txt", ENTRIES);
    let numbered: Vec<(u32, Vec<u8>)> = (0..1000_u32)
        .map(|time| (time, [frame(3, 0), time.to_be_bytes().to_vec()].concat()))
        .collect();
    let of = |odd: u32| -> Vec<(u32, &[u8])> {
        let own = numbered.iter().filter(|(time, _)| time % 2 == odd);
        own.map(|(time, packet)| (*time, packet.as_slice()))
            .collect()
    };
    folder.file("one_in.pcap", pcap(&of(0)));
    folder.file("two_in.pcap", pcap(&of(1)));
    folder.file("three_in.pcap", pcap(&[]));
    let switch = Running::start(&folder, &["-i", "1@one", "-i", "2@two", "-i", "3@three"]);
    let record = 16 + numbered[0].1.len();
    let three = folder.path().join("three_out.pcap");
    let found = packets(&wait_for_bytes(&three, 24 + 1000 * record));
    assert!(found.iter().eq(numbered.iter().map(|(_, packet)| packet)));
    assert!(switch.stop());
}

/// p4c's driver writes into pipes while the switch runs.
#[test]
fn a_pipe_is_read_as_it_is_written() {
    let folder = Folder::new("pipes");
    folder.file("commands.txt", ENTRIES);
    let pipe = folder.path().join("one_in.pcap");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
    folder.file("two_in.pcap", pcap(&[]));
    let switch = Running::start(&folder, &["-i", "1@one", "-i", "2@two"]);
    let bytes = pcap(&[(1, &frame(2, 7))]);
    let mut writer = std::fs::File::options().write(true).open(&pipe).unwrap();
    for piece in bytes.chunks(5) {
        writer.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    let out = wait_for_bytes(&folder.path().join("two_out.pcap"), 24 + 16 + 15);
    assert_eq!(packets(&out), [frame(2, 7)]);
    drop(writer);
    assert!(switch.stop());
}

/// p4c's driver opens all pipes, with the header of a file in each, before it
/// writes a packet; another may open them in another order.
#[test]
fn pipes_are_opened_without_waiting_for_packets() {
    for (number, order) in [["one", "two", "three"], ["three", "one", "two"]]
        .iter()
        .enumerate()
    {
        let folder = Folder::new(&format!("all-pipes-{number}"));
        folder.file("commands.txt", ENTRIES);
        for name in order {
            let pipe = folder.path().join(format!("{name}_in.pcap"));
            nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        let switch = Running::start(&folder, &["-i", "1@one", "-i", "2@two", "-i", "3@three"]);
        let (done, opened) = std::sync::mpsc::channel();
        let paths = order.map(|name| folder.path().join(format!("{name}_in.pcap")));
        // To open a pipe waits for its reader, so a thread does: the test must end.
        std::thread::spawn(move || {
            let writers = paths.map(|path| {
                let mut pipe = std::fs::File::options().write(true).open(path).unwrap();
                pipe.write_all(&pcap(&[])).unwrap();
                pipe
            });
            let _ = done.send(writers);
        });
        let mut writers = opened
            .recv_timeout(Duration::from_secs(20))
            .expect("all pipes are open");
        let at = |wanted: &str| order.iter().position(|name| name == &wanted).unwrap();
        let (first, second) = (frame(3, 1), frame(3, 2));
        // The earlier packet is written last.
        let mut write = |name: &str, time: u32, packet: &[u8]| {
            let record = &pcap(&[(time, packet)])[24..];
            writers[at(name)].write_all(record).unwrap();
        };
        write("two", 20, &second);
        write("one", 10, &first);
        drop(writers);
        let three = folder.path().join("three_out.pcap");
        let found = wait_for_bytes(&three, 24 + 2 * (16 + first.len()));
        assert_eq!(packets(&found), [first, second]);
        assert!(switch.stop());
    }
}

#[test]
fn packets_captured_in_part_are_counted() {
    let folder = Folder::new("cut");
    folder.file("commands.txt", ENTRIES);
    let mut cut = pcap(&[(1, &frame(2, 1)), (2, &frame(2, 2)), (3, &frame(2, 3))]);
    let record = 16 + 15;
    for packet in [0, 1] {
        // The original length, a byte more than there are.
        cut[24 + packet * record + 15] = 16;
    }
    folder.file("one_in.pcap", cut);
    folder.file("two_in.pcap", pcap(&[]));
    let switch = Running::start(&folder, &["-i", "1@one", "-i", "2@two"]);
    let out = wait_for_bytes(&folder.path().join("two_out.pcap"), 24 + record);
    assert_eq!(packets(&out), [frame(2, 3)]);
    // The end of the file may be noticed later than the packet leaves.
    let deadline = Instant::now() + Duration::from_secs(20);
    let log = loop {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        if log.contains("packets=") {
            break log;
        }
        assert!(Instant::now() < deadline, "{log}");
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(switch.stop());
    let of = |what: &str| -> Vec<&str> { log.lines().filter(|l| l.contains(what)).collect() };
    assert_eq!(of("rx_truncated").len(), 1, "{log}");
    assert_eq!(of("packets=2").len(), 1, "{log}");
}

#[test]
fn bad_files_are_refused() {
    let folder = Folder::new("bad-files");
    folder.file("commands.txt", ENTRIES);
    let run = || {
        outcome(
            softswitch()
                .current_dir(folder.path())
                .args([
                    "run",
                    PROGRAM,
                    "--entries",
                    "commands.txt",
                    "--use-files",
                    "0",
                ])
                .args(["--grpc-server-addr", "127.0.0.1:0", "-i", "1@one"]),
        )
    };
    let (code, _, stderr) = run();
    assert_eq!(code, 1);
    let wanted = "softswitch: port 1: cannot take packets from one_in.pcap: \
                  it cannot be read: No such file or directory";
    assert!(stderr.contains(wanted), "{stderr}");
    folder.file("one_in.pcap", "no packets");
    let (code, _, stderr) = run();
    assert_eq!(code, 1);
    assert!(
        stderr.contains("cannot take packets from one_in.pcap: it is neither pcap nor pcapng"),
        "{stderr}"
    );
    let (code, _, stderr) = outcome(softswitch().args(["--no-p4", "--pcap=/no/such/folder"]));
    assert_eq!(code, 1);
    assert!(
        stderr.contains("--pcap: there is no folder /no/such/folder"),
        "{stderr}"
    );
}
