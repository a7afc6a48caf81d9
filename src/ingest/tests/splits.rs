//! How the bytes arrive makes no difference, and where they end is told.

use super::history::pack;
use crate::ingest::testing::*;
use crate::ingest::*;
use crate::model::{CancelToken, HashKind, ObjectKind};
use crate::pack::writer::{PackBuilder, encode_delta};
use proptest::prelude::*;
use std::io::{self, Read};

/// A small pack with every kind of entry.
fn small_pack() -> Vec<u8> {
    let mut builder = PackBuilder::new(HashKind::Sha1, 6);
    let text = b"some text that is long enough to make a delta worth its while".to_vec();
    let base = builder.whole(ObjectKind::Blob, &text);
    let next = [&text[..], b" and more"].concat();
    builder.ofs_delta(base, &encode_delta(&text, &next).unwrap());
    let last = [&next[..], b" and yet more"].concat();
    let id = id_of(HashKind::Sha1, ObjectKind::Blob, &next);
    builder.ref_delta(id, &encode_delta(&next, &last).unwrap());
    builder.whole(ObjectKind::Tree, b"");
    builder.finish()
}

/// Everything that can be told apart about a result.
fn told(result: Result<Taken, IngestError>) -> String {
    match result {
        Err(error) => format!("{error:?}"),
        Ok(taken) => {
            let Ingested { object_count, received_bytes, inflated_bytes, .. } = taken.ingested;
            let contents: Vec<_> = taken
                .files()
                .into_iter()
                .map(|file| {
                    let bytes = std::fs::read(taken.objects_dir().join(&file)).unwrap();
                    (file, crc32fast::hash(&bytes))
                })
                .collect();
            format!("{object_count} {received_bytes} {inflated_bytes} {contents:?}")
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_split_of_the_input_gives_the_same_result(
        sizes in prop::collection::vec(prop_oneof![1usize..50, 1usize..100_000], 1..6),
        damage in prop::option::of((any::<prop::sample::Index>(), 1u8..)),
        keep in any::<bool>(),
    ) {
        let mut bytes = pack(HashKind::Sha1, &["--delta-base-offset"], "main~34\n");
        if let Some((at, value)) = damage {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        let options = if keep { keeping(HashKind::Sha1) } else { unpacking(HashKind::Sha1) };
        let whole = told(take(&bytes, &Store::default(), &options));
        let mut pieces = Pieces { bytes: &bytes, sizes, next: 0 };
        let split = told(take_from(&mut pieces, &Store::default(), &options));
        prop_assert_eq!(split, whole);
    }
}

#[test]
fn every_prefix_is_an_early_end_and_names_no_pack() {
    let bytes = small_pack();
    for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
        for end in 0..bytes.len() {
            let (destination, _root) = destination();
            let cancel = CancelToken::new();
            let input = &mut &bytes[..end];
            let result = ingest(
                input,
                &Store::default(),
                &destination,
                &options,
                &cancel,
                share(&options.limits),
            );
            let error = result.unwrap_err();
            assert!(
                matches!(error, IngestError::EndedEarly { offset, .. } if offset == end as u64)
            );
            assert_eq!(error.blame(), Blame::Disconnected);
            assert!(files_below(destination.directory.path().unwrap()).is_empty());
        }
        assert!(take(&bytes, &Store::default(), &options).is_ok());
    }
}

#[test]
fn an_input_that_breaks_is_a_client_that_has_gone() {
    struct Breaking<'a>(&'a [u8]);
    impl Read for Breaking<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            if self.0.is_empty() {
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            self.0.read(room)
        }
    }
    let bytes = small_pack();
    for end in [0, 5, 40, bytes.len() - 1, bytes.len()] {
        let options = keeping(HashKind::Sha1);
        let result = take_from(&mut Breaking(&bytes[..end]), &Store::default(), &options);
        let error = result.unwrap_err();
        assert!(matches!(error, IngestError::Input(_)), "{error}");
        assert_eq!(error.blame(), Blame::Disconnected);
    }
}

#[test]
fn an_interrupted_read_is_tried_again() {
    struct Interrupted<'a>(&'a [u8], bool);
    impl Read for Interrupted<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(room) }
        }
    }
    let bytes = small_pack();
    let options = keeping(HashKind::Sha1);
    assert!(take_from(&mut Interrupted(&bytes, false), &Store::default(), &options).is_ok());
}

#[test]
fn bytes_behind_the_pack_are_refused_when_the_input_ends_with_it() {
    let bytes = [&small_pack()[..], b"G"].concat();
    for sizes in [vec![bytes.len()], vec![bytes.len() - 1]] {
        for options in [keeping(HashKind::Sha1), unpacking(HashKind::Sha1)] {
            let mut pieces = Pieces { bytes: &bytes, sizes: sizes.clone(), next: 0 };
            let error = take_from(&mut pieces, &Store::default(), &options).unwrap_err();
            let expected = bytes.len() as u64 - 1;
            assert!(matches!(error, IngestError::Surplus { offset } if offset == expected));
            assert_eq!(error.blame(), Blame::BadPack);
        }
    }
}

#[test]
fn what_follows_the_pack_is_left_alone_when_the_input_goes_on() {
    /// Fails the test when it is asked for more than the pack.
    struct Patient<'a>(&'a [u8]);
    impl Read for Patient<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "waits for the end of an input that has none");
            self.0.read(room)
        }
    }
    let bytes = small_pack();
    let options = IngestOptions { surplus: Surplus::Leave, ..keeping(HashKind::Sha1) };
    assert!(take_from(&mut Patient(&bytes), &Store::default(), &options).is_ok());
    // What came in one read with the end of the pack cannot be put back.
    let more = [&bytes[..], b"G"].concat();
    let error = take_from(&mut Patient(&more), &Store::default(), &options).unwrap_err();
    assert!(matches!(error, IngestError::Surplus { .. }));
    let mut pieces = Pieces { bytes: &more, sizes: vec![bytes.len()], next: 0 };
    assert!(take_from(&mut pieces, &Store::default(), &options).is_ok());
    assert_eq!(pieces.bytes, b"G");
}

#[test]
fn a_cancelled_push_stops() {
    let bytes = small_pack();
    let (destination, _root) = destination();
    let cancel = CancelToken::new();
    cancel.cancel();
    let options = keeping(HashKind::Sha1);
    let result = ingest(
        &mut &bytes[..],
        &Store::default(),
        &destination,
        &options,
        &cancel,
        share(&options.limits),
    );
    let error = result.unwrap_err();
    assert!(matches!(error, IngestError::Cancelled));
    assert_eq!(error.blame(), Blame::Cancelled);
}

#[test]
fn a_push_is_cancelled_between_entries_and_between_deltas() {
    /// Cancels when an object of the given number is asked for.
    struct Cancelling(CancelToken, std::sync::atomic::AtomicUsize);
    impl ExistingObjects for Cancelling {
        fn contains(&self, _: &crate::model::ObjectId) -> Result<bool, StoreError> {
            if self.1.fetch_sub(1, std::sync::atomic::Ordering::Relaxed) == 0 {
                self.0.cancel();
            }
            Ok(false)
        }
        fn find(
            &self,
            _: &crate::model::ObjectId,
            _: bool,
        ) -> Result<Option<ExistingObject>, StoreError> {
            Ok(None)
        }
        fn read(
            &self,
            _: &crate::model::ObjectId,
            _: u64,
        ) -> Result<Option<(ObjectKind, Vec<u8>)>, StoreError> {
            Ok(None)
        }
        fn stream(
            &self,
            _: &crate::model::ObjectId,
            _: u64,
            _: &mut dyn FnMut(&[u8]) -> std::ops::ControlFlow<()>,
        ) -> Result<Option<ExistingObject>, StoreError> {
            Ok(None)
        }
        fn compressed(
            &self,
            _: &crate::model::ObjectId,
            _: u64,
        ) -> Result<Option<(ExistingObject, Vec<u8>)>, StoreError> {
            Ok(None)
        }
    }
    let bytes = small_pack();
    for after in 0..3 {
        let cancel = CancelToken::new();
        let store = Cancelling(cancel.clone(), after.into());
        let (destination, _root) = destination();
        let options = keeping(HashKind::Sha1);
        let result = ingest(
            &mut &bytes[..],
            &store,
            &destination,
            &options,
            &cancel,
            share(&options.limits),
        );
        assert!(matches!(result, Err(IngestError::Cancelled)), "{after}");
    }
}
