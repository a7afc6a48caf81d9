//! One push, as git does it: ask for the refs, then send commands and pack.

use super::answer::{self, AnswerError, without_ids};
use super::connection::{Answer, Connection, RequestError, Service};
use super::discovery::{Advertisement, DiscoveryError};
use super::parcel::Sealed;
use crate::model::{HashKind, ObjectId};
use crate::pack::checksum::Checksum;
use crate::wire::pkt_line::{LineTooLong, encode_data, encode_flush};
use crate::wire::sideband::SidebandEvent;
use crate::wire::{Band, SidebandDecoder};
use bstr::BString;
use bytes::Bytes;
use std::time::{Duration, Instant};

/// The paths of one repository.
#[derive(Clone, Debug)]
pub(super) struct Paths {
    pub(super) discover_push: String,
    pub(super) push: String,
    pub(super) discover_fetch: String,
    pub(super) fetch: String,
}

/// A change of one ref.
#[derive(Clone, Debug)]
pub(super) struct Change {
    pub(super) name: BString,
    pub(super) old: Option<ObjectId>,
    pub(super) new: Option<ObjectId>,
}

/// What was agreed on with the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreement {
    pub(super) hash: HashKind,
    pub(super) banded: bool,
    pub(super) atomic: bool,
}

/// Why a push or a fetch failed. The text is the same for the same fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PushError {
    /// The request.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The advertisement.
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    /// The answer.
    #[error("{}", without_ids(&.0.to_string()))]
    Answer(#[from] AnswerError),
    /// A ref was refused.
    #[error("rejected: {}", without_ids(.0))]
    Rejected(String),
    /// A ref was not spoken of.
    #[error("the report leaves out a ref")]
    NoVerdict,
    /// A command has no room in a packet.
    #[error(transparent)]
    LineTooLong(#[from] LineTooLong),
    /// What was fetched is damaged or not there.
    #[error("fetch: {0}")]
    Fetch(&'static str),
}

impl PushError {
    /// Whether the server may have done what was asked although it did not say so.
    pub(super) fn is_in_doubt(&self) -> bool {
        match self {
            Self::Request(
                RequestError::Timeout(_) | RequestError::Broken(_) | RequestError::TooLong(_),
            )
            | Self::NoVerdict => true,
            Self::Answer(error) => !matches!(error, AnswerError::Unpack(_)),
            Self::Request(RequestError::Status { status, .. }) => status.is_server_error(),
            _ => false,
        }
    }

    /// How long the server wants to be left alone.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Request(RequestError::Status { retry_after, .. }) => *retry_after,
            _ => None,
        }
    }
}

impl Paths {
    pub(super) fn new(path: &str) -> Self {
        let discover = |service: Service| format!("{path}/info/refs?service={}", service.name());
        let call = |service: Service| format!("{path}/{}", service.name());
        Self {
            discover_push: discover(Service::ReceivePack),
            push: call(Service::ReceivePack),
            discover_fetch: discover(Service::UploadPack),
            fetch: call(Service::UploadPack),
        }
    }
}

impl Agreement {
    /// Chooses from what a server offers.
    pub(super) fn with(advertisement: &Advertisement) -> Self {
        Self {
            hash: advertisement.hash(),
            banded: advertisement.offers("side-band-64k"),
            atomic: advertisement.offers("atomic"),
        }
    }
}

/// Asks for the refs of a repository, as a pusher does.
pub(super) async fn discover(
    connection: &mut Connection,
    path: &str,
) -> Result<Advertisement, PushError> {
    Ok(Advertisement::parse(connection.get(path).await?.body)?)
}

/// The body of a push: commands, and a pack unless nothing but deletions is asked for.
pub(super) fn compose(
    changes: &[Change],
    agreement: Agreement,
    atomic: bool,
    pack: Option<(&[u8], Sealed)>,
) -> Result<Vec<Bytes>, PushError> {
    let hash = agreement.hash;
    let null = ObjectId::null(hash);
    let front = pack.as_ref().map_or(0, |(front, _)| front.len());
    let joined = front <= JOINED_BYTES_MAX;
    let mut out = Vec::with_capacity(512 + if joined { front } else { 0 });
    for (place, change) in changes.iter().enumerate() {
        let old = change.old.unwrap_or(null).to_string();
        let new = change.new.unwrap_or(null).to_string();
        let mut parts: Vec<&[u8]> =
            vec![old.as_bytes(), b" ", new.as_bytes(), b" ", change.name.as_slice()];
        if place == 0 {
            parts.push(b"\0 report-status");
            if agreement.banded {
                parts.push(b" side-band-64k");
            }
            if atomic && agreement.atomic {
                parts.push(b" atomic");
            }
            parts.push(if hash == HashKind::Sha256 {
                b" object-format=sha256"
            } else {
                b" object-format=sha1"
            });
            parts.push(AGENT.as_bytes());
        }
        encode_data(&mut out, &parts)?;
    }
    encode_flush(&mut out);
    let Some((front, sealed)) = pack else { return Ok(vec![out.into()]) };
    if joined {
        out.extend_from_slice(front);
        out.extend_from_slice(&sealed.end);
        return Ok(vec![out.into()]);
    }
    Ok(vec![out.into(), Bytes::copy_from_slice(front), sealed.end.into()])
}

/// Reads the verdicts on `changes`, in their order.
pub(super) fn verdicts(
    answer: &Answer,
    agreement: Agreement,
    changes: &[Change],
) -> Result<Vec<Result<(), PushError>>, PushError> {
    let told = answer::read(&answer.body, agreement.banded)?;
    let verdict = |change: &Change| {
        let found = told.iter().find(|(name, _)| *name == change.name);
        match found {
            Some((_, Ok(()))) => Ok(()),
            Some((_, Err(text))) => {
                // The name differs from pusher to pusher.
                let name = change.name.to_string();
                Err(PushError::Rejected(text.replace(&name, "<ref>")))
            }
            None => Err(PushError::NoVerdict),
        }
    };
    Ok(changes.iter().map(verdict).collect())
}

/// Fetches what `name` leads to and `have` does not; gives the value and the bytes received.
///
/// In protocol version 0, which every server speaks. The pack's checksum is verified, its objects
/// are not looked at. `None` for a repository without that ref.
pub(super) async fn fetch(
    connection: &mut Connection,
    paths: &Paths,
    name: &BString,
    have: Option<ObjectId>,
) -> Result<(Option<ObjectId>, u64), PushError> {
    let refs = discover(connection, &paths.discover_fetch).await?;
    let Some(tip) = refs.value(name) else { return Ok((None, 0)) };
    if have == Some(tip) {
        return Ok((Some(tip), 0));
    }
    let mut out = Vec::new();
    let want = format!("want {tip} side-band-64k ofs-delta{AGENT}\n");
    encode_data(&mut out, &[want.as_bytes()])?;
    encode_flush(&mut out);
    if let Some(have) = have {
        encode_data(&mut out, &[format!("have {have}\n").as_bytes()])?;
    }
    encode_data(&mut out, &[b"done\n"])?;
    let answer = connection.post(&paths.fetch, Service::UploadPack, vec![out.into()]).await?;
    check_pack(&answer.body, refs.hash())?;
    Ok((Some(tip), answer.body.len() as u64))
}

fn check_pack(body: &[u8], hash: HashKind) -> Result<(), PushError> {
    use crate::wire::pkt_line::{Decoded, PktLine, decode};
    let damaged = |_| PushError::Fetch("the answer is not understood");
    let Decoded::Complete { line: PktLine::Data(line), consumed } =
        decode(body).map_err(|_| PushError::Fetch("the answer is not understood"))?
    else {
        return Err(PushError::Fetch("the answer is cut short"));
    };
    if !line.starts_with(b"NAK") && !line.starts_with(b"ACK") {
        return Err(PushError::Fetch("the server refused"));
    }
    let (mut rest, mut bands) = (body.get(consumed..).unwrap_or_default(), SidebandDecoder::new());
    let mut pack = Vec::with_capacity(rest.len());
    loop {
        match bands.next(rest).map_err(damaged)? {
            SidebandEvent::Chunk { band, payload, consumed } => {
                match band {
                    Band::Data => pack.extend_from_slice(payload),
                    Band::Progress => {}
                    Band::Error => return Err(PushError::Fetch("the server gave up")),
                }
                rest = rest.get(consumed..).unwrap_or_default();
            }
            SidebandEvent::End { .. } => break,
            SidebandEvent::NeedMore => return Err(PushError::Fetch("the answer is cut short")),
        }
    }
    let Some((content, trailer)) = pack.split_last_chunk::<20>().filter(|_| hash == HashKind::Sha1)
    else {
        // Of a repository with SHA-256 the length of the pack is all that is looked at.
        return if pack.is_empty() { Err(PushError::Fetch("there is no pack")) } else { Ok(()) };
    };
    let mut checksum = Checksum::new(hash);
    checksum.update(content);
    if checksum.finish().as_slice() == trailer && content.starts_with(b"PACK") {
        Ok(())
    } else {
        Err(PushError::Fetch("the pack's checksum does not fit"))
    }
}

/// The time that has passed, and the instant at which it had.
pub(super) fn since(begun: Instant) -> (Duration, Instant) {
    let now = Instant::now();
    (now.saturating_duration_since(begun), now)
}

const AGENT: &str = concat!(" agent=packhouse-load/", env!("CARGO_PKG_VERSION"));
/// Packs up to this size are sent in one piece with their commands, as one write.
const JOINED_BYTES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::mix::PushKind;
    use crate::load::parcel::ParcelMaker;
    use crate::model::Limits;
    use crate::wire::{Feed, Request, RequestParser, ServerCapabilities};

    #[test]
    fn a_push_is_a_request_that_the_server_side_reads() {
        let maker = ParcelMaker::new(PushKind::plain(2, 100), HashKind::Sha1, 1);
        let parcel = maker.make(1);
        let sealed = parcel.seal(None, 0);
        let tip = sealed.commit;
        let change = |name: &str, new| Change { name: name.into(), old: None, new };
        let changes = [change("refs/heads/a", Some(tip)), change("refs/heads/b", None)];
        let agreement = Agreement { hash: HashKind::Sha1, banded: true, atomic: true };
        let pack = Some((parcel.bytes(), sealed));
        let body = compose(&changes, agreement, true, pack).unwrap().concat();

        let offer = ServerCapabilities::new(HashKind::Sha1, "x");
        let mut parser = RequestParser::new(&offer, &Limits::default());
        let Feed::Complete { consumed } = parser.feed(&body).unwrap() else { panic!() };
        assert!(body[consumed..].starts_with(b"PACK"));
        let Request::Push(push) = parser.finish().unwrap() else { panic!() };
        assert_eq!(push.commands.len(), 2);
        assert_eq!(push.commands[0].new, tip);
        assert!(push.commands[1].new.is_null());
        assert!(push.capabilities.atomic && push.capabilities.side_band_64k);
    }

    #[test]
    fn texts_do_not_tell_pushers_apart() {
        let text = format!("cannot lock <ref>: is at {}", "a".repeat(40));
        assert_eq!(
            PushError::Rejected(text).to_string(),
            "rejected: cannot lock <ref>: is at <id>"
        );
    }

    #[test]
    fn only_an_answer_that_never_came_leaves_doubt() {
        assert!(PushError::Request(RequestError::Timeout(Duration::ZERO)).is_in_doubt());
        assert!(PushError::Request(RequestError::Broken("x".into())).is_in_doubt());
        assert!(!PushError::Request(RequestError::Connect("x".into())).is_in_doubt());
        assert!(!PushError::Rejected("x".into()).is_in_doubt());
    }
}
