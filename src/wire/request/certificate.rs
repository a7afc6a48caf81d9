//! A push certificate: the commands of a push as its pusher has signed them.
//!
//! gitprotocol-pack, "Push Certificate", read as git 2.47 reads it (`builtin/receive-pack.c` and
//! `gpg-interface.c`): headers up to the first empty line, commands from there to the last line
//! that begins a signature. What has no signature, no empty line before it or no command between
//! them is none.
//!
//! Whether the signature is good, and the nonce one of ours, is not judged here. Neither is the
//! version looked at, nor who says to push, nor to where: git leaves that to hooks.

use super::error::{RequestFault, excerpt};
use bstr::{BStr, BString, ByteSlice};
use std::fmt;

/// A push certificate, byte for byte as it was signed and sent.
#[derive(Clone, PartialEq, Eq)]
pub struct PushCertificate {
    text: BString,
    /// Bytes of the headers, the line feed of the last one included.
    header_bytes: usize,
    /// Bytes before the signature, which are what was signed.
    payload_bytes: usize,
    format: SignatureFormat,
}

/// The form of a signature, by its armour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureFormat {
    /// OpenPGP, RFC 4880.
    OpenPgp,
    /// A key as OpenSSH has them.
    Ssh,
    /// X.509, in a message of CMS.
    X509,
}

impl PushCertificate {
    pub(super) fn parse(text: Vec<u8>) -> Result<Self, RequestFault> {
        let text = BString::from(text);
        let malformed = || RequestFault::MalformedCertificate(excerpt(&text));
        let (payload_bytes, format) =
            last_signature(&text).ok_or(RequestFault::UnsignedCertificate)?;
        let payload = text.get(..payload_bytes).unwrap_or_default();
        let header_bytes = payload.find(b"\n\n").ok_or_else(malformed)?.saturating_add(1);
        if header_bytes.saturating_add(1) >= payload_bytes {
            return Err(malformed());
        }
        Ok(Self { text, header_bytes, payload_bytes, format })
    }

    /// All of it, which is the content of the blob that keeps it.
    pub fn text(&self) -> &BStr {
        self.text.as_bstr()
    }

    /// What was signed.
    pub fn payload(&self) -> &[u8] {
        self.text.get(..self.payload_bytes).unwrap_or_default()
    }

    /// The signature, in its armour.
    pub fn signature(&self) -> &[u8] {
        self.text.get(self.payload_bytes..).unwrap_or_default()
    }

    /// What the signature is.
    pub fn format(&self) -> SignatureFormat {
        self.format
    }

    /// The nonce that the pusher was given by the server, or by whoever else.
    pub fn nonce(&self) -> Option<&BStr> {
        self.headers(b"nonce").next()
    }

    /// The push options that were signed, in order. They must be those that are sent beside it.
    pub fn push_options(&self) -> impl Iterator<Item = &BStr> {
        self.headers(b"push-option")
    }

    /// The lines that are commands.
    pub(super) fn command_lines(&self) -> impl Iterator<Item = &[u8]> {
        let commands = self.payload().get(self.header_bytes.saturating_add(1)..);
        let commands = commands.unwrap_or_default();
        let commands = commands.strip_suffix(b"\n").unwrap_or(commands);
        commands.split(|byte| *byte == b'\n')
    }

    /// The memory that it takes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.text.capacity()
    }

    /// The values of a header, a key with a blank behind it.
    fn headers<'a>(&'a self, key: &'static [u8]) -> impl Iterator<Item = &'a BStr> {
        let headers = self.text.get(..self.header_bytes).unwrap_or_default();
        let headers = headers.strip_suffix(b"\n").unwrap_or(headers);
        headers
            .split(|byte| *byte == b'\n')
            .take_while(|line| !line.is_empty())
            .filter_map(move |line| line.strip_prefix(key)?.strip_prefix(b" "))
            .map(BStr::new)
    }
}

impl fmt::Debug for PushCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushCertificate")
            .field("text", &self.text)
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// Where the last signature begins, and what it is: of several, git takes the last one for the
/// signature and those before for what was signed.
fn last_signature(text: &[u8]) -> Option<(usize, SignatureFormat)> {
    let mut at = 0_usize;
    let mut found = None;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let armour = ARMOURS.iter().find(|(armour, _)| line.starts_with(armour));
        found = armour.map(|(_, format)| (at, *format)).or(found);
        at = at.saturating_add(line.len());
    }
    found
}

/// What a signature begins with.
const ARMOURS: [(&[u8], SignatureFormat); 4] = [
    (b"-----BEGIN PGP SIGNATURE-----", SignatureFormat::OpenPgp),
    (b"-----BEGIN PGP MESSAGE-----", SignatureFormat::OpenPgp),
    (b"-----BEGIN SIGNED MESSAGE-----", SignatureFormat::X509),
    (b"-----BEGIN SSH SIGNATURE-----", SignatureFormat::Ssh),
];
