//! The command line: that of `simple_switch_grpc`, and our own options.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::listen::Address;
use super::tls::TlsOptions;

/// A software P4 switch that speaks P4Runtime.
///
/// It takes the command line of simple_switch_grpc: options of the target may
/// follow a `--`. Options that have no meaning here are accepted with a note.
#[derive(Debug, Parser)]
///
/// Other commands, each with --help of its own: `softswitch run` loads a
/// program and entries and runs, `softswitch stf` runs a test, `softswitch
/// trace` prints a packet's path.
#[command(name = "softswitch", version)]
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
    /// IFACE_out.pcap in a folder, by default the current one.
    #[arg(long, value_name = "DIR", num_args = 0..=1, require_equals = true, default_missing_value = ".")]
    pub(crate) pcap: Option<PathBuf>,

    /// Take packets from IFACE_in.pcap in the current folder instead of the
    /// interface, after so many seconds, and write to IFACE_out.pcap.
    #[arg(long, value_name = "WAIT_SECONDS", allow_negative_numbers = true)]
    pub(crate) use_files: Option<i32>,

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

    #[command(flatten)]
    pub(crate) ignored: Ignored,
}

/// Options of simple_switch_grpc that have no meaning here.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accepted and ignored")]
pub(crate) struct Ignored {
    #[arg(long, value_name = "N", hide_short_help = true)]
    thrift_port: Option<String>,
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    nanolog: Option<String>,
    #[arg(long, hide_short_help = true)]
    log_flush: bool,
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    log_file_max_size: Option<String>,
    #[arg(long, value_name = "N", hide_short_help = true)]
    log_file_max_files: Option<String>,
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    restore_state: Option<String>,
    #[arg(long, value_name = "BYTES", hide_short_help = true)]
    dump_packet_data: Option<String>,
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_port_count: Option<String>,
    #[arg(long, value_name = "FILES", hide_short_help = true)]
    load_modules: Option<String>,
    #[arg(long, hide_short_help = true)]
    disable_swap: bool,
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    dp_grpc_server_addr: Option<String>,
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_mc_groups: Option<String>,
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_l1_entries: Option<String>,
    #[arg(long, value_name = "N", hide_short_help = true)]
    max_l2_entries: Option<String>,
}

impl Ignored {
    /// What to tell the user: each option that was given, and why it does
    /// nothing.
    pub(crate) fn notes(&self) -> Vec<String> {
        let options = [
            (
                "--thrift-port",
                self.thrift_port.is_some(),
                "the switch is controlled with P4Runtime only",
            ),
            (
                "--nanolog",
                self.nanolog.is_some(),
                "there is no nanomsg log",
            ),
            ("--log-flush", self.log_flush, "the log is always flushed"),
            (
                "--log-file-max-size",
                self.log_file_max_size.is_some(),
                "the log file is not rotated",
            ),
            (
                "--log-file-max-files",
                self.log_file_max_files.is_some(),
                "the log file is not rotated",
            ),
            (
                "--restore-state",
                self.restore_state.is_some(),
                "state is not restored from files",
            ),
            (
                "--dump-packet-data",
                self.dump_packet_data.is_some(),
                "packets are not logged",
            ),
            (
                "--max-port-count",
                self.max_port_count.is_some(),
                "there is no limit but the port's width",
            ),
            (
                "--load-modules",
                self.load_modules.is_some(),
                "there are no loadable modules",
            ),
            (
                "--disable-swap",
                self.disable_swap,
                "a new pipeline is always taken",
            ),
            (
                "--dp-grpc-server-addr",
                self.dp_grpc_server_addr.is_some(),
                "packets come from interfaces only",
            ),
            (
                "--max-mc-groups",
                self.max_mc_groups.is_some(),
                "the number is not limited",
            ),
            (
                "--max-l1-entries",
                self.max_l1_entries.is_some(),
                "the number is not limited",
            ),
            (
                "--max-l2-entries",
                self.max_l2_entries.is_some(),
                "the number is not limited",
            ),
        ];
        options
            .into_iter()
            .filter(|(_, given, _)| *given)
            .map(|(name, _, why)| format!("{name} is accepted and ignored: {why}"))
            .collect()
    }
}

impl Options {
    /// Parses the command line; target options may stand behind a `--`.
    pub(crate) fn from_args(args: Vec<OsString>) -> Self {
        Self::parse_from(without_separator(args))
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
        let parsed = command.get_matches_from(without_separator(args));
        Self::from_arg_matches(&parsed).unwrap_or_else(|error| error.exit())
    }
}

fn without_separator(args: Vec<OsString>) -> impl Iterator<Item = OsString> {
    args.into_iter().filter(|arg| arg != "--")
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
        let args = args.iter().map(OsString::from).collect();
        Options::try_parse_from(without_separator(args))
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
        let notes = options.ignored.notes().join("\n");
        assert!(notes.contains("--thrift-port") && !notes.contains("--pcap"));
    }

    #[test]
    fn the_program_may_follow_the_options() {
        let options = parse("softswitch -i 0@veth0 --pcap prog.json -- --cpu-port 64").unwrap();
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
            "s --log-file x --log-console",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn blanks_around_an_interface_do_not_matter() {
        let args = ["s", "-i 1@veth0", "-i", " 2@tap:t0", "--interface= 3@veth1"];
        let options = parse_args(&args).unwrap();
        let found = options.interface.iter().map(|i| (i.port, i.name.as_str()));
        assert!(found.eq([(1, "veth0"), (2, "tap:t0"), (3, "veth1")]));
    }
}
