//! The controller's side: pipeline, entries, errors, notices.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hw_tests::books::{Cell, Count};
use hw_tests::fixture::Fixture;
use hw_tests::frame::Ip;
use hw_tests::scene::{
    CLIENT, DNS, DNS_SERVER, LIP, NH_CLIENT, SERVER, SERVERS, Session, UPLINK, VIP, VTEP, entries,
    link, route, tunnel_end, vip,
};
use hw_tests::target::Target;
use p4_contract::constants::MAX_VTEPS;
use p4_contract::tables::{self, AnyEntry, flow_fwd_v4, flow_rev_v4, server};
use p4_contract::{COOKIE, PIPELINE_JSON, p4info};
use p4runtime_client::{Client, Error, Event, UpdateStatus, entry};
use p4runtime_proto::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime_proto::p4::v1::{
    TableEntry, entity::Entity as Kind, forwarding_pipeline_config::Cookie,
    write_request::Atomicity,
};
use tonic::Code;

use super::{from_client, to_server};

/// All entries that the switch holds, without what it only counts.
fn stored(fx: &Fixture) -> Result<Vec<TableEntry>> {
    let rig = &fx.rig;
    let mut found = Vec::new();
    for table in tables::ALL {
        for entity in rig
            .controller
            .wait(rig.controller.client.read(vec![table.all_entries().into()]))?
        {
            match entity.entity {
                Some(Kind::TableEntry(entry)) if entry.is_default_action => {}
                Some(Kind::TableEntry(entry)) => found.push(entry),
                other => bail!("asked for entries of {}, got {other:?}", table.name),
            }
        }
    }
    Ok(found)
}

pub fn tables_hold_the_configuration(fx: &mut Fixture) -> Result<()> {
    let describe = |entry: &AnyEntry| format!("{entry:?}");
    let expected: BTreeSet<String> = entries().iter().map(describe).collect();
    let mut found = BTreeSet::new();
    for entry in stored(fx)? {
        let entry = AnyEntry::from_proto(&entry)?;
        ensure!(found.insert(describe(&entry)), "read twice: {entry:?}");
    }
    let missing: Vec<_> = expected.difference(&found).take(3).collect();
    let strange: Vec<_> = found.difference(&expected).take(3).collect();
    ensure!(
        missing.is_empty() && strange.is_empty(),
        "missing: {missing:?}; not written: {strange:?}"
    );
    Ok(())
}

pub fn pipeline_reads_back(fx: &mut Fixture) -> Result<()> {
    let rig = &fx.rig;
    let all = rig
        .controller
        .wait(rig.controller.client.get_pipeline(ResponseType::All))?
        .context("no pipeline")?;
    ensure!(all.p4info == Some(p4info()?), "P4Info is another");
    ensure!(
        all.p4_device_config == PIPELINE_JSON,
        "the program is another"
    );
    ensure!(all.cookie == Some(Cookie { cookie: COOKIE }), "the cookie");
    let only = rig
        .controller
        .wait(rig.controller.client.get_pipeline(ResponseType::CookieOnly))?
        .context("no pipeline")?;
    ensure!(only.cookie == Some(Cookie { cookie: COOKIE }), "the cookie");
    ensure!(only.p4info.is_none(), "only the cookie was asked for");
    ensure!(
        only.p4_device_config.is_empty(),
        "only the cookie was asked for"
    );
    Ok(())
}

pub fn capabilities_name_the_version(fx: &mut Fixture) -> Result<()> {
    let rig = &fx.rig;
    let answer = rig.controller.wait(rig.controller.client.capabilities())?;
    ensure!(
        answer.p4runtime_api_version.starts_with("1."),
        "{:?}",
        answer.p4runtime_api_version
    );
    Ok(())
}

pub fn backup_controller_may_not_write(fx: &mut Fixture) -> Result<()> {
    let rig = &fx.rig;
    let spare = entry::insert(tunnel_end(VTEP + 1).to_proto());
    let connect = Client::connect(hw_tests::rig::ADDRESS, 1, 0, None);
    // Election id 0 is lower than the suite's.
    let (backup, _events) = rig.controller.wait(connect)?;
    ensure!(!backup.is_primary(), "the lower election id is primary");
    ensure!(
        rig.controller.client.is_primary(),
        "the higher election id is not"
    );
    match rig
        .controller
        .wait(backup.write(vec![spare], Atomicity::ContinueOnError))
    {
        Err(Error::NotPrimary { .. }) => {}
        other => bail!("a backup's write: {other:?}"),
    }
    tables_hold_the_configuration(fx)
}

pub fn errors_are_told_update_by_update(fx: &mut Fixture) -> Result<()> {
    // What the specification calls out of range bmv2 calls invalid.
    let too_wide = match fx.rig.target {
        Target::Softswitch => Code::OutOfRange,
        Target::Bmv2 => Code::InvalidArgument,
    };
    let unknown = server::Key { server_id: 999 }.to_proto();
    let unknown_full = server::Entry {
        key: server::Key { server_id: 999 },
        action: server::Action::SetServer {
            addr: SERVER,
            port: 1,
        },
    };
    let mut without_key = link(77, UPLINK, 1).to_proto();
    without_key.r#match.clear();
    let mut without_priority = vip(9, 0, 6, (9000, 9001), 1).to_proto();
    without_priority.priority = 0;
    let mut with_priority = link(77, UPLINK, 1).to_proto();
    with_priority.priority = 1;
    let mut foreign_action = link(77, UPLINK, 1).to_proto();
    foreign_action.action = unknown_full.to_proto().action;
    let mut without_parameters = link(77, UPLINK, 1).to_proto();
    without_parameters.action = without_parameters.action.and_then(|action| {
        let mut action = match action.r#type? {
            p4runtime_proto::p4::v1::table_action::Type::Action(action) => action,
            _ => return None,
        };
        action.params.truncate(1);
        Some(action.into())
    });

    let good = route(0, CLIENT, 32, NH_CLIENT);
    let updates = vec![
        (
            entry::insert(tunnel_end(VTEP).to_proto()),
            Code::AlreadyExists,
        ),
        (entry::delete(unknown), Code::NotFound),
        (entry::modify(unknown_full.to_proto()), Code::NotFound),
        (entry::insert(good.to_proto()), Code::Ok),
        (
            // Nine bits.
            entry::insert(link(78, 512, 1).to_proto()),
            too_wide,
        ),
        (entry::insert(without_key), Code::InvalidArgument),
        (entry::insert(without_priority), Code::InvalidArgument),
        (entry::insert(with_priority), Code::InvalidArgument),
        (entry::insert(foreign_action), Code::InvalidArgument),
        (entry::insert(without_parameters), Code::InvalidArgument),
    ];
    let (updates, expected): (Vec<_>, Vec<_>) = updates.into_iter().unzip();
    let rig = &fx.rig;
    let outcome = rig.controller.wait(
        rig.controller
            .client
            .write(updates, Atomicity::ContinueOnError),
    )?;
    let found: Vec<Option<Code>> = outcome.statuses.iter().map(UpdateStatus::code).collect();
    let expected: Vec<Option<Code>> = expected.into_iter().map(Some).collect();
    rig.controller
        .write(vec![entry::delete(good.to_proto())])
        .context("the good update of the batch was not applied")?;
    ensure!(
        found == expected,
        "expected {expected:?}, found {:?}",
        outcome.statuses
    );
    // What was refused has changed nothing.
    tables_hold_the_configuration(fx)
}

pub fn full_table(fx: &mut Fixture) -> Result<()> {
    // One entry is there already.
    for more in 1..MAX_VTEPS {
        fx.insert(&tunnel_end(VTEP + more))?;
    }
    let one_more = entry::insert(tunnel_end(VTEP + MAX_VTEPS).to_proto());
    let rig = &fx.rig;
    let outcome = rig.controller.wait(
        rig.controller
            .client
            .write(vec![one_more], Atomicity::ContinueOnError),
    )?;
    let code = match rig.target {
        Target::Softswitch => Code::ResourceExhausted,
        Target::Bmv2 => Code::Unknown,
    };
    ensure!(
        outcome
            .statuses
            .iter()
            .map(UpdateStatus::code)
            .eq([Some(code)]),
        "{:?}",
        outcome.statuses
    );
    Ok(())
}

/// A session of its own.
const SPARE: Session = Session {
    protocol: 17,
    client_port: 45_000,
    vip_id: DNS,
    vip_port: 53,
    server_id: DNS_SERVER,
    local_id: 21,
    local_port: 25_000,
};

fn query() -> Ip {
    Ip::udp((CLIENT, SPARE.client_port), (VIP, SPARE.vip_port))
}

/// The frame to the server of a [`query`].
fn query_out() -> Result<Vec<u8>> {
    let there = query().from(LIP, SPARE.local_port);
    to_server(&there.to(SERVER, 5353).routed())
}

pub fn entry_counters_count_and_start_at_zero(fx: &mut Fixture) -> Result<()> {
    let cell = Cell::FlowFwd(SPARE.forward_key());
    let frame = from_client(&query())?;
    for _ in 0..2 {
        for entry in SPARE.entries(0) {
            fx.insert(&entry)?;
        }
        ensure!(
            !fx.counts()?.contains_key(&cell),
            "a new entry has counted already"
        );
        for _ in 0..3 {
            fx.rig.wire(UPLINK)?.send(&frame)?;
            let found = fx.rig.wire(SERVERS)?.receive(Duration::from_secs(3))?;
            ensure!(
                found == Some(query_out()?),
                "the packet did not come through"
            );
        }
        let expected = Count {
            packets: 3,
            bytes: 3 * frame.len() as u64,
        };
        let start = Instant::now();
        while fx.counts()?.get(&cell) != Some(&expected) {
            ensure!(
                start.elapsed() < Duration::from_secs(3),
                "expected {expected}, found {:?}",
                fx.counts()?.get(&cell)
            );
        }
        for entry in SPARE.entries(0) {
            fx.delete(&entry)?;
        }
    }
    Ok(())
}

/// What a target's clock in whole milliseconds takes from a time between two of
/// its readings.
const CLOCK: Duration = Duration::from_millis(1);

pub fn idle_entries_are_reported(fx: &mut Fixture) -> Result<()> {
    let timeout = Duration::from_millis(1500);
    // The target counts from a moment after this one: what it reports later than
    // the timeout by its clock is later by this one too, however slow the machine.
    let inserted = Instant::now();
    for entry in SPARE.entries(timeout.as_nanos().try_into()?) {
        fx.insert(&entry)?;
    }
    // Requests keep the forward entry alive; replies are missing.
    let busy = Instant::now();
    let mut reverse_idle = None;
    let mut last_hit = busy;
    while busy.elapsed() < Duration::from_secs(4) {
        last_hit = Instant::now();
        fx.rig.wire(UPLINK)?.send(&from_client(&query())?)?;
        let found = fx.rig.wire(SERVERS)?.receive(Duration::from_secs(3))?;
        ensure!(
            found == Some(query_out()?),
            "the packet did not come through"
        );
        for (forward, reverse) in idle_notices(fx, Duration::from_millis(200))? {
            ensure!(!forward, "a busy entry was reported idle");
            if reverse {
                reverse_idle.get_or_insert(inserted.elapsed());
            }
        }
    }
    let reverse_idle = reverse_idle.context("the entry without packets was not reported idle")?;
    ensure!(
        reverse_idle + CLOCK >= timeout,
        "reported after {reverse_idle:?}, its timeout is {timeout:?}"
    );
    // Now both are idle.
    let quiet = Instant::now();
    loop {
        let notices = idle_notices(fx, Duration::from_millis(200))?;
        if notices.iter().any(|(forward, _)| *forward) {
            break;
        }
        ensure!(
            quiet.elapsed() < Duration::from_secs(6),
            "the entry without packets was not reported idle"
        );
    }
    let idle = last_hit.elapsed();
    ensure!(
        idle + CLOCK >= timeout,
        "reported after {idle:?}, its timeout is {timeout:?}"
    );
    for entry in SPARE.entries(0) {
        fx.delete(&entry)?;
    }
    // A notice may be on its way still.
    idle_notices(fx, Duration::from_millis(200))?;
    // Undoing would insert them again; the end of the case has nothing to do.
    fx.forget();
    Ok(())
}

/// Of each notice that comes within `patience`: whether it names the forward
/// and the reverse entry of [`SPARE`].
fn idle_notices(fx: &mut Fixture, patience: Duration) -> Result<Vec<(bool, bool)>> {
    let deadline = Instant::now() + patience;
    let mut notices = Vec::new();
    while let Some(event) = fx.event(deadline.saturating_duration_since(Instant::now()))? {
        let Event::IdleTimeout(entries) = event else {
            bail!("instead of an idle notice: {event:?}");
        };
        ensure!(!entries.is_empty(), "an idle notice without entries");
        let (mut forward, mut reverse) = (false, false);
        for entry in entries {
            if let Ok(key) = flow_fwd_v4::Key::from_proto(&entry) {
                ensure!(key == SPARE.forward_key(), "another entry idle: {key:?}");
                forward = true;
            } else {
                let key = flow_rev_v4::Key::from_proto(&entry)?;
                ensure!(key == SPARE.reverse_key(), "another entry idle: {key:?}");
                reverse = true;
            }
        }
        notices.push((forward, reverse));
    }
    Ok(notices)
}
