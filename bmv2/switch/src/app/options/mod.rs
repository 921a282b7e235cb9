//! The command line: that of `simple_switch_grpc`, and our own options.

mod ignored;
mod line;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command, CommandFactory as _, FromArgMatches as _, Parser};

use super::listen::Address;
use super::tls::TlsOptions;
use ignored::Ignored;
use line::Line;

/// A software P4 switch that speaks P4Runtime.
///
/// It takes the command line of simple_switch_grpc: options of the target may
/// follow a `--`. Options that have no meaning here are accepted with a note.
#[derive(Debug, Parser)]
///
/// Other commands, each with --help of its own: `softswitch run` loads a
/// program and entries and runs, `softswitch stf` runs a test, `softswitch
/// trace` prints a packet's path.
#[command(
    name = "softswitch",
    version,
    disable_version_flag = true,
    infer_long_args = true
)]
pub(crate) struct Options {
    /// The program: the JSON that p4c-bm2-ss wrote.
    #[arg(value_name = "JSON")]
    pub(crate) program: Option<PathBuf>,

    /// Attach a network interface as a port; may be repeated. PORT@tap:NAME
    /// attaches a TAP device and makes it if there is none; PORT@xdp:IFACE
    /// attaches an interface by AF_XDP.
    #[arg(short, long = "interface", value_name = "PORT@IFACE")]
    pub(crate) interface: Vec<Interface>,

    /// Start without a program; a controller pushes one.
    #[arg(long)]
    pub(crate) no_p4: bool,

    /// The P4Info that belongs to the program. Without it a controller must
    /// push a pipeline before it can read or write.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub(crate) p4info: Option<PathBuf>,

    /// Entries to start with: a p4.v1.WriteRequest in protobuf text format
    /// (needs --p4info), STF's add and setdefault lines, or the commands of
    /// simple_switch_CLI.
    #[arg(long, value_name = "FILE", requires = "program")]
    pub(crate) entries: Option<PathBuf>,

    /// The P4Runtime device id.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) device_id: u64,

    /// Where P4Runtime is served. 0.0.0.0 stands for all addresses, those of
    /// IPv6 included.
    #[arg(long, default_value = "0.0.0.0:9559", value_name = "ADDR:PORT")]
    pub(crate) grpc_server_addr: Address,

    /// Ask a silent controller so often whether it is still there, and end its
    /// connection if it does not answer within the same time.
    #[arg(long, default_value_t = 20, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub(crate) keepalive: u64,

    /// The port that stands for the controller; without it there is no packet
    /// I/O.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..512))]
    pub(crate) cpu_port: Option<u16>,

    /// The port that means "drop".
    #[arg(long, default_value_t = 511, value_name = "N", value_parser = clap::value_parser!(u16).range(..512))]
    pub(crate) drop_port: u16,

    /// Egress queues of a port: packets whose priority is not below this are
    /// dropped. With more than one, those of a burst leave by priority.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u8).range(1..))]
    pub(crate) priority_queues: u8,

    /// Behave as bmv2 does where it deviates from the P4Runtime specification.
    #[arg(long)]
    pub(crate) compat: bool,

    /// Serve port statistics over HTTP: /stats (JSON) and /metrics
    /// (Prometheus).
    #[arg(long, value_name = "ADDR:PORT")]
    pub(crate) http: Option<SocketAddr>,

    /// Threads that process packets. Programs with registers or meters run on
    /// one at a time, unless --unordered is given.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) workers: u16,

    /// Run programs with registers or meters on all workers at the same time:
    /// packets of different workers may come between a packet's reading a
    /// register and its writing it.
    #[arg(long)]
    pub(crate) unordered: bool,

    /// Packets that the kernel keeps for each port while the switch is busy.
    #[arg(long, default_value_t = 8192, value_name = "PACKETS", value_parser = clap::value_parser!(u32).range(64..=262_144))]
    pub(crate) rx_ring: u32,

    /// Look at the ports this often in vain before sleeping: lower latency for
    /// more processor time.
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) spins: u32,

    /// Write what interfaces receive and send to IFACE_in.pcap and
    /// IFACE_out.pcap in a folder: the argument that follows, if it is no
    /// option, or else the current one.
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = ".")]
    pub(crate) pcap: Option<PathBuf>,

    /// Take packets from IFACE_in.pcap in the current folder instead of the
    /// interface, after so many seconds, and write to IFACE_out.pcap.
    #[arg(long, value_name = "WAIT_SECONDS", allow_negative_numbers = true)]
    pub(crate) use_files: Option<i32>,

    /// Would take packets from a nanomsg socket, which softswitch does not
    /// have; attaches no interfaces.
    #[arg(
        long,
        value_name = "ADDR",
        hide_short_help = true,
        conflicts_with = "use_files"
    )]
    pub(crate) packet_in: Option<String>,

    /// Log to standard output.
    #[arg(long)]
    pub(crate) log_console: bool,

    /// Log to FILE.txt.
    #[arg(long, value_name = "FILE", conflicts_with = "log_console")]
    pub(crate) log_file: Option<PathBuf>,

    /// Log level: trace, debug, info, warn, error or off.
    #[arg(short = 'L', long, value_name = "LEVEL")]
    pub(crate) log_level: Option<tracing::level_filters::LevelFilter>,

    #[command(flatten)]
    pub(crate) tls: TlsOptions,

    /// Print the version.
    #[arg(short, short_alias = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,

    /// Print the newest version of the program's JSON that can be loaded.
    #[arg(long)]
    pub(crate) json_version: bool,

    #[command(flatten)]
    ignored: Ignored,

    /// Arguments behind the `--` that nobody knows.
    #[arg(skip)]
    unknown: Vec<String>,
}

impl Options {
    /// Parses the command line; target options may stand behind a `--`.
    pub(crate) fn from_args(args: Vec<OsString>) -> Self {
        parse(Self::command(), args).unwrap_or_else(|error| error.exit())
    }

    /// Parses the arguments of `softswitch run`: the same, with a program.
    pub(crate) fn for_run(args: Vec<OsString>) -> Self {
        let command = Self::command()
            .name("softswitch run")
            .bin_name("softswitch run")
            .about("Run a program, with entries from a file")
            .long_about(None)
            .mut_arg("program", |arg| arg.required(true))
            .mut_arg("no_p4", |arg| arg.hide(true));
        parse(command, args.clone()).unwrap_or_else(|error| {
            // What --pcap took for its folder may be the program: the check of
            // the folder tells more.
            parse(Self::command(), args)
                .ok()
                .filter(|options| options.pcap.is_some())
                .unwrap_or_else(|| error.exit())
        })
    }

    /// What to tell the user about options without effect.
    pub(crate) fn notes(&self) -> Vec<String> {
        let mut notes = self.ignored.notes();
        notes.extend(self.tls.notes());
        notes.extend(self.unknown.iter().map(|arg| {
            format!("{arg} behind the -- is ignored: there is no such option (see --help)")
        }));
        if self.packet_in.is_some() {
            notes.push(
                "--packet-in is accepted, but packets come from interfaces only: with it the \
                 switch attaches none of those that -i names, as bmv2 does"
                    .into(),
            );
        }
        if self.no_p4
            && let Some(program) = &self.program
        {
            notes.push(format!(
                "{} is not loaded: --no-p4 starts the switch without a program",
                program.display()
            ));
        }
        notes
    }
}

/// Parses a command line. Arguments behind its `--` that nobody knows are left
/// out and noted.
fn parse(command: Command, args: Vec<OsString>) -> Result<Options, clap::Error> {
    let mut line = Line::new(args);
    let mut unknown = Vec::new();
    let parsed = loop {
        let mut error = match command.clone().try_get_matches_from(line.args()) {
            Ok(parsed) => break parsed,
            Err(error) => error,
        };
        if error.kind() == ErrorKind::UnknownArgument
            && let Some(ContextValue::String(arg)) = error.get(ContextKind::InvalidArg)
            && line.leave_out(arg)
        {
            unknown.push(arg.clone());
            continue;
        }
        // "To pass it as a value, use --": that is not what it means here.
        error.remove(ContextKind::Suggested);
        return Err(error);
    };
    let mut options = Options::from_arg_matches(&parsed)?;
    options.unknown = unknown;
    Ok(options)
}

/// A port on an interface, as `1@veth0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) port: u16,
    pub(crate) name: String,
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // bmv2 reads the number as C++ does, and p4c's drivers write "-i 1@veth0"
        // as one argument.
        let (port, name) = text
            .trim()
            .split_once('@')
            .ok_or("write it as PORT@IFACE, for example 1@veth0")?;
        let port = port
            .parse()
            .ok()
            .filter(|port| *port < 512)
            .ok_or_else(|| format!("{port:?} is not a port number from 0 to 511"))?;
        if ["", "tap:", "xdp:"].contains(&name) {
            return Err("the name of the interface is missing behind the @".into());
        }
        Ok(Self {
            port,
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, clap::Error> {
        parse_args(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn parse_args(args: &[&str]) -> Result<Options, clap::Error> {
        super::parse(
            Options::command(),
            args.iter().map(OsString::from).collect(),
        )
    }

    #[test]
    fn a_line_for_simple_switch_grpc_works() {
        let options = parse(
            "simple_switch_grpc --device-id 1 -i 1@s1-eth1 -i 2@s1-eth2 --thrift-port 9090 \
             --log-console --pcap=/tmp --no-p4 -- --grpc-server-addr 127.0.0.1:50051 \
             --grpc-server-ssl --grpc-server-cert c.pem --grpc-server-key k.pem \
             --cpu-port 255 --drop-port 510",
        )
        .unwrap();
        assert_eq!(options.device_id, 1);
        assert_eq!(
            options.interface[1],
            Interface {
                port: 2,
                name: "s1-eth2".into()
            }
        );
        assert_eq!(options.grpc_server_addr.to_string(), "127.0.0.1:50051");
        assert_eq!((options.cpu_port, options.drop_port), (Some(255), 510));
        assert_eq!(options.pcap, Some("/tmp".into()));
        assert!(options.no_p4 && options.program.is_none() && options.log_console);
        let notes = options.notes().join("\n");
        assert!(notes.contains("--thrift-port") && !notes.contains("--pcap"));
    }

    #[test]
    fn the_program_may_follow_the_options() {
        let options = parse("softswitch -i 0@veth0 --pcap=. prog.json -- --cpu-port 64").unwrap();
        assert_eq!(options.program, Some("prog.json".into()));
        assert_eq!(options.pcap, Some(".".into()));
        let defaults = (options.device_id, options.drop_port);
        assert_eq!(defaults, (0, 511));
        assert_eq!(options.priority_queues, 1);
        let options = parse("softswitch --no-p4 -- --priority-queues 8").unwrap();
        assert_eq!(options.priority_queues, 8);
    }

    #[test]
    fn bad_lines_are_refused() {
        for line in [
            "s -i veth0",
            "s -i 600@veth0",
            "s -i 1@",
            "s --cpu-port 0",
            "s --cpu-port 512",
            "s --priority-queues 0",
            "s --p4info x",
            "s --no-such-option",
            "s --no-such-option -- --no-such-option",
            "s --log-file x --log-console",
            "s --use-files 0 --packet-in ipc://x",
            "s --lo x",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_folder_of_captures_may_be_the_next_argument() {
        for (line, folder, program) in [
            (
                "s -i 1@v --pcap pcaps --device-id 0 p.json -- --cpu-port 64",
                "pcaps",
                Some("p.json"),
            ),
            ("s --pcap=pcaps p.json", "pcaps", Some("p.json")),
            ("s p.json --pcap -i 1@v", ".", Some("p.json")),
            ("s p.json --pcap", ".", Some("p.json")),
            ("s --pcap -- p.json", ".", Some("p.json")),
            ("s --pcap p.json", "p.json", None),
        ] {
            let options = parse(line).unwrap();
            assert_eq!(options.pcap, Some(folder.into()), "{line}");
            assert_eq!(options.program, program.map(PathBuf::from), "{line}");
        }
    }

    #[test]
    fn blanks_around_an_interface_do_not_matter() {
        let args = ["s", "-i 1@veth0", "-i", " 2@tap:t0", "--interface= 3@veth1"];
        let options = parse_args(&args).unwrap();
        let found = options.interface.iter().map(|i| (i.port, i.name.as_str()));
        assert!(found.eq([(1, "veth0"), (2, "tap:t0"), (3, "veth1")]));
    }

    #[test]
    fn what_the_target_does_not_know_is_left_out() {
        let line = "s --no-p4 -- --enable-swap --foo=bar --grpc-server-addr [::1]:1 baz qux";
        let options = parse(line).unwrap();
        assert_eq!(options.grpc_server_addr.to_string(), "[::1]:1");
        let notes = options.notes().join("\n");
        for arg in ["--enable-swap", "--foo", "qux"] {
            assert!(notes.contains(&format!("{arg} behind the --")), "{notes}");
        }
    }

    #[test]
    fn options_of_other_builds_are_accepted() {
        let options = parse(
            "s --no-p4 --debugger --debugger-addr ipc://d --notifications-addr ipc://n \
             --packet-in ipc://p -- --load-modules m.so",
        )
        .unwrap();
        let notes = options.notes().join("\n");
        for name in [
            "--debugger ",
            "--debugger-addr ",
            "--notifications-addr ",
            "--packet-in ",
            "--load-modules ",
        ] {
            assert!(notes.contains(name), "{notes}");
        }
    }

    #[test]
    fn options_may_be_shortened_as_far_as_they_are_unambiguous() {
        let options = parse("s p.json --dev 3 --log-con -- --grpc-server-a 127.0.0.1:1").unwrap();
        assert_eq!((options.device_id, options.log_console), (3, true));
        assert_eq!(options.grpc_server_addr.to_string(), "127.0.0.1:1");
    }

    #[test]
    fn versions_are_options() {
        for line in ["s -v", "s -V", "s --version"] {
            assert_eq!(parse(line).unwrap_err().kind(), ErrorKind::DisplayVersion);
        }
        assert!(parse("s --json-version").unwrap().json_version);
    }

    #[test]
    fn an_unknown_option_is_not_taken_for_a_value() {
        let text = |line| parse(line).unwrap_err().to_string();
        let (near, far) = (text("s --pcep"), text("s --foo"));
        assert!(near.contains("--pcap"), "{near}");
        assert!(!far.contains("-- --foo"), "{far}");
    }
}
