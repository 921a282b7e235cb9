//! `explain`.

use std::process::ExitCode;

use offload_api::address::ApiAddress;
use offload_api::v1::{ExplainRequest, Tuple};
use serde_json::json;

use crate::client::{Failure, connect};
use crate::output::print_json;
use crate::show::json_flow;

pub(crate) async fn run(api: &ApiAddress, tuple: Tuple, json: bool) -> Result<ExitCode, Failure> {
    let mut client = connect(api).await?;
    let response = client
        .explain(ExplainRequest { tuple: Some(tuple) })
        .await?
        .into_inner();
    if json {
        print_json(&json!({
            "verdict": response.verdict,
            "steps": response.steps,
            "flow": response.flow.as_ref().map(json_flow),
        }));
        return Ok(ExitCode::SUCCESS);
    }
    for (number, step) in (1..).zip(&response.steps) {
        println!("{number:>2}. {step}");
    }
    println!("=> {}", words(&response.verdict));
    Ok(ExitCode::SUCCESS)
}

fn words(verdict: &str) -> String {
    match verdict {
        "fast" => "fast: the switch forwards it by itself".to_owned(),
        "slow" => "slow: a load director forwards it".to_owned(),
        "routed" => "routed: the switch forwards it without rewriting".to_owned(),
        "cpu" => "cpu: offload-ctl answers it".to_owned(),
        other => match other.strip_prefix("drop:") {
            Some(reason) => format!("dropped: {reason}"),
            None => other.to_owned(),
        },
    }
}
