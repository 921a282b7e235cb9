//! Errors, as the user reads them.

/// An error and its causes in one line. Some errors have their cause in their
/// own text, which is not said twice then.
pub(super) fn sentence(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::sentence;

    #[derive(Debug, thiserror::Error)]
    #[error("it cannot be read: {0}")]
    struct Unreadable(#[from] io::Error);

    #[test]
    fn every_cause_is_said_once() {
        let cause = || io::Error::other("the disk is gone");
        let error = anyhow::Error::new(Unreadable(cause())).context("cannot use x.pcap");
        let wanted = "cannot use x.pcap: it cannot be read: the disk is gone";
        assert_eq!(sentence(&error), wanted);
        let error = anyhow::Error::new(cause()).context("cannot use x.pcap");
        assert_eq!(sentence(&error), "cannot use x.pcap: the disk is gone");
    }
}
