//! What the packets of a request mean, one after the other.
//!
//! Knows nothing of bytes on the wire but their number, which the limits count.

use super::certificate::PushCertificate;
use super::command_list::{CommandList, memory_of};
use super::error::{RequestFault, excerpt};
use crate::model::{Command, CommandKind, HashKind, Limit, Limits, ObjectId};
use crate::wire::capabilities::{ClientCapabilities, ServerCapabilities, UnsupportedObjectFormat};
use crate::wire::pkt_line::{PktLine, without_line_feed};
use bstr::{BStr, BString, ByteSlice};

/// A whole request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// No command at all: the lone flush by which git's client tries the way before it sends
    /// much, or the shallow lines of one that has nothing new. Asks for nothing, not even a
    /// report.
    Probe,
    /// A push.
    Push(PushRequest),
}

/// What a client wants changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushRequest {
    /// The commits at which the client's history is cut off.
    pub shallow: Vec<ObjectId>,
    /// The changes, at least one, in the client's order. A ref may be named more than once.
    pub commands: Vec<Command>,
    /// What the pusher signed, if the push is signed: all of the commands are from it.
    pub certificate: Option<PushCertificate>,
    /// What the client asked for, of that which it was offered.
    pub capabilities: ClientCapabilities,
    /// Push options in the client's order, without NUL or LF; possibly empty ones.
    pub push_options: Vec<BString>,
    /// Whether a pack follows, be it one of no objects: only a push that does nothing but delete
    /// has none.
    pub expects_pack: bool,
}

/// Reads packets into a request.
#[derive(Debug)]
pub(super) struct Grammar {
    hash: HashKind,
    offered: Offered,
    limits: RequestLimits,
    stage: Stage,
    shallow: Vec<ObjectId>,
    commands: CommandList,
    /// The certificate's bytes while its lines come, and to its end.
    certificate_text: Option<Vec<u8>>,
    certificate: Option<PushCertificate>,
    /// `None` while no line has brought a list.
    capabilities: Option<ClientCapabilities>,
    push_options: Vec<BString>,
    push_option_bytes: usize,
    /// Bytes of the packets of the stage so far.
    stage_bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Commands,
    Certificate,
    PushOptions,
    Complete,
}

/// The capabilities that a client may choose only if they were offered.
#[derive(Clone, Copy, Debug)]
struct Offered {
    atomic: bool,
    push_options: bool,
}

#[derive(Clone, Copy, Debug)]
struct RequestLimits {
    command_bytes: Limit,
    commands: Limit,
    push_option_bytes: Limit,
}

/// A line of the first list, its LF and its capabilities taken off.
enum Line<'a> {
    Certificate,
    Command(&'a [u8]),
    Shallow(&'a [u8]),
}

impl Grammar {
    pub(super) fn new(offered: &ServerCapabilities, limits: &Limits) -> Self {
        let bytes = |name, value| Limit { name, value, unit: "bytes" };
        Self {
            hash: offered.object_format,
            offered: Offered { atomic: offered.atomic, push_options: offered.push_options },
            limits: RequestLimits {
                command_bytes: bytes("command_bytes_max", limits.command_bytes_max),
                commands: Limit {
                    name: "commands_max",
                    value: limits.commands_max,
                    unit: "commands",
                },
                push_option_bytes: bytes("push_option_bytes_max", limits.push_option_bytes_max),
            },
            stage: Stage::Commands,
            shallow: Vec::new(),
            commands: CommandList::new(offered.object_format),
            certificate_text: None,
            certificate: None,
            capabilities: None,
            push_options: Vec::new(),
            push_option_bytes: 0,
            stage_bytes: 0,
        }
    }

    pub(super) fn accept(&mut self, line: PktLine<'_>) -> Result<(), RequestFault> {
        match (self.stage, line) {
            (_, PktLine::Delim | PktLine::ResponseEnd) => Err(RequestFault::UnexpectedPacket),
            (Stage::Commands, PktLine::Data(payload)) => {
                self.charge(line, self.limits.command_bytes)?;
                self.first_list_line(without_line_feed(payload))
            }
            (Stage::Commands, PktLine::Flush) => self.end_commands(),
            (Stage::Certificate, PktLine::Data(payload)) => {
                self.charge(line, self.limits.command_bytes)?;
                self.certificate_piece(payload)
            }
            (Stage::Certificate, PktLine::Flush) => Err(RequestFault::UnendedCertificate),
            (Stage::PushOptions, PktLine::Data(payload)) => {
                self.charge(line, self.limits.push_option_bytes)?;
                self.push_option(without_line_feed(payload))
            }
            (Stage::PushOptions, PktLine::Flush) => {
                self.stage = Stage::Complete;
                Ok(())
            }
            (Stage::Complete, _) => Ok(()),
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.stage == Stage::Complete
    }

    /// What the client asked for, once its list of commands is whole.
    pub(super) fn capabilities(&self) -> Option<&ClientCapabilities> {
        let is_whole = !matches!(self.stage, Stage::Commands | Stage::Certificate);
        self.capabilities.as_ref().filter(|_| is_whole)
    }

    /// The memory that the request will take, as far as it was read.
    pub(super) fn memory_bytes(&self) -> u64 {
        let bytes = self
            .commands
            .memory_bytes()
            .saturating_add(self.certificate_text.as_ref().map_or(0, Vec::capacity))
            .saturating_add(self.certificate.as_ref().map_or(0, PushCertificate::memory_bytes))
            .saturating_add(self.shallow.capacity().saturating_mul(size_of::<ObjectId>()))
            .saturating_add(memory_of::<BString>(self.push_options.capacity()))
            .saturating_add(self.push_option_bytes);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The request, `None` while it is not complete.
    pub(super) fn into_request(self) -> Option<Request> {
        if self.stage != Stage::Complete {
            return None;
        }
        if self.commands.is_empty() {
            return Some(Request::Probe);
        }
        let commands = self.commands.into_commands();
        Some(Request::Push(PushRequest {
            expects_pack: commands.iter().any(|c| c.kind() != CommandKind::Delete),
            shallow: self.shallow,
            commands,
            certificate: self.certificate,
            capabilities: self.capabilities.unwrap_or_default(),
            push_options: self.push_options,
        }))
    }

    /// Counts a packet against the limit of its list. Its digits count too: they are what bounds
    /// the number of empty packets.
    fn charge(&mut self, line: PktLine<'_>, limit: Limit) -> Result<(), RequestFault> {
        let bytes = u64::try_from(line.wire_bytes()).unwrap_or(u64::MAX);
        self.stage_bytes = self.stage_bytes.saturating_add(bytes);
        hold_to(limit, self.stage_bytes)
    }

    fn first_list_line(&mut self, line: &[u8]) -> Result<(), RequestFault> {
        let (line, list) = split_line(line);
        if let Some(list) = list {
            self.add_capabilities(list)?;
        }
        match line {
            Line::Certificate if self.certificate_text.is_some() => {
                Err(RequestFault::RepeatedCertificate)
            }
            Line::Certificate if !self.commands.is_empty() => Err(RequestFault::UnsignedCommands),
            Line::Certificate => {
                self.certificate_text = Some(Vec::new());
                self.stage = Stage::Certificate;
                Ok(())
            }
            Line::Command(line) => {
                let command = parse_command(self.hash, line)?;
                if self.certificate_text.is_some() {
                    return Err(RequestFault::UnsignedCommands);
                }
                self.add_command(command)
            }
            Line::Shallow(digits) => {
                self.shallow.push(parse_shallow(self.hash, digits)?);
                Ok(())
            }
        }
    }

    fn add_command(
        &mut self,
        (old, new, name): (ObjectId, ObjectId, &BStr),
    ) -> Result<(), RequestFault> {
        let count = u64::try_from(self.commands.len()).unwrap_or(u64::MAX);
        hold_to(self.limits.commands, count.saturating_add(1))?;
        self.commands.push(&old, &new, name);
        Ok(())
    }

    /// Takes a packet of the certificate: git's client sends a line in each, but what counts is
    /// the bytes, line feeds included.
    fn certificate_piece(&mut self, piece: &[u8]) -> Result<(), RequestFault> {
        if piece == b"push-cert-end\n" {
            self.stage = Stage::Commands;
            return Ok(());
        }
        if piece.contains(&b'\0') {
            return Err(RequestFault::CertificateByte(excerpt(piece)));
        }
        if let Some(text) = &mut self.certificate_text {
            text.extend_from_slice(piece);
        }
        Ok(())
    }

    /// Reads the commands from the certificate, if there is one, now that it is whole.
    fn end_certificate(&mut self) -> Result<(), RequestFault> {
        let Some(text) = self.certificate_text.take() else { return Ok(()) };
        let certificate = PushCertificate::parse(text)?;
        for line in certificate.command_lines() {
            self.add_command(parse_command(self.hash, line)?)?;
        }
        self.certificate = Some(certificate);
        Ok(())
    }

    /// Takes in a list of capabilities. The document has one, on the first command; git takes
    /// one from any command, and from several what all of them ask for.
    fn add_capabilities(&mut self, list: &[u8]) -> Result<(), RequestFault> {
        let mut chosen = ClientCapabilities::parse(list)?;
        self.expect_object_format(chosen.object_format)?;
        chosen.atomic &= self.offered.atomic;
        chosen.push_options &= self.offered.push_options;
        match &mut self.capabilities {
            Some(capabilities) => capabilities.merge(chosen),
            None => self.capabilities = Some(chosen),
        }
        Ok(())
    }

    fn expect_object_format(&self, spoken: HashKind) -> Result<(), RequestFault> {
        if spoken == self.hash {
            Ok(())
        } else {
            Err(UnsupportedObjectFormat::new(spoken.to_string().as_bytes()).into())
        }
    }

    fn end_commands(&mut self) -> Result<(), RequestFault> {
        self.end_certificate()?;
        if self.commands.is_empty() {
            self.stage = Stage::Complete;
            return Ok(());
        }
        if self.capabilities.is_none() {
            self.add_capabilities(b"")?;
        }
        let with_options = self.capabilities.as_ref().is_some_and(|chosen| chosen.push_options);
        self.stage = if with_options { Stage::PushOptions } else { Stage::Complete };
        self.stage_bytes = 0;
        Ok(())
    }

    fn push_option(&mut self, option: &[u8]) -> Result<(), RequestFault> {
        if option.iter().any(|byte| b"\0\n".contains(byte)) {
            return Err(RequestFault::PushOptionByte(excerpt(option)));
        }
        self.push_option_bytes = self.push_option_bytes.saturating_add(option.len());
        self.push_options.push(option.into());
        Ok(())
    }
}

fn hold_to(limit: Limit, value: u64) -> Result<(), RequestFault> {
    if value > limit.value { Err(RequestFault::LimitExceeded(limit)) } else { Ok(()) }
}

/// Tells the kinds of line apart, and the capabilities from the line.
fn split_line(line: &[u8]) -> (Line<'_>, Option<&[u8]>) {
    if let Some(digits) = line.strip_prefix(b"shallow ") {
        return (Line::Shallow(digits), None);
    }
    let (line, list) = match line.split_once_str(b"\0") {
        Some((line, list)) => (line, Some(list)),
        None => (line, None),
    };
    let line = if line == b"push-cert" { Line::Certificate } else { Line::Command(line) };
    (line, list)
}

fn parse_command(hash: HashKind, line: &[u8]) -> Result<(ObjectId, ObjectId, &BStr), RequestFault> {
    let (old, rest) = split_id(hash, line).ok_or_else(|| bad_command(hash, line, line))?;
    let (new, name) = split_id(hash, rest).ok_or_else(|| bad_command(hash, rest, line))?;
    Ok((old, new, name.as_bstr()))
}

/// Takes an id and the blank after it from the front.
fn split_id(hash: HashKind, bytes: &[u8]) -> Option<(ObjectId, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(hash.len_in_hex())?;
    Some((ObjectId::from_hex(digits).ok()?, rest.strip_prefix(b" ")?))
}

fn parse_shallow(hash: HashKind, digits: &[u8]) -> Result<ObjectId, RequestFault> {
    if digits.len() == hash.len_in_hex()
        && let Ok(id) = ObjectId::from_hex(digits)
    {
        return Ok(id);
    }
    Err(if is_foreign_id(hash, digits) {
        RequestFault::ForeignObjectId { expected: hash, line: excerpt(digits) }
    } else {
        RequestFault::BadShallow(excerpt(digits))
    })
}

/// The fault of a command that goes wrong at `rest`: a client of the other hash is told so.
fn bad_command(hash: HashKind, rest: &[u8], line: &[u8]) -> RequestFault {
    let word = rest.split(|&byte| byte == b' ').next().unwrap_or_default();
    if is_foreign_id(hash, word) {
        RequestFault::ForeignObjectId { expected: hash, line: excerpt(line) }
    } else {
        RequestFault::BadCommand(excerpt(line))
    }
}

fn is_foreign_id(hash: HashKind, word: &[u8]) -> bool {
    word.len() != hash.len_in_hex() && ObjectId::from_hex(word).is_ok()
}
