//! Packs: the same events and the same error for every split, and with another inflater.

use packhouse::model::{HashKind, Limits};
use packhouse::pack::header::PackHeader;
use packhouse::pack::inflate::{Inflate, Sirocco, Zlib};
use packhouse::pack::parser::{
    Delivery, EntryEnd, EntryStart, PackEnd, PackError, PackParser, PackVisitor,
};

/// Objects larger than this come in chunks.
const WHOLE_BYTES_MAX: u64 = 64;

pub fn run(bytes: &[u8]) {
    check(bytes);
    check(&super::sealed(bytes));
}

fn check(bytes: &[u8]) {
    let limits = Limits { object_bytes_max: 1 << 20, objects_max: 1 << 20, ..Limits::default() };
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        let splits = super::splits(bytes);
        let expected = parse::<Sirocco>(hash, &limits, &splits[0]);
        for split in &splits[1..] {
            assert_eq!(parse::<Sirocco>(hash, &limits, split), expected);
        }
        let (events, other) = parse::<Zlib>(hash, &limits, &splits[0]);
        assert_eq!(other.ok(), expected.1.ok());
        if let Ok(end) = expected.1 {
            assert_eq!(events, expected.0);
            assert!(end.bytes <= bytes.len() as u64);
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Header(PackHeader),
    Entry(EntryStart),
    Content(Vec<u8>),
    End(EntryEnd),
}

type Parsed = (Vec<Event>, Result<PackEnd, PackError>);

/// The events, without the content of an entry that does not end: how much of it comes depends on
/// the split.
fn parse<I: Inflate + Default>(hash: HashKind, limits: &Limits, pieces: &[&[u8]]) -> Parsed {
    let mut parser = PackParser::<I>::new(hash, limits);
    let mut recorder = Recorder(Vec::new());
    for piece in pieces {
        match parser.feed(piece, &mut recorder) {
            Ok(fed) if fed.done => break,
            Ok(fed) => assert_eq!(fed.consumed, piece.len()),
            Err(error) => {
                assert_eq!(parser.finish(), Err(error));
                break;
            }
        }
    }
    if matches!(recorder.0.last(), Some(Event::Content(_))) {
        recorder.0.pop();
    }
    (recorder.0, parser.finish())
}

struct Recorder(Vec<Event>);

impl PackVisitor for Recorder {
    type Error = PackError;

    fn header(&mut self, header: PackHeader) -> Result<(), PackError> {
        self.0.push(Event::Header(header));
        Ok(())
    }

    fn entry(&mut self, start: &EntryStart) -> Result<Delivery, PackError> {
        self.0.extend([Event::Entry(*start), Event::Content(Vec::new())]);
        Ok(if start.header.size > WHOLE_BYTES_MAX { Delivery::Chunks } else { Delivery::Whole })
    }

    fn whole(&mut self, content: &[u8]) -> Result<(), PackError> {
        self.chunk(content)
    }

    fn chunk(&mut self, piece: &[u8]) -> Result<(), PackError> {
        match self.0.last_mut() {
            Some(Event::Content(content)) => content.extend_from_slice(piece),
            other => panic!("content after {other:?}"),
        }
        Ok(())
    }

    fn end(&mut self, end: &EntryEnd) -> Result<(), PackError> {
        let content = match self.0.as_slice() {
            [.., Event::Entry(start), Event::Content(content)] => {
                assert_eq!(start.header.size, content.len() as u64);
                assert_eq!(start.offset, end.offset);
                content.len()
            }
            other => panic!("an end after {other:?}"),
        };
        assert!(end.end > end.offset && content <= 1 << 20);
        self.0.push(Event::End(*end));
        Ok(())
    }
}
