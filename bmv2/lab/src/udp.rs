//! A request/response service over UDP and its client, as subcommands of the
//! lab's program, so that they run inside namespaces.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tokio::net::UdpSocket;

/// The service's ports, as gateway.toml has them.
pub const PORTS: std::ops::RangeInclusive<u16> = 7000..=7007;

/// How long the client waits for an answer before it asks again.
const WAIT: Duration = Duration::from_millis(1500);
/// How often it asks.
const TRIES: u32 = 4;

/// What the client saw.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answers {
    /// Different requests made.
    pub asked: u64,
    /// Requests answered with the right text.
    pub answered: u64,
    /// Requests that had to be sent again.
    pub resent: u64,
    /// Answers that were not to the request, or came twice.
    pub wrong: u64,
    /// Answers by server.
    pub by_server: BTreeMap<String, u64>,
}

/// Answers each datagram with the server's name, a blank and the datagram.
///
/// # Errors
/// If a port can't be bound.
pub async fn serve(name: String) -> Result<()> {
    for port in PORTS {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))
            .await
            .with_context(|| format!("can't bind UDP port {port}"))?;
        let name = name.clone();
        tokio::spawn(async move {
            let mut buffer = [0u8; 2048];
            // An error on one datagram (an ICMP that came back) is not the end.
            loop {
                if let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                    let mut answer = name.clone().into_bytes();
                    answer.push(b' ');
                    answer.extend(buffer.iter().take(length));
                    let _ = socket.send_to(&answer, from).await;
                }
            }
        });
    }
    std::future::pending().await
}

/// Asks `requests` questions on each of `sockets` sockets, all at once, and
/// returns what came back.
///
/// # Errors
/// If a socket can't be opened.
pub async fn ask(vip: Ipv4Addr, sockets: u16, requests: u32) -> Result<Answers> {
    let mut tasks = Vec::new();
    for (socket, port) in (0..sockets).zip(PORTS.cycle()) {
        let to = SocketAddr::V4(SocketAddrV4::new(vip, port));
        tasks.push(tokio::spawn(one_socket(to, socket, requests)));
    }
    let mut sum = Answers::default();
    for task in tasks {
        let part = task.await??;
        sum.asked += part.asked;
        sum.answered += part.answered;
        sum.resent += part.resent;
        sum.wrong += part.wrong;
        for (server, count) in part.by_server {
            *sum.by_server.entry(server).or_default() += count;
        }
    }
    Ok(sum)
}

async fn one_socket(to: SocketAddr, number: u16, requests: u32) -> Result<Answers> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).await?;
    socket.connect(to).await?;
    let mut sum = Answers::default();
    let mut buffer = [0u8; 2048];
    for request in 0..requests {
        // Lengths from tiny to nearly full frames.
        let filler = "x".repeat((request as usize * 131) % 1300);
        let text = format!("request {number}.{request} {filler}");
        sum.asked += 1;
        'tries: for attempt in 0..TRIES {
            if attempt > 0 {
                sum.resent += 1;
            }
            if socket.send(text.as_bytes()).await.is_err() {
                continue;
            }
            let limit = tokio::time::Instant::now() + WAIT;
            while let Ok(Ok(length)) =
                tokio::time::timeout_at(limit, socket.recv(&mut buffer)).await
            {
                let answer = String::from_utf8_lossy(buffer.get(..length).unwrap_or_default());
                match answer.split_once(' ') {
                    Some((server, rest)) if rest == text => {
                        sum.answered += 1;
                        *sum.by_server.entry(server.to_owned()).or_default() += 1;
                        break 'tries;
                    }
                    _ => sum.wrong += 1,
                }
            }
        }
    }
    Ok(sum)
}
