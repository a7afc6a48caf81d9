//! Capabilities: what the server offers and what a client chose.
//!
//! A capability is a word, or `key=value`; a list is separated by blanks (gitprotocol-capabilities,
//! the parts that name receive-pack). Reading is lenient, as git's is: words that nobody here
//! knows are skipped, for a client may speak of things that a later version offers. The one thing
//! refused is a hash that the repository does not have.
//!
//! Whether a wish was offered is not decided here; the request parser drops wishes that were not.

use crate::model::HashKind;
use bstr::{BString, ByteSlice};
use std::fmt;

/// What the client asked for behind the NUL of its first command.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of the protocol, on or off")]
pub struct ClientCapabilities {
    /// `report-status`, `report-status-v2`: whether and how the client reads a report.
    pub report_status: ReportStatusVersion,
    /// `side-band-64k`: the response comes in bands.
    pub side_band_64k: bool,
    /// `quiet`: no progress.
    pub quiet: bool,
    /// `atomic`: all refs or none.
    pub atomic: bool,
    /// `push-options`: a list of options follows the commands.
    pub push_options: bool,
    /// `object-format`; a client that does not say speaks SHA-1.
    pub object_format: HashKind,
    /// `session-id`, which joins the logs of both sides. The client's bytes, unchecked.
    pub session_id: Option<BString>,
    /// `agent`, the client's program and version. The client's bytes, unchecked.
    pub agent: Option<BString>,
}

/// Which form of report the client reads; of two that it names the newer one is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReportStatusVersion {
    /// None at all.
    #[default]
    None,
    /// `report-status`.
    V1,
    /// `report-status-v2`, which can tell what the `proc-receive` hook made of a ref.
    V2,
}

/// A hash that is not this repository's, or none that git knows.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unsupported object format '{}'", .name.escape_ascii())]
pub struct UnsupportedObjectFormat {
    /// What the client named, `sha1` if it named nothing; cut after [`NAME_BYTES_MAX`] bytes.
    pub name: BString,
}

impl ClientCapabilities {
    /// Reads the list after the NUL. It ends at its end or at a further NUL, where git stops too.
    ///
    /// Where a `key=value` is given twice the first counts; a flag with a value is the flag.
    pub fn parse(list: &[u8]) -> Result<Self, UnsupportedObjectFormat> {
        let list = list.split(|&byte| byte == b'\0').next().unwrap_or_default();
        let mut chosen = Self::default();
        let mut object_format = None;
        for word in list.split(|byte| b" \t\r\n".contains(byte)) {
            let (key, value) = match word.split_once_str(b"=") {
                Some((key, value)) => (key, value),
                None => (word, &b""[..]),
            };
            match key {
                b"agent" => chosen.agent = chosen.agent.or_else(|| Some(value.into())),
                b"atomic" => chosen.atomic = true,
                b"object-format" => object_format = object_format.or(Some(value)),
                b"push-options" => chosen.push_options = true,
                b"quiet" => chosen.quiet = true,
                b"report-status" => {
                    chosen.report_status = chosen.report_status.max(ReportStatusVersion::V1);
                }
                b"report-status-v2" => chosen.report_status = ReportStatusVersion::V2,
                b"session-id" => {
                    chosen.session_id = chosen.session_id.or_else(|| Some(value.into()));
                }
                b"side-band-64k" => chosen.side_band_64k = true,
                // `delete-refs` and `ofs-delta` say what the client can do anyway.
                _ => {}
            }
        }
        chosen.object_format = match object_format {
            None | Some(b"sha1") => HashKind::Sha1,
            Some(b"sha256") => HashKind::Sha256,
            Some(other) => return Err(UnsupportedObjectFormat::new(other)),
        };
        Ok(chosen)
    }

    /// Adds what a further list of the same request asks for.
    pub fn merge(&mut self, later: Self) {
        self.report_status = self.report_status.max(later.report_status);
        self.side_band_64k |= later.side_band_64k;
        self.quiet |= later.quiet;
        self.atomic |= later.atomic;
        self.push_options |= later.push_options;
        self.object_format = later.object_format;
        self.session_id = self.session_id.take().or(later.session_id);
        self.agent = self.agent.take().or(later.agent);
    }
}

impl Default for ClientCapabilities {
    /// Those of a client that asks for nothing.
    fn default() -> Self {
        Self {
            report_status: ReportStatusVersion::None,
            side_band_64k: false,
            quiet: false,
            atomic: false,
            push_options: false,
            object_format: HashKind::Sha1,
            session_id: None,
            agent: None,
        }
    }
}

impl UnsupportedObjectFormat {
    pub(super) fn new(name: &[u8]) -> Self {
        Self { name: name.get(..NAME_BYTES_MAX).unwrap_or(name).into() }
    }
}

/// What the server offers. `Display` gives the list as it is advertised, in git's order.
///
/// Values come from configuration; blanks and bytes that do not print become dots, and a value
/// is cut after [`VALUE_BYTES_MAX`] bytes, so that no setting can break the advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerCapabilities {
    /// `atomic`, unless `receive.advertiseAtomic` is false.
    pub atomic: bool,
    /// `ofs-delta`, unless `repack.useDeltaBaseOffset` is false.
    pub ofs_delta: bool,
    /// `push-cert=<nonce>`, only with `receive.certNonceSeed`.
    pub push_cert_nonce: Option<String>,
    /// `push-options`, only with `receive.advertisePushOptions`.
    pub push_options: bool,
    /// `session-id=<id>`, only with `transfer.advertiseSID`.
    pub session_id: Option<String>,
    /// `object-format`: the repository's hash.
    pub object_format: HashKind,
    /// `agent`: this program and its version.
    pub agent: String,
}

impl ServerCapabilities {
    /// What git offers with no configuration.
    pub fn new(object_format: HashKind, agent: impl Into<String>) -> Self {
        Self {
            atomic: true,
            ofs_delta: true,
            push_cert_nonce: None,
            push_options: false,
            session_id: None,
            object_format,
            agent: agent.into(),
        }
    }
}

impl fmt::Display for ServerCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("report-status report-status-v2 delete-refs side-band-64k quiet")?;
        if self.atomic {
            f.write_str(" atomic")?;
        }
        if self.ofs_delta {
            f.write_str(" ofs-delta")?;
        }
        if let Some(nonce) = &self.push_cert_nonce {
            write!(f, " push-cert={}", Printable(nonce))?;
        }
        if self.push_options {
            f.write_str(" push-options")?;
        }
        if let Some(session_id) = &self.session_id {
            write!(f, " session-id={}", Printable(session_id))?;
        }
        write!(f, " object-format={} agent={}", self.object_format, Printable(&self.agent))
    }
}

/// A value that cannot end its word, its line or its packet.
struct Printable<'a>(&'a str);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.bytes().take(VALUE_BYTES_MAX).try_for_each(|byte| {
            let printable = if byte.is_ascii_graphic() { byte } else { b'.' };
            fmt::Write::write_char(f, char::from(printable))
        })
    }
}

/// The longest value that is advertised. A nonce has 75 bytes with SHA-256.
pub const VALUE_BYTES_MAX: usize = 1024;

/// The longest piece of the client's object format that is repeated in an error.
pub const NAME_BYTES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(list: &str) -> ClientCapabilities {
        ClientCapabilities::parse(list.as_bytes()).unwrap()
    }

    #[test]
    fn everything_git_sends_is_understood() {
        let chosen = parse(
            " report-status-v2 side-band-64k quiet atomic push-options object-format=sha256 \
             agent=git/2.47.3-Linux session-id=abc",
        );
        assert_eq!(
            chosen,
            ClientCapabilities {
                report_status: ReportStatusVersion::V2,
                side_band_64k: true,
                quiet: true,
                atomic: true,
                push_options: true,
                object_format: HashKind::Sha256,
                session_id: Some("abc".into()),
                agent: Some("git/2.47.3-Linux".into()),
            }
        );
    }

    #[test]
    fn an_empty_list_asks_for_nothing_and_speaks_sha1() {
        assert_eq!(parse(""), ClientCapabilities::default());
        assert_eq!(parse("").object_format, HashKind::Sha1);
    }

    #[test]
    fn the_newer_report_wins_in_either_order() {
        for list in ["report-status report-status-v2", "report-status-v2 report-status"] {
            assert_eq!(parse(list).report_status, ReportStatusVersion::V2, "{list}");
        }
        assert_eq!(parse("report-status").report_status, ReportStatusVersion::V1);
    }

    #[test]
    fn unknown_words_and_those_without_effect_are_skipped() {
        let chosen = parse("delete-refs ofs-delta thin-pack no-thin x=y =  = quietly atomic-not");
        assert_eq!(chosen, ClientCapabilities::default());
    }

    #[test]
    fn blanks_of_any_kind_separate() {
        let chosen = parse("  quiet\tatomic\n\rside-band-64k  ");
        assert!(chosen.quiet && chosen.atomic && chosen.side_band_64k);
    }

    #[test]
    fn the_first_of_two_values_counts_and_a_value_may_hold_an_equals_sign() {
        let chosen = parse("agent=a=b agent=c session-id= session-id=x");
        assert_eq!(chosen.agent, Some("a=b".into()));
        assert_eq!(chosen.session_id, Some("".into()));
    }

    #[test]
    fn the_list_ends_at_a_nul() {
        assert_eq!(parse("quiet\0atomic"), parse("quiet"));
    }

    #[test]
    fn bytes_that_are_not_utf_8_survive() {
        let chosen = ClientCapabilities::parse(b"agent=\xff\xfe").unwrap();
        assert_eq!(chosen.agent, Some(b"\xff\xfe".into()));
    }

    #[test]
    fn an_unknown_hash_is_refused_by_name() {
        for (list, message) in [
            ("object-format=sha512", "unsupported object format 'sha512'"),
            ("object-format=", "unsupported object format ''"),
            ("object-format", "unsupported object format ''"),
            ("object-format=SHA1", "unsupported object format 'SHA1'"),
            ("object-format=sha512 object-format=sha1", "unsupported object format 'sha512'"),
        ] {
            let error = ClientCapabilities::parse(list.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
        let long = [b"object-format=".to_vec(), vec![b'x'; 60_000]].concat();
        let error = ClientCapabilities::parse(&long).unwrap_err();
        assert_eq!(error.name.len(), NAME_BYTES_MAX);
    }

    #[test]
    fn a_further_list_adds_wishes_and_takes_none_back() {
        let mut chosen = parse("report-status-v2 quiet agent=a");
        chosen.merge(parse("report-status atomic push-options agent=b session-id=s"));
        assert_eq!(
            chosen,
            parse("report-status-v2 quiet atomic push-options agent=a session-id=s")
        );
    }

    #[test]
    fn the_offer_stands_in_gits_order() {
        let mut offer = ServerCapabilities::new(HashKind::Sha1, "packhouse/0.1.0");
        assert_eq!(
            offer.to_string(),
            "report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta \
             object-format=sha1 agent=packhouse/0.1.0"
        );
        offer.push_cert_nonce = Some("1700000000-ab".into());
        offer.push_options = true;
        offer.session_id = Some("sid".into());
        offer.object_format = HashKind::Sha256;
        assert_eq!(
            offer.to_string(),
            "report-status report-status-v2 delete-refs side-band-64k quiet atomic ofs-delta \
             push-cert=1700000000-ab push-options session-id=sid object-format=sha256 \
             agent=packhouse/0.1.0"
        );
        offer = ServerCapabilities { atomic: false, ofs_delta: false, ..offer };
        assert!(!offer.to_string().contains(" atomic"));
        assert!(!offer.to_string().contains(" ofs-delta"));
    }

    #[test]
    fn no_value_can_break_the_advertisement() {
        let offer = ServerCapabilities::new(HashKind::Sha1, "a b\0c\nd\u{e9}".repeat(100_000));
        let list = offer.to_string();
        assert!(list.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
        assert!(list.contains("agent=a.b.c.d..a.b"), "{list}");
        assert!(list.len() < 2 * VALUE_BYTES_MAX);
    }
}
