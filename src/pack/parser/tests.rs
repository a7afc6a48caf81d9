//! Good packs and bad ones, for every split of their bytes.

use super::*;
use crate::model::{HashKind, Limit, Limits, ObjectId, ObjectKind};
use crate::pack::checksum::Checksum;
use crate::pack::entry::{EntryError, EntryHeader, EntryKind};
use crate::pack::header::{HeaderError, PackHeader};
use crate::pack::inflate::{Inflate, InflateError, Sirocco, Zlib};
use crate::pack::sample::{Sample, sample, split};
use crate::pack::writer::{Deflater, PackBuilder};
use proptest::prelude::*;
use proptest::sample::Index;

/// Entries above this come in chunks.
const WHOLE_BYTES_MAX: u64 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Header(PackHeader),
    Entry(EntryStart),
    /// A whole object, or all chunks of one so far.
    Content(Vec<u8>),
    End(EntryEnd),
}

#[derive(Debug, Default)]
struct Recorder {
    events: Vec<Event>,
    delivery: Option<Delivery>,
}

impl PackVisitor for Recorder {
    type Error = PackError;

    fn header(&mut self, header: PackHeader) -> Result<(), PackError> {
        self.events.push(Event::Header(header));
        Ok(())
    }

    fn entry(&mut self, start: &EntryStart) -> Result<Delivery, PackError> {
        let delivery =
            if start.header.size > WHOLE_BYTES_MAX { Delivery::Chunks } else { Delivery::Whole };
        self.delivery = Some(delivery);
        self.events.extend([Event::Entry(*start), Event::Content(Vec::new())]);
        Ok(delivery)
    }

    fn whole(&mut self, content: &[u8]) -> Result<(), PackError> {
        assert_eq!(self.delivery.take(), Some(Delivery::Whole));
        self.append(content);
        Ok(())
    }

    fn chunk(&mut self, piece: &[u8]) -> Result<(), PackError> {
        assert_eq!(self.delivery, Some(Delivery::Chunks));
        assert!(!piece.is_empty() && piece.len() <= 256 << 10);
        self.append(piece);
        Ok(())
    }

    fn end(&mut self, end: &EntryEnd) -> Result<(), PackError> {
        self.events.push(Event::End(*end));
        Ok(())
    }
}

impl Recorder {
    fn append(&mut self, content: &[u8]) {
        match self.events.last_mut() {
            Some(Event::Content(all)) => all.extend_from_slice(content),
            other => panic!("content after {other:?}"),
        }
    }
}

type Outcome = (Vec<Event>, Result<PackEnd, PackError>);

fn parse_with<I: Inflate + Default>(pieces: &[&[u8]], hash: HashKind, limits: &Limits) -> Outcome {
    let mut parser = PackParser::<I>::new(hash, limits);
    let mut recorder = Recorder::default();
    let mut consumed = 0;
    for piece in pieces {
        match parser.feed(piece, &mut recorder) {
            Ok(fed) => {
                assert!(fed.done || fed.consumed == piece.len());
                assert_eq!(fed.done, parser.finish().is_ok());
                consumed += fed.consumed as u64;
                assert_eq!(consumed, parser.offset());
            }
            Err(error) => {
                assert_eq!(parser.finish(), Err(error));
                assert_eq!(parser.feed(b"more", &mut recorder), Err(error));
                return (recorder.events, Err(error));
            }
        }
    }
    (recorder.events, parser.finish())
}

/// What every split gives, after asserting that they all give the same.
fn parse(bytes: &[u8], cuts: &[Index], hash: HashKind, limits: &Limits) -> Outcome {
    let expected = parse_with::<Sirocco>(&[bytes], hash, limits);
    let bytewise: Vec<_> = bytes.chunks(1).collect();
    for pieces in [&bytewise, &split(bytes, cuts)] {
        let (mut events, outcome) = parse_with::<Sirocco>(pieces, hash, limits);
        assert_eq!(outcome, expected.1);
        // The chunks of an object that turns out bad come as far as the backend got.
        drop_unfinished(&mut events, &outcome);
        let mut all = expected.0.clone();
        drop_unfinished(&mut all, &outcome);
        assert_eq!(events, all);
    }
    let (_, zlib) = parse_with::<Zlib>(&[bytes], hash, limits);
    assert_eq!(zlib.ok(), expected.1.ok());
    expected
}

fn drop_unfinished(events: &mut Vec<Event>, outcome: &Result<PackEnd, PackError>) {
    if outcome.is_err() && matches!(events.last(), Some(Event::Content(_))) {
        events.pop();
    }
}

fn parse_sha1(bytes: &[u8]) -> Result<PackEnd, PackError> {
    parse(bytes, &[], HashKind::Sha1, &Limits::default()).1
}

/// Puts a right trailer behind a pack that somebody has changed.
fn sealed(mut body: Vec<u8>, hash: HashKind) -> Vec<u8> {
    let mut checksum = Checksum::new(hash);
    checksum.update(&body);
    body.extend_from_slice(checksum.finish().as_slice());
    body
}

fn body(count: u32, entries: &[u8]) -> Vec<u8> {
    [&PackHeader { version: 2, count }.encode()[..], entries].concat()
}

fn events_of(sample: &Sample) -> Vec<Event> {
    let count = u32::try_from(sample.entries.len()).unwrap();
    let mut events = vec![Event::Header(PackHeader { version: 2, count })];
    for entry in &sample.entries {
        let mut encoded = Vec::new();
        entry.header.encode(entry.offset, &mut encoded);
        let header_len = u8::try_from(encoded.len()).unwrap();
        events.extend([
            Event::Entry(EntryStart { offset: entry.offset, header: entry.header, header_len }),
            Event::Content(entry.data.clone()),
            Event::End(EntryEnd {
                offset: entry.offset,
                end: entry.end,
                crc32: crc32fast::hash(sample.raw(entry)),
            }),
        ]);
    }
    events
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_split_of_any_pack_tells_what_is_in_it(
        sample in sample(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
        behind in prop::collection::vec(any::<u8>(), 0..30),
    ) {
        let bytes = [&sample.bytes[..], &behind].concat();
        let (events, end) = parse(&bytes, &cuts, sample.hash, &Limits::default());
        prop_assert_eq!(events, events_of(&sample));
        let end = end.unwrap();
        prop_assert_eq!(end.bytes, sample.bytes.len() as u64);
        prop_assert_eq!(end.entries as usize, sample.entries.len());
        let trailer = &sample.bytes[sample.bytes.len() - sample.hash.len_in_bytes()..];
        prop_assert_eq!(end.checksum.as_slice(), trailer);
        let inflated: usize = sample.entries.iter().map(|entry| entry.data.len()).sum();
        prop_assert_eq!(end.inflated_bytes, inflated as u64);
    }

    #[test]
    fn damage_is_found_at_the_same_offset_for_every_split(
        sample in sample(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
        damage in prop::collection::vec((any::<Index>(), any::<u8>()), 1..4),
        seal in any::<bool>(),
    ) {
        let mut bytes = sample.bytes.clone();
        if seal {
            // So that what is wrong is found by more than the trailer.
            bytes.truncate(bytes.len() - sample.hash.len_in_bytes());
        }
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] ^= value;
        }
        if seal {
            bytes = sealed(bytes, sample.hash);
        }
        let (_, end) = parse(&bytes, &cuts, sample.hash, &Limits::default());
        if !seal && bytes != sample.bytes {
            prop_assert!(end.is_err());
        }
    }

    #[test]
    fn every_prefix_of_a_pack_is_truncated_where_it_ends(
        sample in sample(),
        cuts in prop::collection::vec(any::<Index>(), 0..4),
        end in any::<Index>(),
    ) {
        let end = end.index(sample.bytes.len());
        let (_, outcome) = parse(&sample.bytes[..end], &cuts, sample.hash, &Limits::default());
        let error = outcome.unwrap_err();
        prop_assert_eq!(error.offset, end as u64);
        let left = if end < PackHeader::BYTES {
            0
        } else {
            sample.entries.iter().filter(|entry| entry.end > end as u64).count()
        };
        let entries_left = u32::try_from(left).unwrap();
        prop_assert_eq!(error.fault, PackFault::Truncated { entries_left });
    }

    #[test]
    fn noise_gives_the_same_verdict_for_every_split(
        noise in prop::collection::vec(any::<u8>(), 0..200),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
        count in 0u32..4,
    ) {
        let _ = parse(&noise, &cuts, HashKind::Sha1, &Limits::default());
        let _ = parse(&body(count, &noise), &cuts, HashKind::Sha256, &Limits::default());
    }

    #[test]
    fn each_limit_is_kept_to_the_unit_for_every_split(
        sample in sample(),
        cuts in prop::collection::vec(any::<Index>(), 0..8),
    ) {
        let exact = Limits {
            pack_bytes_max: sample.bytes.len() as u64,
            objects_max: sample.entries.len() as u64,
            object_bytes_max: sample.entries.iter().map(|e| e.header.size).max().unwrap_or(0),
            inflated_bytes_max: sample.entries.iter().map(|e| e.header.size).sum(),
            ..Limits::default()
        };
        let (_, end) = parse(&sample.bytes, &cuts, sample.hash, &exact);
        prop_assert!(end.is_ok());

        let parse = |limits| parse(&sample.bytes, &cuts, sample.hash, &limits).1.unwrap_err();
        let value = exact.pack_bytes_max - 1;
        let error = parse(Limits { pack_bytes_max: value, ..exact.clone() });
        let limit = Limit { name: "pack_bytes_max", value, unit: "bytes" };
        let fault = PackFault::PackTooLarge { limit };
        prop_assert_eq!(error, PackError { offset: value, fault });
        if let Some(value) = exact.objects_max.checked_sub(1) {
            let error = parse(Limits { objects_max: value, ..exact.clone() });
            let limit = Limit { name: "objects_max", value, unit: "objects" };
            let count = u32::try_from(sample.entries.len()).unwrap();
            let fault = PackFault::TooManyObjects { count, limit };
            prop_assert_eq!(error, PackError { offset: 0, fault });
        }
        if let Some(value) = exact.object_bytes_max.checked_sub(1) {
            let error = parse(Limits { object_bytes_max: value, ..exact.clone() });
            let limit = Limit { name: "object_bytes_max", value, unit: "bytes" };
            let first = sample.entries.iter().find(|e| e.header.size > value).unwrap();
            let fault = PackFault::ObjectTooLarge { declared: first.header.size, limit };
            prop_assert_eq!(error, PackError { offset: first.offset, fault });
        }
        if let Some(value) = exact.inflated_bytes_max.checked_sub(1) {
            let error = parse(Limits { inflated_bytes_max: value, ..exact.clone() });
            let limit = Limit { name: "inflated_bytes_max", value, unit: "bytes" };
            prop_assert_eq!(error.fault, PackFault::InflatedTooLarge { limit });
        }
    }
}

#[test]
fn an_empty_pack_is_a_pack() {
    let bytes = PackBuilder::new(HashKind::Sha1, 1).finish();
    assert_eq!(bytes.len(), 32);
    let end = parse_sha1(&bytes).unwrap();
    assert_eq!((end.bytes, end.entries), (32, 0));
}

#[test]
fn version_3_is_read_and_version_4_is_not() {
    let mut bytes = body(0, &[]);
    bytes[7] = 3;
    assert!(parse_sha1(&sealed(bytes.clone(), HashKind::Sha1)).is_ok());
    bytes[7] = 4;
    let fault = HeaderError::Version { version: 4 }.into();
    assert_eq!(parse_sha1(&bytes), Err(PackError { offset: 0, fault }));
}

#[test]
fn a_trailer_that_does_not_match_is_told_with_both_values() {
    let mut bytes = PackBuilder::new(HashKind::Sha1, 1).finish();
    let actual = ObjectId::try_from(&bytes[12..]).unwrap();
    bytes[31] ^= 1;
    let expected = ObjectId::try_from(&bytes[12..]).unwrap();
    let fault = PackFault::Checksum { expected, actual };
    assert_eq!(parse_sha1(&bytes), Err(PackError { offset: 12, fault }));
}

#[test]
fn a_count_of_two_to_the_31_is_over_the_limit_and_otherwise_costs_nothing() {
    let bytes = body(1 << 31, &[]);
    let error = parse_sha1(&bytes).unwrap_err();
    assert!(matches!(error.fault, PackFault::TooManyObjects { count: 0x8000_0000, .. }));
    let limits = Limits { objects_max: u64::MAX, ..Limits::default() };
    let (_, end) = parse(&bytes, &[], HashKind::Sha1, &limits);
    let fault = PackFault::Truncated { entries_left: 1 << 31 };
    assert_eq!(end, Err(PackError { offset: 12, fault }));
}

#[test]
fn a_declared_terabyte_of_two_bytes_is_too_short_and_allocates_nothing() {
    let declared = 1 << 40;
    let mut entry = Vec::new();
    let kind = EntryKind::Whole(ObjectKind::Blob);
    EntryHeader { kind, size: declared }.encode(12, &mut entry);
    Deflater::new(1).append(b"xy", &mut entry);
    let limits = Limits { object_bytes_max: u64::MAX, ..Limits::default() };
    let bytes = sealed(body(1, &entry), HashKind::Sha1);
    let (_, end) = parse(&bytes, &[], HashKind::Sha1, &limits);
    let fault = InflateError::TooShort { declared, produced: 2 }.into();
    assert_eq!(end, Err(PackError { offset: 12, fault }));
}

#[test]
fn ten_declared_bytes_that_inflate_to_a_megabyte_stop_at_ten() {
    let mut entry = vec![0x3a];
    Deflater::new(9).append(&vec![0; 1 << 20], &mut entry);
    let bytes = sealed(body(1, &entry), HashKind::Sha1);
    let fault = InflateError::TooLong { declared: 10 }.into();
    assert_eq!(parse_sha1(&bytes), Err(PackError { offset: 12, fault }));
}

#[test]
fn bad_entry_headers_are_found_at_their_entry() {
    for (entry, fault) in [
        (vec![0x00], EntryError::UnknownType { code: 0 }),
        (vec![0x5f], EntryError::UnknownType { code: 5 }),
        ([&[0xb0][..], &[0xff; 12]].concat(), EntryError::SizeOverflow),
        (vec![0x61, 0x00], EntryError::BaseOutOfBounds { offset: 12, distance: 0 }),
        (vec![0x61, 0x0c], EntryError::BaseOutOfBounds { offset: 12, distance: 12 }),
        (vec![0x61, 0x0d], EntryError::BaseOutOfBounds { offset: 12, distance: 13 }),
        ([&[0x61][..], &[0xff; 12]].concat(), EntryError::DistanceOverflow),
    ] {
        let fault = fault.into();
        assert_eq!(parse_sha1(&body(1, &entry)), Err(PackError { offset: 12, fault }));
    }
}

#[test]
fn the_lower_one_of_two_pack_limits_counts() {
    let bytes = PackBuilder::new(HashKind::Sha1, 1).finish();
    for (value, own, name) in [(31, 100, "receive.maxInputSize"), (100, 31, "pack_bytes_max")] {
        let limits = Limits { pack_bytes_max: own, ..Limits::default() };
        let limit = Limit { name: "receive.maxInputSize", value, unit: "bytes" };
        let mut parser = PackParser::<Sirocco>::new(HashKind::Sha1, &limits).with_pack_limit(limit);
        let error = parser.feed(&bytes, &mut Recorder::default()).unwrap_err();
        let limit = Limit { name, value: 31, unit: "bytes" };
        assert_eq!(error, PackError { offset: 31, fault: PackFault::PackTooLarge { limit } });
    }
}

/// Refuses the first chunk.
struct Refusing;

#[derive(Debug, PartialEq, Eq)]
enum Refusal {
    No,
    Pack(PackError),
}

impl From<PackError> for Refusal {
    fn from(error: PackError) -> Self {
        Self::Pack(error)
    }
}

impl PackVisitor for Refusing {
    type Error = Refusal;

    fn header(&mut self, _: PackHeader) -> Result<(), Refusal> {
        Ok(())
    }

    fn entry(&mut self, _: &EntryStart) -> Result<Delivery, Refusal> {
        Ok(Delivery::Chunks)
    }

    fn whole(&mut self, _: &[u8]) -> Result<(), Refusal> {
        unreachable!("chunks were asked for")
    }

    fn chunk(&mut self, _: &[u8]) -> Result<(), Refusal> {
        Err(Refusal::No)
    }

    fn end(&mut self, _: &EntryEnd) -> Result<(), Refusal> {
        unreachable!("refused before")
    }
}

#[test]
fn a_visitor_that_refuses_stops_the_parser_for_good() {
    let mut builder = PackBuilder::new(HashKind::Sha1, 1);
    builder.whole(ObjectKind::Blob, b"content");
    let bytes = builder.finish();
    let mut parser = PackParser::<Sirocco>::new(HashKind::Sha1, &Limits::default());
    assert_eq!(parser.feed(&bytes, &mut Refusing), Err(Refusal::No));
    let stopped = PackError { offset: 12, fault: PackFault::Stopped };
    assert_eq!(parser.finish(), Err(stopped));
    assert_eq!(parser.feed(&bytes, &mut Refusing), Err(Refusal::Pack(stopped)));
}
