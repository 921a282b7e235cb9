//! The connection to the switch: made, watched, made again for ever.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::core::Event;
use crate::dataplane::{ConnectError, Connector, Dataplane, Lost, Notice, Reading};
use crate::entry::Table;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// Short: until the switch is programmed again, nothing passes.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// After an error that will not go away by itself.
const FATAL_PAUSE: Duration = Duration::from_secs(5);

/// A switch that is connected, with all that its tables hold.
pub struct Up {
    /// For writes and reads.
    pub dataplane: Arc<dyn Dataplane>,
    /// Counts connections.
    pub epoch: u64,
    /// The pipeline had to be set, so that the tables were empty.
    pub pushed: bool,
    /// All entries.
    pub readings: Vec<Reading>,
    /// Ends the connection, with a reason.
    pub hang_up: oneshot::Sender<String>,
}

/// Keeps a connection to the switch for as long as someone listens.
pub async fn run(connector: Arc<dyn Connector>, events: mpsc::Sender<Event>) {
    let mut pause = FIRST_PAUSE;
    let mut epoch = 0;
    let mut told = String::new();
    loop {
        epoch += 1;
        let why = match once(&*connector, &events, epoch).await {
            Ended::Lost(why) => {
                pause = FIRST_PAUSE;
                told.clear();
                why
            }
            Ended::NotConnected(ConnectError::Retry(why)) => {
                pause = (pause * 2).min(LONGEST_PAUSE);
                why
            }
            Ended::NotConnected(ConnectError::Fatal(why)) => {
                pause = FATAL_PAUSE;
                why
            }
            Ended::NobodyListens => return,
        };
        if why != told {
            tracing::warn!(switch = %connector.target(), "{why}; trying again");
            told.clone_from(&why);
        }
        if events.send(Event::SwitchDown { epoch, why }).await.is_err() {
            return;
        }
        tokio::time::sleep(pause).await;
    }
}

enum Ended {
    NotConnected(ConnectError),
    Lost(String),
    NobodyListens,
}

async fn once(connector: &dyn Connector, events: &mpsc::Sender<Event>, epoch: u64) -> Ended {
    let mut connection = match connector.connect().await {
        Ok(connection) => connection,
        Err(error) => return Ended::NotConnected(error),
    };
    let readings = match read_all(&*connection.dataplane).await {
        Ok(readings) => readings,
        Err(Lost(why)) => return Ended::NotConnected(ConnectError::Retry(why)),
    };
    tracing::info!(
        switch = %connector.target(),
        entries = readings.len(),
        pushed = connection.pushed,
        "connected to the switch"
    );
    let (hang_up, mut hung_up) = oneshot::channel();
    let up = Up {
        dataplane: connection.dataplane.clone(),
        epoch,
        pushed: connection.pushed,
        readings,
        hang_up,
    };
    if events.send(Event::SwitchUp(up)).await.is_err() {
        return Ended::NobodyListens;
    }
    loop {
        tokio::select! {
            notice = connection.notices.recv() => match notice {
                None => return Ended::Lost("the stream has ended".to_owned()),
                Some(Notice::Lost(why)) => return Ended::Lost(why),
                Some(notice) => {
                    if events.send(Event::Notice { epoch, notice }).await.is_err() {
                        return Ended::NobodyListens;
                    }
                }
            },
            why = &mut hung_up => {
                return Ended::Lost(why.unwrap_or_else(|_| "given up".to_owned()));
            }
        }
    }
}

/// Everything that the tables hold.
///
/// # Errors
/// [`Lost`] if a table could not be read.
pub async fn read_all(dataplane: &dyn Dataplane) -> Result<Vec<Reading>, Lost> {
    let mut readings = Vec::new();
    for table in Table::ALL {
        readings.extend(dataplane.read_table(table).await?);
    }
    Ok(readings)
}
