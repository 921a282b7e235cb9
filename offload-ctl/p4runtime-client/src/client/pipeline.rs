//! The program that the switch runs.

use p4runtime_proto::p4::config::v1::P4Info;
use p4runtime_proto::p4::v1::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigRequest, forwarding_pipeline_config::Cookie,
    get_forwarding_pipeline_config_request::ResponseType,
    set_forwarding_pipeline_config_request::Action,
};
use tonic::Code;

use super::{Client, with_deadline, within};
use crate::error::Error;

const SET_PIPELINE: &str = "SetForwardingPipelineConfig";
const GET_PIPELINE: &str = "GetForwardingPipelineConfig";

impl Client {
    /// Sends a program to the switch: `action` says what becomes of it.
    ///
    /// # Errors
    /// [`Error::NotPrimary`], [`Error::Disconnected`], [`Error::Rpc`] or
    /// [`Error::Deadline`].
    pub async fn set_pipeline(
        &self,
        action: Action,
        p4info: P4Info,
        device_config: Vec<u8>,
        cookie: u64,
    ) -> Result<(), Error> {
        let config = ForwardingPipelineConfig {
            p4info: Some(p4info),
            p4_device_config: device_config,
            cookie: Some(Cookie { cookie }),
        };
        self.set_config(action, Some(config)).await
    }

    /// Realises the program that was saved with
    /// [`Action::VerifyAndSave`].
    ///
    /// # Errors
    /// [`Error::NotPrimary`], [`Error::Disconnected`], [`Error::Rpc`] or
    /// [`Error::Deadline`].
    pub async fn commit_pipeline(&self) -> Result<(), Error> {
        self.set_config(Action::Commit, None).await
    }

    async fn set_config(
        &self,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Error> {
        self.require_stream(SET_PIPELINE)?;
        let after = self.shared.options.deadlines.pipeline;
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id(),
            role_id: self.role_id(),
            role: self.role_name(),
            election_id: Some(self.election_id().into()),
            action: action as i32,
            config,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.set_forwarding_pipeline_config(with_deadline(request, after));
        within(SET_PIPELINE, after, call)
            .await?
            .map(|_| ())
            .map_err(|status| self.whole(SET_PIPELINE, &status, after))
    }

    /// The program that the switch runs, `None` when it has none.
    ///
    /// # Errors
    /// [`Error::Rpc`] or [`Error::Deadline`].
    pub async fn get_pipeline(
        &self,
        response_type: ResponseType,
    ) -> Result<Option<ForwardingPipelineConfig>, Error> {
        let after = self.shared.options.deadlines.pipeline;
        let request = GetForwardingPipelineConfigRequest {
            device_id: self.device_id(),
            response_type: response_type as i32,
        };
        let mut rpc = self.rpc.clone();
        let call = rpc.get_forwarding_pipeline_config(with_deadline(request, after));
        match within(GET_PIPELINE, after, call).await? {
            Ok(response) => Ok(response.config),
            // How bmv2 says that there is none; the specification leaves the
            // configuration unset.
            Err(status) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(status) => Err(self.whole(GET_PIPELINE, &status, after)),
        }
    }
}
