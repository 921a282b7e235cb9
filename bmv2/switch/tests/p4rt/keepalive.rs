//! A client that vanishes: its connection says nothing any more, and nobody
//! closes it.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use p4runtime_proto::p4::v1::p4_runtime_client::P4RuntimeClient;
use softswitch::p4rt::ServerConfig;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tonic::Code;

use crate::support::*;

/// Passes bytes between one client and a server until told to stop; then both
/// connections stay open and silent. Returns its address and a moment before the
/// server heard the client last.
async fn relay(server: String, mut frozen: watch::Receiver<bool>) -> (String, Arc<Mutex<Instant>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let heard = Arc::new(Mutex::new(Instant::now()));
    let last = heard.clone();
    tokio::spawn(async move {
        let (mut client, _) = listener.accept().await.unwrap();
        let mut server = TcpStream::connect(server).await.unwrap();
        let (mut up, mut down) = ([0; 4096], [0; 4096]);
        loop {
            tokio::select! {
                n = client.read(&mut up) => {
                    *last.lock().unwrap() = Instant::now();
                    server.write_all(&up[..n.unwrap()]).await.unwrap();
                }
                n = server.read(&mut down) => client.write_all(&down[..n.unwrap()]).await.unwrap(),
                _ = frozen.changed() => break,
            }
        }
        std::future::pending::<()>().await;
    });
    (address, heard)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_primary_that_vanishes_is_primary_no_more() {
    let keepalive = Duration::from_millis(500);
    let bed = Bed::start_as(ServerConfig {
        keepalive,
        device_id: DEVICE,
        ..ServerConfig::default()
    })
    .await;
    let (freeze, frozen) = watch::channel(false);
    let (address, heard) = relay(bed.address.clone(), frozen).await;
    let client = P4RuntimeClient::connect(format!("http://{address}"))
        .await
        .unwrap();
    let mut primary = Controller::open(client, 9).await;
    assert_eq!(primary.arbitration().await, (Code::Ok, Some(9)));
    let mut backup = Controller::open(bed.client().await, 5).await;
    let told = backup.arbitration().await;
    assert_eq!(told, (Code::AlreadyExists, Some(9)));
    // A client that is only silent answers the pings.
    assert!(backup.is_silent(keepalive * 4).await);
    assert!(primary.is_silent(Duration::from_millis(1)).await);

    freeze.send(true).unwrap();
    let since = Instant::now();
    // The server asks one time after it heard the client last, and waits for
    // another: a ping may have been under way already, so that counting begins
    // with what the relay passed, not with the silence. In strict mode
    // nobody follows by itself (specification, "Client Arbitration"), but all are
    // told that there is no primary.
    assert_eq!(backup.arbitration().await, (Code::NotFound, Some(9)));
    let took = since.elapsed();
    assert!(took < keepalive * 6, "{took:?}");
    let silent = heard.lock().unwrap().elapsed();
    assert!(silent >= keepalive * 2, "{silent:?}");
    let write = backup.write(vec![p4runtime_proto::entry::insert(l2(1, 2))]);
    let refused = write.await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
}

/// Whoever connects and does not speak HTTP/2, or only begins to, is
/// disconnected.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_says_nothing_is_disconnected() {
    let keepalive = Duration::from_millis(300);
    let bed = Bed::start_as(ServerConfig {
        keepalive,
        device_id: DEVICE,
        ..ServerConfig::default()
    })
    .await;
    // Of "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" (RFC 9113, 3.4).
    let beginnings: [&[u8]; 3] = [b"", b"PRI *", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"];
    for beginning in beginnings {
        let start = Instant::now();
        let mut connection = TcpStream::connect(&bed.address).await.unwrap();
        connection.write_all(beginning).await.unwrap();
        let closed = async {
            let mut buffer = [0; 256];
            // The server may say something before it closes.
            while connection.read(&mut buffer).await.is_ok_and(|n| n > 0) {}
        };
        tokio::time::timeout(Duration::from_secs(20), closed)
            .await
            .unwrap();
        assert!(start.elapsed() >= keepalive, "{beginning:?}");
    }
}
