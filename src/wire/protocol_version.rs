//! Which protocol version a client asked for.
//!
//! The value is that of the `GIT_PROTOCOL` variable, which over HTTP is the `Git-Protocol` header
//! (gitprotocol-http, git's `protocol.c`). Anything that is not understood is skipped, as git
//! does: the header is a hint, not a demand.

/// The versions in which a push can be spoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProtocolVersion {
    /// The original protocol; also the answer to a wish for version 2, which has no push.
    #[default]
    V0,
    /// The original protocol with a first packet `version 1`.
    V1,
}

impl ProtocolVersion {
    /// Reads a colon-separated list such as `version=1:hint`. Of several versions the highest
    /// that git knows counts, so that one who speaks 1 and 2 is served in version 0.
    pub fn from_git_protocol(value: &[u8]) -> Self {
        let highest = value
            .split(|&byte| byte == b':')
            .filter_map(|item| match item.strip_prefix(b"version=")? {
                b"0" => Some(0),
                b"1" => Some(1),
                b"2" => Some(2),
                _ => None,
            })
            .max();
        if highest == Some(1) { Self::V1 } else { Self::V0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_one_is_spoken_when_it_is_the_highest_known() {
        for value in ["version=1", "version=0:version=1", "a=b:version=1:c", "version=1:version=3"]
        {
            assert_eq!(
                ProtocolVersion::from_git_protocol(value.as_bytes()),
                ProtocolVersion::V1,
                "{value}"
            );
        }
    }

    #[test]
    fn anything_else_is_version_zero() {
        for value in [
            "",
            "version=0",
            "version=2",
            "version=1:version=2",
            "version=3",
            "version=01",
            "version= 1",
            "version=1 ",
            "Version=1",
            "version",
            "1",
            ":",
        ] {
            assert_eq!(
                ProtocolVersion::from_git_protocol(value.as_bytes()),
                ProtocolVersion::V0,
                "{value}"
            );
        }
    }
}
