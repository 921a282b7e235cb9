//! The state behind the six calls, without gRPC.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use arc_swap::ArcSwapOption;
use p4runtime_proto::p4::v1 as p4;
use p4runtime_proto::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime_proto::p4::v1::write_request::Atomicity;
use parking_lot::{Mutex, RwLock, RwLockWriteGuard};
use tokio::sync::Semaphore;
use tonic::{Code, Status};

use super::arbitration::{Arbitration, StreamId, election_id, role_name};
use super::digest::Digests;
use super::fault::{Fault, Outcome};
use super::pipeline::verify;
use super::reconcile;
use super::replication::Replication;
use super::streams::Streams;
use super::target::{Pipeline, Target};
use super::{Mode, ServerConfig, write};
use crate::ports::{Clock, DataPlane};
use crate::{Program, Switch};

/// Most updates of a DATAPLANE_ATOMIC batch: bounds the pause of the data
/// plane.
const MAX_ATOMIC: usize = 4096;

/// Reads that are answered at a time: each holds a thread, as long as the client
/// takes to read.
const MAX_READS: usize = 64;
/// Pipelines that are verified at a time; more wait.
const MAX_CONFIGS: usize = 2;
/// Longest packet of a controller, in bytes.
const MAX_PACKET_OUT: usize = 1 << 16;

/// What was committed, and what was saved for a later commit.
#[derive(Debug, Default)]
pub(super) struct Control {
    pub(super) committed: Option<Target>,
    /// Saved with VERIFY_AND_SAVE, on a switch of its own: Read and Write refer
    /// to it until it is committed.
    saved: Option<Target>,
}

impl Control {
    /// What Read and Write refer to.
    pub(super) fn facing(&self) -> Option<&Target> {
        self.saved.as_ref().or(self.committed.as_ref())
    }

    fn facing_mut(&mut self) -> Option<&mut Target> {
        self.saved.as_mut().or(self.committed.as_mut())
    }
}

/// Shared by the calls, the notifier and the packet path.
///
/// Locks are taken in this order: `control`, `arbitration`, then the streams.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) config: ServerConfig,
    pub(super) switch: Arc<Switch>,
    pub(super) clock: Clock,
    pub(super) control: RwLock<Control>,
    pub(super) arbitration: Mutex<Arbitration>,
    pub(super) streams: Streams,
    /// A permit for each Read that is being answered.
    pub(super) reads: Arc<Semaphore>,
    /// A permit for each pipeline that is being verified.
    pub(super) configs: Semaphore,
    pub(super) digests: Mutex<Digests>,
    /// The committed pipeline, for those who must not wait for `control`.
    pub(super) pipeline: ArcSwapOption<Pipeline>,
    /// The pipeline that Read and Write refer to.
    pub(super) facing: ArcSwapOption<Pipeline>,
    pub(super) has_primary: AtomicBool,
    pub(super) plane: OnceLock<Weak<DataPlane>>,
}

impl Server {
    pub(super) fn new(config: ServerConfig, switch: Arc<Switch>, clock: Clock) -> Self {
        // Those that have not taken part in arbitration yet count too.
        let streams = config.max_streams.saturating_mul(4);
        let arbitration = Arbitration::new(config.device_id, config.mode, config.max_streams);
        Self {
            config,
            switch,
            clock,
            control: RwLock::default(),
            arbitration: Mutex::new(arbitration),
            streams: Streams::new(streams),
            reads: Arc::new(Semaphore::new(MAX_READS)),
            configs: Semaphore::new(MAX_CONFIGS),
            digests: Mutex::default(),
            pipeline: ArcSwapOption::empty(),
            facing: ArcSwapOption::empty(),
            has_primary: AtomicBool::new(false),
            plane: OnceLock::new(),
        }
    }

    pub(super) fn check_device(&self, device: u64) -> Outcome<()> {
        if device == self.config.device_id {
            Ok(())
        } else {
            Err(Fault::not_found(format!(
                "this switch is device {}, not {device}",
                self.config.device_id
            )))
        }
    }

    /// Handles an arbitration message; an error ends the stream. Writes that
    /// have begun end before the new primary hears of it.
    pub(super) fn arbitrate(
        &self,
        stream: StreamId,
        message: &p4::MasterArbitrationUpdate,
    ) -> Outcome<()> {
        let _control = self.control.write();
        let mut arbitration = self.arbitration.lock();
        let notices = arbitration.update(stream, message)?;
        let has_primary = !arbitration.primaries().is_empty();
        self.has_primary.store(has_primary, Ordering::Release);
        self.streams.notify(notices);
        Ok(())
    }

    pub(super) fn disconnect(&self, stream: StreamId) {
        let mut arbitration = self.arbitration.lock();
        let notices = arbitration.disconnect(stream);
        let has_primary = !arbitration.primaries().is_empty();
        self.has_primary.store(has_primary, Ordering::Release);
        self.streams.notify(notices);
    }

    fn authorize(&self, role: &str, role_id: u64, id: Option<&p4::Uint128>) -> Outcome<()> {
        let role = role_name(role, role_id);
        self.arbitration.lock().authorize(&role, election_id(id))
    }

    pub(super) fn write(
        &self,
        mut control: RwLockWriteGuard<'_, Control>,
        request: p4::WriteRequest,
    ) -> Result<(), Status> {
        self.check_device(request.device_id)?;
        self.authorize(&request.role, request.role_id, request.election_id.as_ref())?;
        let target = control.facing_mut().ok_or_else(no_pipeline)?;
        let now = self.clock.now();
        let outcomes = match Atomicity::try_from(request.atomicity) {
            Ok(Atomicity::ContinueOnError) => write::execute(target, now, request.updates),
            Ok(Atomicity::RollbackOnError) => {
                write::execute_or_take_back(target, now, request.updates)
            }
            Ok(Atomicity::DataplaneAtomic) => {
                if request.updates.len() > MAX_ATOMIC {
                    return Err(Status::unimplemented(format!(
                        "DATAPLANE_ATOMIC takes at most {MAX_ATOMIC} updates, \
                         since packets wait meanwhile"
                    )));
                }
                if write::is_plain(&target.pipeline.binding, &request.updates) {
                    write::execute_atomic(target, now, request.updates)
                } else {
                    let plane = self.plane.get().and_then(Weak::upgrade);
                    let _paused = plane.as_ref().map(|plane| plane.pause());
                    write::execute_or_take_back(target, now, request.updates)
                }
            }
            Err(_) => return Err(Status::invalid_argument("the atomicity is unknown")),
        };
        super::account::status_of("updates", &outcomes).map_or(Ok(()), Err)
    }

    pub(super) fn set_pipeline(
        &self,
        request: p4::SetForwardingPipelineConfigRequest,
    ) -> Result<(), Status> {
        self.check_device(request.device_id)?;
        let authorize =
            || self.authorize(&request.role, request.role_id, request.election_id.as_ref());
        authorize()?;
        let action = request.action();
        if action == Action::Unspecified {
            return Err(Status::invalid_argument("the action is missing or unknown"));
        }
        if action == Action::Commit {
            if request.config.is_some() {
                return Err(Status::invalid_argument("COMMIT takes no config"));
            }
            let mut control = self.control.write();
            authorize()?;
            return Ok(self.commit_saved(&mut control)?);
        }
        // Loading takes a while: not under the lock.
        let (pipeline, program) = verify(self.config.mode, request.config)?;
        if action == Action::Verify {
            return Ok(());
        }
        let mut control = self.control.write();
        authorize_again(
            &self.arbitration,
            &request.role,
            request.role_id,
            request.election_id,
        )?;
        match action {
            Action::VerifyAndSave => self.save(&mut control, pipeline, program),
            Action::ReconcileAndCommit => self.reconcile(&mut control, pipeline, program)?,
            _ => self.commit(&mut control, pipeline, program),
        }
        Ok(())
    }

    /// Installs a program from the command line.
    pub(super) fn preload(&self, config: p4::ForwardingPipelineConfig) -> Outcome<()> {
        let (pipeline, program) = verify(self.config.mode, Some(config))?;
        self.commit(&mut self.control.write(), pipeline, program);
        Ok(())
    }

    /// Carries out updates from the command line.
    pub(super) fn preload_updates(&self, updates: Vec<p4::Update>) -> Outcome<Vec<Outcome<()>>> {
        let mut control = self.control.write();
        let target = control.facing_mut().ok_or_else(no_pipeline)?;
        Ok(write::execute(target, self.clock.now(), updates))
    }

    /// Takes what is in the switch, and was not written by P4Runtime, into the
    /// server's own records.
    pub(super) fn adopt(&self) -> Outcome<()> {
        let mut control = self.control.write();
        let target = control.facing_mut().ok_or_else(no_pipeline)?;
        let pipeline = Arc::clone(&target.pipeline);
        let switch = Arc::clone(&target.switch);
        let profiles = Arc::make_mut(&mut target.profiles);
        for profile in pipeline.binding.profiles.values() {
            profiles.adopt(&switch, profile)?;
        }
        let marks = Arc::make_mut(&mut target.default_marks);
        for table in pipeline.binding.tables.values() {
            if !switch.default_entry(table.core)?.is_initial {
                marks.entry(table.id).or_default();
            }
        }
        Arc::make_mut(&mut target.replication).adopt(&switch);
        Ok(())
    }

    fn commit(&self, control: &mut Control, pipeline: Pipeline, program: Program) {
        self.switch.install(program);
        let mode = self.config.mode;
        let target = Target::new(mode, Arc::clone(&self.switch), Arc::new(pipeline));
        self.clear_replication();
        self.committed(control, target);
    }

    /// Removes all groups and sessions, as the specification asks of a new
    /// pipeline. In compatible mode they go on until they are inserted again:
    /// bmv2's server forgets them, its replication engine does not.
    fn clear_replication(&self) {
        if self.config.mode == Mode::Strict {
            Replication::default().clear(&self.switch);
        }
    }

    /// Makes a target whose pipeline already runs the committed one.
    fn committed(&self, control: &mut Control, target: Target) {
        let pipeline = Arc::clone(&target.pipeline);
        control.committed = Some(target);
        control.saved = None;
        self.digests.lock().clear();
        self.pipeline.store(Some(Arc::clone(&pipeline)));
        self.facing.store(Some(pipeline));
        tracing::info!("pipeline committed");
    }

    fn save(&self, control: &mut Control, pipeline: Pipeline, program: Program) {
        let shadow = Switch::new(self.switch.config().clone());
        shadow.install(program);
        let target = Target::new(self.config.mode, shadow, Arc::new(pipeline));
        self.facing.store(Some(Arc::clone(&target.pipeline)));
        control.saved = Some(target);
    }

    /// COMMIT: the saved pipeline runs, with what was written to it since.
    fn commit_saved(&self, control: &mut Control) -> Outcome<()> {
        let mut target = control
            .saved
            .take()
            .ok_or_else(|| Fault::not_found("no config was saved with VERIFY_AND_SAVE"))?;
        self.switch.adopt(&target.switch);
        target.switch = Arc::clone(&self.switch);
        self.clear_replication();
        Arc::make_mut(&mut target.replication).move_to(&self.switch)?;
        self.committed(control, target);
        Ok(())
    }

    /// RECONCILE_AND_COMMIT: the same program keeps everything in place;
    /// another one takes over what the old one has.
    fn reconcile(
        &self,
        control: &mut Control,
        pipeline: Pipeline,
        program: Program,
    ) -> Outcome<()> {
        let Some(old) = control.committed.as_mut() else {
            self.commit(control, pipeline, program);
            return Ok(());
        };
        let same = old.pipeline.device_config == pipeline.device_config
            && old.pipeline.p4info == pipeline.p4info;
        if same {
            let pipeline = Arc::new(pipeline);
            old.pipeline = Arc::clone(&pipeline);
            control.saved = None;
            self.pipeline.store(Some(Arc::clone(&pipeline)));
            self.facing.store(Some(pipeline));
            return Ok(());
        }
        let now = self.clock.now();
        let mut target = reconcile::prepare(old, pipeline, program, now)?;
        let plane = self.plane.get().and_then(Weak::upgrade);
        let paused = plane.as_ref().map(|plane| plane.pause());
        reconcile::copy_counters(old, &mut target, now)?;
        self.switch.adopt(&target.switch);
        drop(paused);
        target.mode = self.config.mode;
        target.switch = Arc::clone(&self.switch);
        target.replication = Arc::clone(&old.replication);
        self.committed(control, target);
        Ok(())
    }

    pub(super) fn get_pipeline(
        &self,
        request: &p4::GetForwardingPipelineConfigRequest,
    ) -> Outcome<p4::GetForwardingPipelineConfigResponse> {
        use p4::get_forwarding_pipeline_config_request::ResponseType;
        self.check_device(request.device_id)?;
        let pipeline = self.facing.load();
        let pipeline = pipeline.as_ref();
        if pipeline.is_none() && self.config.mode == Mode::Compat {
            return Err(no_pipeline());
        }
        let kind = ResponseType::try_from(request.response_type)
            .map_err(|_| Fault::invalid("the response_type is unknown"))?;
        let Some(pipeline) = pipeline else {
            return Ok(p4::GetForwardingPipelineConfigResponse { config: None });
        };
        let with_p4info = matches!(kind, ResponseType::All | ResponseType::P4infoAndCookie);
        let with_program = matches!(
            kind,
            ResponseType::All | ResponseType::DeviceConfigAndCookie
        );
        let cookie = pipeline.cookie;
        Ok(p4::GetForwardingPipelineConfigResponse {
            config: Some(p4::ForwardingPipelineConfig {
                p4info: with_p4info.then(|| pipeline.p4info.clone()),
                p4_device_config: if with_program {
                    pipeline.device_config.clone()
                } else {
                    Vec::new()
                },
                cookie: cookie.map(|cookie| p4::forwarding_pipeline_config::Cookie { cookie }),
            }),
        })
    }

    /// Handles a packet from a controller.
    pub(super) fn packet_out(&self, stream: StreamId, packet: &p4::PacketOut) -> Outcome<()> {
        if !self.arbitration.lock().is_primary(stream) {
            return Err(Fault::denied("only the primary may send packets"));
        }
        let cpu_port = self.switch.config().cpu_port.ok_or_else(|| {
            Fault::new(
                Code::FailedPrecondition,
                "the switch has no CPU port; start it with --cpu-port",
            )
        })?;
        let pipeline = self.pipeline.load();
        let pipeline = pipeline.as_ref().ok_or_else(no_pipeline)?;
        let bytes = match &pipeline.binding.packet_out {
            Some(header) => header.build(self.config.mode, &packet.metadata, &packet.payload)?,
            None if packet.metadata.is_empty() => packet.payload.clone(),
            None => {
                return Err(Fault::invalid(
                    "P4Info describes no packet_out header, so there can be no metadata",
                ));
            }
        };
        if bytes.len() > MAX_PACKET_OUT {
            return Err(Fault::invalid(format!(
                "the packet has {} bytes, the longest may have {MAX_PACKET_OUT}",
                bytes.len()
            )));
        }
        let plane = self.plane.get().and_then(Weak::upgrade);
        let plane = plane
            .ok_or_else(|| Fault::new(Code::Unavailable, "the switch is starting or stopping"))?;
        if plane.inject(cpu_port, bytes) {
            Ok(())
        } else {
            Err(Fault::new(
                Code::ResourceExhausted,
                "too many packets wait to be sent",
            ))
        }
    }

    /// Sends a packet of the data plane to the primaries.
    pub(super) fn packet_in(&self, packet: &[u8]) {
        let pipeline = self.pipeline.load();
        let header = pipeline
            .as_ref()
            .and_then(|pipeline| pipeline.binding.packet_in.as_ref());
        let (metadata, payload) = match header.map(|header| header.split(packet)) {
            Some(Some(parts)) => parts,
            Some(None) => {
                tracing::warn!(
                    length = packet.len(),
                    "a packet for the controller is shorter than its packet_in header"
                );
                return self.streams.lose();
            }
            None => (Vec::new(), packet),
        };
        let message = p4::PacketIn {
            payload: payload.to_vec(),
            metadata,
        };
        self.to_primaries(p4::stream_message_response::Update::Packet(message));
    }

    /// Sends a message to the primary of every role.
    pub(super) fn to_primaries(&self, update: p4::stream_message_response::Update) {
        let primaries = self.arbitration.lock().primaries();
        for stream in primaries {
            self.streams.send(stream, update.clone());
        }
    }

    /// Takes the acknowledgement of a digest list.
    pub(super) fn digest_ack(&self, stream: StreamId, ack: &p4::DigestListAck) -> Outcome<()> {
        if !self.arbitration.lock().is_primary(stream) {
            return Err(Fault::denied("only the primary acknowledges digests"));
        }
        let pipeline = self.pipeline.load();
        let binding = &pipeline.as_ref().ok_or_else(no_pipeline)?.binding;
        if !binding.digests.contains_key(&ack.digest_id) {
            return Err(binding.unknown("digest", ack.digest_id));
        }
        self.digests.lock().acknowledge(ack.digest_id, ack.list_id);
        Ok(())
    }
}

fn authorize_again(
    arbitration: &Mutex<Arbitration>,
    role: &str,
    role_id: u64,
    id: Option<p4::Uint128>,
) -> Outcome<()> {
    let role = role_name(role, role_id);
    let id = election_id(id.as_ref());
    arbitration.lock().authorize(&role, id)
}

pub(super) fn no_pipeline() -> Fault {
    Fault::new(
        Code::FailedPrecondition,
        "no forwarding pipeline config has been set for this device",
    )
}
