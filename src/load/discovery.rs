//! The advertisement as a client reads it.

use crate::model::{HashKind, ObjectId};
use crate::wire::pkt_line::{self, Decoded, PktLine, PktLineError, without_line_feed};
use bstr::{BString, ByteSlice as _};
use bytes::Bytes;
use std::collections::HashMap;

/// The refs and capabilities that a server told.
#[derive(Debug)]
pub(super) struct Advertisement {
    body: Bytes,
    /// Where the refs begin in `body`.
    refs_at: usize,
    /// The capabilities, separated by blanks.
    capabilities: BString,
}

/// Why an answer is no advertisement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// The framing.
    #[error("the answer is no advertisement, so perhaps no git server: {0}")]
    Framing(#[from] PktLineError),
    /// It ends before its flush.
    #[error("the advertisement ends before its flush")]
    Truncated,
    /// It begins with something else.
    #[error("the answer begins with no service, so perhaps it is no smart git server")]
    NoService,
    /// The server said what is wrong.
    #[error("the server said: {0}")]
    Error(String),
}

impl Advertisement {
    /// Reads the answer to `info/refs?service=…`.
    pub(super) fn parse(body: Bytes) -> Result<Self, DiscoveryError> {
        let mut lines = Lines { bytes: &body, at: 0 };
        match lines.next()? {
            Some(line) if line.starts_with(b"# service=") => {}
            _ => return Err(DiscoveryError::NoService),
        }
        while lines.next()?.is_some() {}
        let mut refs_at = lines.at;
        let mut first = lines.next()?;
        if first == Some(b"version 1") {
            refs_at = lines.at;
            first = lines.next()?;
        }
        let capabilities = match first.and_then(|line| line.split_once_str(b"\0")) {
            Some((_, list)) => BString::from(list),
            None => BString::default(),
        };
        if let Some(text) = first.and_then(|line| line.strip_prefix(b"ERR ")) {
            return Err(DiscoveryError::Error(text.to_str_lossy().into_owned()));
        }
        if first.is_some() {
            while lines.next()?.is_some() {}
        }
        Ok(Self { body, refs_at, capabilities })
    }

    /// Whether the server can do something.
    pub(super) fn offers(&self, capability: &str) -> bool {
        self.capabilities.split_str(b" ").any(|word| word == capability.as_bytes())
    }

    /// The hash of the repository.
    pub(super) fn hash(&self) -> HashKind {
        if self.offers("object-format=sha256") { HashKind::Sha256 } else { HashKind::Sha1 }
    }

    /// The value of one ref.
    pub(super) fn value(&self, name: &[u8]) -> Option<ObjectId> {
        self.refs()
            .find(|(_, found)| *found == name)
            .and_then(|(id, _)| ObjectId::from_hex(id).ok())
    }

    /// The values of many refs.
    pub(super) fn values(&self) -> HashMap<BString, ObjectId> {
        self.refs()
            .filter_map(|(id, name)| Some((name.into(), ObjectId::from_hex(id).ok()?)))
            .collect()
    }

    /// Ids in hex with their names, as they stand.
    fn refs(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut lines = Lines { bytes: &self.body, at: self.refs_at };
        std::iter::from_fn(move || lines.next().ok().flatten())
            .map(|line| line.split_once_str(b"\0").map_or(line, |(line, _)| line))
            .filter_map(|line| line.split_once_str(b" "))
            .filter(|(id, name)| *name != b"capabilities^{}" && *id != b"shallow")
    }
}

struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Lines<'a> {
    /// The next line without its LF, `None` for a flush.
    fn next(&mut self) -> Result<Option<&'a [u8]>, DiscoveryError> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Decoded::Complete { line, consumed } = pkt_line::decode(rest)? else {
            return Err(DiscoveryError::Truncated);
        };
        self.at += consumed;
        Ok(match line {
            PktLine::Data(payload) => Some(without_line_feed(payload)),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{
        AdvertisementEncoder, ProtocolVersion, ServerCapabilities, encode_service_preamble,
    };

    fn advertised(version: ProtocolVersion, refs: &[&str]) -> Advertisement {
        let mut out = Vec::new();
        encode_service_preamble(&mut out);
        let offer = ServerCapabilities::new(HashKind::Sha1, "x/1");
        let mut encoder = AdvertisementEncoder::begin(&mut out, version, &offer);
        for (name, byte) in refs.iter().zip(1..) {
            encoder.reference(&mut out, &ObjectId::from([byte; 20]), (*name).into()).unwrap();
        }
        encoder.finish(&mut out, [ObjectId::from([9; 20])]);
        Advertisement::parse(out.into()).unwrap()
    }

    #[test]
    fn refs_and_capabilities_are_read_in_either_version() {
        for version in [ProtocolVersion::V0, ProtocolVersion::V1] {
            let read = advertised(version, &["refs/heads/a", "refs/heads/b"]);
            assert_eq!(read.value(b"refs/heads/a"), Some(ObjectId::from([1; 20])));
            assert_eq!(read.value(b"refs/heads/b"), Some(ObjectId::from([2; 20])));
            assert_eq!(read.value(b"refs/heads/c"), None);
            assert_eq!(read.values().len(), 2);
            assert!(read.offers("atomic") && !read.offers("push-options"));
            assert_eq!(read.hash(), HashKind::Sha1);
        }
    }

    #[test]
    fn an_empty_repository_has_capabilities_and_no_refs() {
        let read = advertised(ProtocolVersion::V0, &[]);
        assert!(read.values().is_empty() && read.offers("report-status"));
    }

    #[test]
    fn what_is_no_advertisement_is_told_in_words() {
        let error = |bytes: &'static [u8]| Advertisement::parse(bytes.into()).unwrap_err();
        assert!(matches!(error(b"<html>"), DiscoveryError::Framing(_)));
        assert_eq!(error(b""), DiscoveryError::Truncated);
        assert_eq!(error(b"0000"), DiscoveryError::NoService);
        assert_eq!(
            error(b"001f# service=git-receive-pack\n0000000dERR gone\n0000"),
            DiscoveryError::Error("gone".into())
        );
        assert_eq!(error(b"001f# service=git-receive-pack\n0000"), DiscoveryError::Truncated);
    }
}
