//! Options of simple_switch_grpc, in one of its builds, that do nothing here.

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
    #[arg(long, hide_short_help = true)]
    debugger: bool,
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    debugger_addr: Option<String>,
    #[arg(long, value_name = "ADDR", hide_short_help = true)]
    notifications_addr: Option<String>,
}

impl Ignored {
    /// What to tell the user: each option that was given, and why it does
    /// nothing.
    pub(crate) fn notes(&self) -> Vec<String> {
        const NO_ROTATION: &str = "the log file is not rotated";
        const NO_LIMIT: &str = "the number is not limited";
        const NO_DEBUGGER: &str = "there is no debugger; `softswitch trace` follows a packet";
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
                NO_ROTATION,
            ),
            (
                "--log-file-max-files",
                self.log_file_max_files.is_some(),
                NO_ROTATION,
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
            ("--max-mc-groups", self.max_mc_groups.is_some(), NO_LIMIT),
            ("--max-l1-entries", self.max_l1_entries.is_some(), NO_LIMIT),
            ("--max-l2-entries", self.max_l2_entries.is_some(), NO_LIMIT),
            ("--debugger", self.debugger, NO_DEBUGGER),
            ("--debugger-addr", self.debugger_addr.is_some(), NO_DEBUGGER),
            (
                "--notifications-addr",
                self.notifications_addr.is_some(),
                "digests and notices of idle entries go to P4Runtime's controllers",
            ),
        ];
        options
            .into_iter()
            .filter(|(_, given, _)| *given)
            .map(|(name, _, why)| format!("{name} is accepted and ignored: {why}"))
            .collect()
    }
}
