//! Talking to offload-ctl, and failing in one sentence.

use std::fmt;
use std::path::{Path, PathBuf};

use offload_api::address::{self, ApiAddress};
use offload_api::v1::admin_client::AdminClient;
use tonic::transport::Channel;
use tonic::{Code, Status};

/// Largest answer accepted, bytes.
const MESSAGE_MAX: usize = 64 * 1024 * 1024;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The request was understood and refused.
    Refused(String),
    /// A file cannot be read.
    File(PathBuf, std::io::Error),
    /// Nobody answers.
    Unreachable(ApiAddress, String),
    /// offload-ctl cannot do it now.
    Unavailable(String),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused(_) => 1,
            Failure::File(..) => 2,
            Failure::Unreachable(..) | Failure::Unavailable(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why) | Failure::Unavailable(why) => f.write_str(why),
            Failure::File(path, error) => write!(f, "cannot read {}: {error}", path.display()),
            Failure::Unreachable(address, why) => write!(
                f,
                "offload-ctl does not answer at {address} ({why}); start it, or name its address with --api or SLUICE_API"
            ),
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        match status.code() {
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled => {
                Failure::Unavailable(status.message().to_owned())
            }
            Code::Unimplemented => Failure::Refused(
                "offload-ctl does not know this call: it is of another version than this sluice"
                    .to_owned(),
            ),
            _ => Failure::Refused(status.message().to_owned()),
        }
    }
}

/// Connects to offload-ctl.
pub(crate) async fn connect(api: &ApiAddress) -> Result<AdminClient<Channel>, Failure> {
    let channel = address::connect(api)
        .await
        .map_err(|error| Failure::Unreachable(api.clone(), root_cause(&error)))?;
    Ok(AdminClient::new(channel)
        .max_decoding_message_size(MESSAGE_MAX)
        .max_encoding_message_size(MESSAGE_MAX))
}

fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cause.to_string()
}

/// Reads a file, or standard input for `-`.
pub(crate) fn read(path: &Path) -> Result<String, Failure> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    text.map_err(|error| Failure::File(path.to_owned(), error))
}
