//! `drain`, `undrain` and `kill`.

use std::process::ExitCode;

use offload_api::address::ApiAddress;
use offload_api::v1::SetServerStateRequest;
use offload_api::v1::set_server_state_request::Action;

use crate::client::{Failure, connect};

pub(crate) async fn drain(api: &ApiAddress, vip: &str, server: &str) -> Result<ExitCode, Failure> {
    let version = set(api, vip, server, Action::Drain).await?;
    println!(
        "version {version}: server \"{server}\" of vip \"{vip}\" gets no new connections; established ones go on"
    );
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn undrain(
    api: &ApiAddress,
    vip: &str,
    server: &str,
) -> Result<ExitCode, Failure> {
    let version = set(api, vip, server, Action::Up).await?;
    println!("version {version}: server \"{server}\" of vip \"{vip}\" is in service");
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn kill(api: &ApiAddress, vip: &str, server: &str) -> Result<ExitCode, Failure> {
    let version = set(api, vip, server, Action::Kill).await?;
    println!(
        "version {version}: server \"{server}\" of vip \"{vip}\" is out of service and its connections are being ended; `sluice undrain {vip} {server}` puts it back"
    );
    Ok(ExitCode::SUCCESS)
}

async fn set(api: &ApiAddress, vip: &str, server: &str, action: Action) -> Result<u64, Failure> {
    let mut client = connect(api).await?;
    let response = client
        .set_server_state(SetServerStateRequest {
            vip: vip.to_owned(),
            server: server.to_owned(),
            action: action.into(),
        })
        .await?;
    Ok(response.into_inner().version)
}
