//! Port numbers of controllers (specification, "Translation of Port
//! Numbers"): those of the switch, and a name for the CPU port.

use p4runtime_proto::bytestring;

use super::fault::{Fault, Outcome};
use crate::SwitchConfig;

/// The port that stands for the controller (`SDN_PORT_CPU`).
const SDN_PORT_CPU: u64 = 0xffff_fffd;

/// The switch's number of a port.
///
/// # Errors
/// `INVALID_ARGUMENT` if the switch cannot have such a port.
pub(super) fn from_number(place: &str, config: &SwitchConfig, port: u64) -> Outcome<u16> {
    match (port, config.cpu_port) {
        (SDN_PORT_CPU, Some(cpu)) => Ok(cpu),
        _ => u16::try_from(port)
            .ok()
            .filter(|port| *port < 512)
            .ok_or_else(|| Fault::invalid(format!("{place}: there is no port {port}"))),
    }
}

/// The same for a port in bytes.
///
/// # Errors
/// As [`from_number`]; and if the bytes are no number of 32 bits.
pub(super) fn from_bytes(place: &str, config: &SwitchConfig, port: &[u8]) -> Outcome<u16> {
    let port = bytestring::to_u64(port, 32)
        .map_err(|error| Fault::value(format!("{place}: port"), &error))?;
    from_number(place, config, port)
}

/// A port of the switch for controllers.
pub(super) fn to_bytes(port: u16) -> Vec<u8> {
    bytestring::canonical(&port.to_be_bytes())
}

/// The port that the liveness of a member depends on; none if it is left out.
///
/// # Errors
/// As [`from_bytes`]; also for the drop port, which no packet leaves.
pub(super) fn watched(
    place: &str,
    config: &SwitchConfig,
    watch: Watch<'_>,
) -> Outcome<Option<u16>> {
    let port = match watch {
        // SDN_PORT_UNKNOWN in the deprecated field.
        Watch::None | Watch::Number(0) | Watch::Bytes(&[]) => return Ok(None),
        Watch::Number(number) => {
            let number = u64::try_from(number).map_err(|_| {
                Fault::invalid(format!("{place}: the watched port {number} is negative"))
            })?;
            from_number(place, config, number)?
        }
        Watch::Bytes(bytes) => from_bytes(place, config, bytes)?,
    };
    if port == config.drop_port {
        return Err(Fault::invalid(format!(
            "{place}: port {port} means \"drop\", so it cannot be watched"
        )));
    }
    Ok(Some(port))
}

/// How a member names the port that it watches.
#[derive(Debug, Clone, Copy)]
pub(super) enum Watch<'m> {
    None,
    /// The deprecated field `watch`.
    Number(i32),
    /// `watch_port`.
    Bytes(&'m [u8]),
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    #[test]
    fn a_watched_port_is_left_out_or_exists() {
        let config = SwitchConfig {
            cpu_port: Some(510),
            drop_port: 511,
            ..SwitchConfig::default()
        };
        let port = |watch| watched("m", &config, watch).map_err(|fault| fault.code);
        for none in [Watch::None, Watch::Number(0), Watch::Bytes(b"")] {
            assert_eq!(port(none), Ok(None));
        }
        assert_eq!(port(Watch::Number(7)), Ok(Some(7)));
        assert_eq!(port(Watch::Bytes(&[0])), Ok(Some(0)));
        assert_eq!(port(Watch::Bytes(&[0, 1, 0xfe])), Ok(Some(510)));
        // SDN_PORT_CPU.
        assert_eq!(port(Watch::Bytes(&[0xff, 0xff, 0xff, 0xfd])), Ok(Some(510)));
        for bad in [
            Watch::Number(-1),
            Watch::Number(512),
            Watch::Bytes(&[2, 0]),
            Watch::Bytes(&[1, 0xff]),
        ] {
            assert_eq!(port(bad), Err(Code::InvalidArgument), "{bad:?}");
        }
        let too_wide = Watch::Bytes(&[1, 0, 0, 0, 0]);
        assert_eq!(port(too_wide), Err(Code::OutOfRange));
    }
}
