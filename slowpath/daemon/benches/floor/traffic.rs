//! Sessions, the packets of them, and a port that loops to itself.

use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use dpdk::{Burst, Mbuf, Mempool, RxQueue, TxQueue};
use offload_api::v1;
use packet::{checksum, vxlan::ENCAP_LEN};
use rand::{SeedableRng, rngs::SmallRng, seq::SliceRandom};
use slowpath::io::{BURST, PacketIo};

const SWITCH_VTEP: [u8; 4] = [10, 3, 0, 1];
pub(crate) const LD_VTEP: [u8; 4] = [10, 3, 0, 2];
const VIP: u32 = 0x0a64_000a;
const SLOT: u16 = 3;
const SERVERS: u32 = 16;
/// Sessions of one local address: it has 64,512 ports.
const PER_LOCAL: u32 = 50_000;
/// Frames put through at once while sessions are opened.
const CHUNK: usize = 4096;

// Offsets in a frame: outer IPv4 and UDP, VXLAN, inner IPv4 and TCP.
const OUTER_ADDRESSES: usize = 14 + 12;
const OUTER_PORT: usize = 14 + 20;
const VXLAN: usize = OUTER_PORT + 8;
const INNER: usize = ENCAP_LEN + 14;
const TCP: usize = INNER + 20;
/// A segment of six bytes, as a small request has them.
const PAYLOAD: usize = 6;
const FRAME: usize = TCP + 20 + PAYLOAD;

const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// What differs between packets.
#[derive(Clone, Copy, Debug, Default)]
struct Headers {
    src: u32,
    dst: u32,
    src_port: u16,
    dst_port: u16,
    ip_checksum: u16,
    tcp_checksum: u16,
    outer_port: u16,
}

/// Which packets go round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Requests,
    Replies,
    Half,
}

impl Direction {
    pub(crate) const ALL: [Self; 3] = [Self::Requests, Self::Replies, Self::Half];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Requests => "requests",
            Self::Replies => "replies",
            Self::Half => "half",
        }
    }
}

pub(crate) fn snapshot(sessions: u32) -> v1::Snapshot {
    let server = |i: u32| v1::Server {
        server_id: i + 1,
        name: format!("s{i}"),
        address: 0x0a02_0002 + (i << 8),
        port: 8080,
        weight: 1,
        state: v1::ServerState::Up.into(),
        mtu: 1500,
    };
    v1::Snapshot {
        version: 1,
        vips: vec![v1::Vip {
            vip_id: 1,
            name: "web".to_owned(),
            vni: 0,
            address: VIP,
            port_low: 80,
            port_high: 80,
            protocol: 6,
            scheduler: v1::Scheduler::Rr.into(),
            timeouts: None,
            offload: Some(v1::OffloadPolicy {
                enabled: false,
                min_packets: 0,
            }),
            servers: (0..SERVERS).map(server).collect(),
            generation: 1,
            max_sessions: 0,
        }],
        locals: (0..sessions.div_ceil(PER_LOCAL))
            .map(|i| v1::Local {
                local_id: i + 1,
                address: 0x0a09_0001 + i,
                slot: SLOT.into(),
                vni: 0,
                draining: false,
            })
            .collect(),
        client_mtu: 1500,
        switch_vtep: u32::from_be_bytes(SWITCH_VTEP),
        slots: vec![SLOT.into()],
    }
}

/// A whole frame from the switch.
fn frame(h: &Headers, flags: u8) -> [u8; FRAME] {
    let mut f = [0; FRAME];
    let udp_len = (FRAME - OUTER_PORT) as u16;
    f[0..12].copy_from_slice(&[2, 0, 0, 0, 3, 1, 2, 0, 0, 0, 5, 5]);
    f[12..14].copy_from_slice(&[8, 0]);
    f[14..24].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17]);
    f[16..18].copy_from_slice(&(udp_len + 20).to_be_bytes());
    f[OUTER_ADDRESSES..OUTER_ADDRESSES + 4].copy_from_slice(&SWITCH_VTEP);
    f[OUTER_ADDRESSES + 4..OUTER_PORT].copy_from_slice(&LD_VTEP);
    let sum = checksum::checksum(&f[14..34]);
    f[24..26].copy_from_slice(&sum.to_be_bytes());
    f[OUTER_PORT + 2..OUTER_PORT + 4].copy_from_slice(&4789_u16.to_be_bytes());
    f[OUTER_PORT + 4..OUTER_PORT + 6].copy_from_slice(&udp_len.to_be_bytes());
    f[VXLAN] = 0x88;
    f[VXLAN + 2..VXLAN + 4].copy_from_slice(&SLOT.to_be_bytes());
    let mac = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    f[ENCAP_LEN..INNER].copy_from_slice(&mac);
    f[INNER..INNER + 10].copy_from_slice(&[0x45, 0, 0, 0, 0, 0, 0x40, 0, 63, 6]);
    f[INNER + 2..INNER + 4].copy_from_slice(&((FRAME - INNER) as u16).to_be_bytes());
    f[TCP + 12] = 5 << 4;
    f[TCP + 13] = flags;
    write(&mut f, h);
    f
}

/// Writes what differs into a frame that was sent: outer addresses back, slot,
/// inner addresses, ports and checksums.
#[inline]
fn write(f: &mut [u8], h: &Headers) {
    let Some(f) = f.first_chunk_mut::<FRAME>() else {
        return;
    };
    f[OUTER_ADDRESSES..OUTER_ADDRESSES + 4].copy_from_slice(&SWITCH_VTEP);
    f[OUTER_ADDRESSES + 4..OUTER_PORT].copy_from_slice(&LD_VTEP);
    f[OUTER_PORT..OUTER_PORT + 2].copy_from_slice(&h.outer_port.to_be_bytes());
    f[VXLAN] = 0x88;
    f[VXLAN + 2..VXLAN + 4].copy_from_slice(&SLOT.to_be_bytes());
    f[INNER + 10..INNER + 12].copy_from_slice(&h.ip_checksum.to_be_bytes());
    f[INNER + 12..INNER + 16].copy_from_slice(&h.src.to_be_bytes());
    f[INNER + 16..TCP].copy_from_slice(&h.dst.to_be_bytes());
    f[TCP..TCP + 2].copy_from_slice(&h.src_port.to_be_bytes());
    f[TCP + 2..TCP + 4].copy_from_slice(&h.dst_port.to_be_bytes());
    f[TCP + 16..TCP + 18].copy_from_slice(&h.tcp_checksum.to_be_bytes());
}

/// Headers with the right checksums for a segment with `flags`.
fn headers(src: (u32, u16), dst: (u32, u16), outer_port: u16, flags: u8) -> Headers {
    let mut h = Headers {
        src: src.0,
        dst: dst.0,
        src_port: src.1,
        dst_port: dst.1,
        outer_port,
        ..Headers::default()
    };
    let f = frame(&h, flags);
    h.ip_checksum = checksum::checksum(&f[INNER..TCP]);
    let mut pseudo = Vec::with_capacity(12 + FRAME - TCP);
    pseudo.extend(&f[INNER + 12..TCP]);
    pseudo.extend([0, 6]);
    pseudo.extend(((FRAME - TCP) as u16).to_be_bytes());
    pseudo.extend(&f[TCP..]);
    h.tcp_checksum = checksum::checksum(&pseudo);
    h
}

/// The packets of established sessions, in random order.
pub(crate) struct Traffic {
    requests: Rc<[Headers]>,
    replies: Rc<[Headers]>,
    half: Rc<[Headers]>,
}

impl Traffic {
    /// Opens sessions by their handshakes. `through` puts frames through the
    /// worker and gives what it sent, in order.
    pub(crate) fn establish(
        sessions: u32,
        pool: Mempool,
        mut through: impl FnMut(VecDeque<Mbuf>) -> Vec<Mbuf>,
    ) -> anyhow::Result<Self> {
        let mut requests = Vec::with_capacity(sessions as usize);
        let mut replies = Vec::with_capacity(sessions as usize);
        let client = |i: u32| (0x0b00_0000 + i / 1000, 10_000 + (i % 1000) as u16);
        let all: Vec<u32> = (0..sessions).collect();
        for chunk in all.chunks(CHUNK) {
            let mut pass = |list: &[Headers], flags: u8| -> anyhow::Result<Vec<Mbuf>> {
                let frames = list
                    .iter()
                    .map(|h| pool.alloc_with(&frame(h, flags)))
                    .collect::<dpdk::Result<VecDeque<Mbuf>>>()?;
                let sent = through(frames);
                if sent.len() != list.len() {
                    bail!("{} of {} packets were forwarded", sent.len(), list.len());
                }
                Ok(sent)
            };
            let outer = |i: u32| 0xc000 | (i & 0x3fff) as u16;
            let to_vip = |flags: u8| -> Vec<Headers> {
                chunk
                    .iter()
                    .map(|&i| headers(client(i), (VIP, 80), outer(i), flags))
                    .collect()
            };
            let from_server = |sent: &[Mbuf], flags: u8| -> Vec<Headers> {
                sent.iter()
                    .map(|mbuf| {
                        let f = mbuf.data();
                        let u16_at = |at: usize| u16::from_be_bytes([f[at], f[at + 1]]);
                        let u32_at = |at: usize| {
                            u32::from_be_bytes([f[at], f[at + 1], f[at + 2], f[at + 3]])
                        };
                        let local = (u32_at(INNER + 12), u16_at(TCP));
                        let server = (u32_at(INNER + 16), u16_at(TCP + 2));
                        headers(server, local, 0xc000 | (local.1 & 0x3fff), flags)
                    })
                    .collect()
            };
            let sent = pass(&to_vip(SYN), SYN)?;
            let answers = from_server(&sent, SYN | ACK);
            drop(sent);
            drop(pass(&answers, SYN | ACK)?);
            let sent = pass(&to_vip(ACK), ACK)?;
            requests.extend(to_vip(ACK));
            replies.extend(from_server(&sent, ACK));
        }
        let mut random = SmallRng::seed_from_u64(7);
        requests.shuffle(&mut random);
        replies.shuffle(&mut random);
        let half = requests
            .iter()
            .zip(&replies)
            .step_by(2)
            .flat_map(|(a, b)| [*a, *b])
            .collect();
        Ok(Self {
            requests: requests.into(),
            replies: replies.into(),
            half,
        })
    }
}

/// A port whose packets come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// What is sent is received again.
    Ring,
    /// What is sent is freed, and as many buffers as wanted are received.
    Null,
}

impl Kind {
    pub(crate) const ALL: [Self; 2] = [Self::Ring, Self::Null];

    pub(crate) fn driver(self) -> &'static str {
        match self {
            Self::Ring => "net_ring",
            Self::Null => "net_null",
        }
    }

    /// The device, for the EAL.
    pub(crate) fn device(self) -> String {
        match self {
            Self::Ring => "net_ring0".to_owned(),
            Self::Null => format!("net_null0,size={FRAME}"),
        }
    }
}

/// The port, with the generator behind it.
#[derive(Default)]
pub(crate) struct LoopIo {
    queues: Option<(RxQueue, TxQueue)>,
    /// Received first, while there are any.
    feed: VecDeque<Mbuf>,
    /// What is sent goes here and not to the port.
    capture: Option<Vec<Mbuf>>,
    list: Rc<[Headers]>,
    next: usize,
    burst: Burst<BURST>,
    sent: Rc<Cell<u64>>,
}

impl LoopIo {
    pub(crate) fn new(rx: RxQueue, tx: TxQueue) -> Self {
        Self {
            queues: Some((rx, tx)),
            ..Self::default()
        }
    }

    /// The port, for a worker; this value is without one until
    /// [`LoopIo::give_back`].
    pub(crate) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    pub(crate) fn give_back(&mut self, other: Self) {
        *self = other;
    }

    /// Counts the packets sent.
    pub(crate) fn sent(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.sent)
    }

    pub(crate) fn feed(&mut self, frames: VecDeque<Mbuf>) {
        self.feed = frames;
        self.capture = Some(Vec::new());
    }

    pub(crate) fn is_feeding(&self) -> bool {
        !self.feed.is_empty()
    }

    pub(crate) fn captured(&mut self) -> Vec<Mbuf> {
        self.capture.take().unwrap_or_default()
    }

    /// Has packets of this kind received from now on.
    pub(crate) fn circulate(
        &mut self,
        traffic: &Traffic,
        direction: Direction,
        kind: Kind,
        pool: Mempool,
    ) -> anyhow::Result<()> {
        self.list = Rc::clone(match direction {
            Direction::Requests => &traffic.requests,
            Direction::Replies => &traffic.replies,
            Direction::Half => &traffic.half,
        });
        self.next = 0;
        let blank = frame(&Headers::default(), ACK);
        if kind == Kind::Null {
            // The port makes packets of whatever is in the buffers.
            let mut all = Vec::new();
            while let Ok(mbuf) = pool.alloc_with(&blank) {
                all.push(mbuf);
            }
            return Ok(());
        }
        let mut burst: Burst<BURST> = Burst::new();
        while !burst.is_full() {
            burst.push(pool.alloc_with(&blank)?).ok().context("room")?;
        }
        if self.transmit(&mut burst) != BURST {
            bail!("the ring is full");
        }
        Ok(())
    }

    /// The loop without the worker: with or without the generator.
    pub(crate) fn without_worker(&mut self, generate: bool) {
        let mut burst = std::mem::take(&mut self.burst);
        if let Some((rx, _)) = &mut self.queues {
            rx.rx_burst(&mut burst);
        }
        if generate {
            self.generate(&mut burst, 0);
        }
        self.transmit(&mut burst);
        burst.clear();
        self.burst = burst;
    }

    /// Empties the ring.
    pub(crate) fn drain(&mut self) {
        let mut burst: Burst<BURST> = Burst::new();
        if let Some((rx, _)) = &mut self.queues {
            while rx.rx_burst(&mut burst) > 0 {
                burst.clear();
            }
        }
    }

    /// Writes the next packets' headers into those from `from` on.
    #[inline]
    fn generate(&mut self, burst: &mut Burst<BURST>, from: usize) {
        for mbuf in burst.iter_mut().skip(from) {
            if let Some(h) = self.list.get(self.next) {
                write(mbuf.data_mut(), h);
            }
            self.next += 1;
            if self.next >= self.list.len() {
                self.next = 0;
            }
        }
    }

    #[inline]
    fn transmit(&mut self, burst: &mut Burst<BURST>) -> usize {
        let n = match &mut self.queues {
            Some((_, tx)) => tx.tx_burst(burst),
            None => 0,
        };
        self.sent.set(self.sent.get() + n as u64);
        n
    }
}

impl PacketIo for LoopIo {
    type Burst = Burst<BURST>;

    #[inline]
    fn receive(&mut self, burst: &mut Self::Burst) -> usize {
        if self.capture.is_none() {
            let from = burst.len();
            let n = match &mut self.queues {
                Some((rx, _)) => rx.rx_burst(burst),
                None => 0,
            };
            self.generate(burst, from);
            return n;
        }
        let mut n = 0;
        while !burst.is_full()
            && let Some(mbuf) = self.feed.pop_front()
            && burst.push(mbuf).is_ok()
        {
            n += 1;
        }
        n
    }

    #[inline]
    fn send(&mut self, burst: &mut Self::Burst) -> usize {
        match &mut self.capture {
            None => self.transmit(burst),
            Some(captured) => {
                let n = burst.len();
                captured.extend(burst.drain());
                n
            }
        }
    }

    fn redirect(&mut self, _to: u16, packet: Mbuf) -> Result<(), Mbuf> {
        Err(packet)
    }

    fn wake(&mut self, _woken: u32) {}

    #[inline]
    fn receive_redirected(&mut self, _burst: &mut Self::Burst) -> usize {
        0
    }

    fn wait(&mut self, _limit: Duration, _idle: impl FnOnce() -> bool) {}
}
