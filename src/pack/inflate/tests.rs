//! Both backends against each other, for every split, on good streams and bad ones.

use super::*;
use proptest::prelude::*;
use std::io::Write;

type Outcome = Result<(usize, Vec<u8>), InflateError>;

/// Content as packs have it: text with repetitions, runs, noise; often nothing at all.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..300),
        (any::<u8>(), 0usize..70_000).prop_map(|(byte, len)| vec![byte; len]),
        (0usize..2000).prop_map(|n| b"tree 40b\nparent 9c\nauthor x\n".repeat(n / 20)),
    ];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

fn deflate(content: &[u8], level: u32) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::new(level));
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// Cuts `input` at the given places (taken modulo its length).
fn split<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let mut cuts: Vec<_> = cuts.iter().map(|cut| cut % (input.len() + 1)).collect();
    cuts.extend([0, input.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|pair| &input[pair[0]..pair[1]]).collect()
}

fn whole<I: Inflate + Default>(pieces: &[&[u8]], declared: u64) -> Outcome {
    let (mut inflater, mut out) = (Inflater::<I>::default(), ObjectBuffer::default());
    inflater.begin(declared);
    let mut consumed = 0;
    for piece in pieces {
        let progress = inflater.whole(piece, &mut out)?;
        assert!(progress.done || progress.consumed == piece.len());
        consumed += progress.consumed;
        if progress.done {
            return Ok((consumed, out.to_vec()));
        }
    }
    Err(InflateError::Truncated)
}

fn chunks<I: Inflate + Default>(pieces: &[&[u8]], declared: u64) -> Outcome {
    let (mut inflater, mut out) = (Inflater::<I>::default(), Vec::new());
    inflater.begin(declared);
    let mut consumed = 0;
    for piece in pieces {
        let progress = inflater.chunks(piece, |chunk| {
            assert!(!chunk.is_empty());
            out.extend_from_slice(chunk);
            Ok::<_, InflateError>(())
        })?;
        assert!(progress.done || progress.consumed == piece.len());
        consumed += progress.consumed;
        if progress.done {
            return Ok((consumed, out));
        }
    }
    Err(InflateError::Truncated)
}

/// What every way of inflating gives, after asserting that they all give the same.
fn inflate(input: &[u8], cuts: &[usize], declared: u64) -> Outcome {
    let bytewise: Vec<_> = input.chunks(1).collect();
    let expected = whole::<Sirocco>(&[input], declared);
    for pieces in [&split(input, cuts), &bytewise, &vec![input]] {
        assert_eq!(whole::<Sirocco>(pieces, declared), expected);
        assert_eq!(chunks::<Sirocco>(pieces, declared), expected);
        // The reasons may differ: zlib-rs names a checksum where sirocco does, but may see a
        // stream as truncated that is already too long.
        assert_eq!(whole::<Zlib>(pieces, declared).ok(), expected.clone().ok());
        assert_eq!(chunks::<Zlib>(pieces, declared).ok(), expected.clone().ok());
    }
    let mut out = ObjectBuffer::default();
    let once = Inflater::<Sirocco>::default().once(input, declared, &mut out);
    assert_eq!(once.map(|consumed| (consumed, out.to_vec())).ok(), expected.clone().ok());
    expected
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_split_gives_the_object_and_stops_where_its_stream_does(
        content in content(),
        level in 0u32..=9,
        behind in prop::collection::vec(any::<u8>(), 0..100),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
    ) {
        let mut input = deflate(&content, level);
        let len = input.len();
        input.extend(behind);
        let outcome = inflate(&input, &cuts, content.len() as u64);
        prop_assert_eq!(outcome, Ok((len, content)));
    }

    #[test]
    fn a_declared_size_that_is_wrong_is_an_error(
        content in content(),
        level in 0u32..=9,
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        wrong in prop_oneof![1u64..4, 1u64..1 << 40],
    ) {
        let input = deflate(&content, level);
        let produced = content.len() as u64;
        let declared = produced + wrong;
        prop_assert_eq!(
            inflate(&input, &cuts, declared),
            Err(InflateError::TooShort { declared, produced })
        );
        if let Some(declared) = produced.checked_sub(wrong) {
            prop_assert_eq!(
                inflate(&input, &cuts, declared),
                Err(InflateError::TooLong { declared })
            );
        }
    }

    #[test]
    fn a_damaged_stream_gives_one_verdict_for_every_split_and_backend(
        content in content(),
        level in 0u32..=9,
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        damage in prop::collection::vec((any::<usize>(), any::<u8>()), 1..4),
        end in any::<usize>(),
        off_by in 0u64..3,
    ) {
        let mut input = deflate(&content, level);
        for (place, value) in damage {
            let place = place % input.len();
            input[place] ^= value;
        }
        input.truncate(input.len() - end % 4);
        let declared = (content.len() as u64).saturating_sub(off_by);
        let _ = inflate(&input, &cuts, declared);
    }

    #[test]
    fn noise_gives_one_verdict_for_every_split_and_backend(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        cuts in prop::collection::vec(any::<usize>(), 0..6),
        declared in 0u64..600,
    ) {
        let _ = inflate(&noise, &cuts, declared);
        let stream = [&[0x78, 0x9c][..], &noise].concat();
        let _ = inflate(&stream, &cuts, declared);
    }
}

#[test]
fn memory_follows_the_bytes_that_came_and_not_the_declared_size() {
    let input = deflate(b"x", 6);
    let (mut inflater, mut out) = (Inflater::<Sirocco>::default(), ObjectBuffer::default());
    inflater.begin(1 << 40);
    let progress = inflater.whole(&input[..2], &mut out).unwrap();
    assert!(!progress.done);
    assert_eq!(out.take().capacity(), 64 << 10);
    assert_eq!(
        inflater.once(&input, 1 << 40, &mut out),
        Err(InflateError::TooShort { declared: 1 << 40, produced: 1 })
    );
}

#[test]
fn an_object_of_ten_bytes_that_inflates_to_a_megabyte_stops_at_ten() {
    let input = deflate(&vec![0; 1 << 20], 9);
    let (mut inflater, mut out) = (Inflater::<Sirocco>::default(), ObjectBuffer::default());
    let too_long = InflateError::TooLong { declared: 10 };
    assert_eq!(inflater.once(&input, 10, &mut out), Err(too_long));
    assert_eq!(out.len(), 10);
    inflater.begin(10);
    let mut came = 0;
    let outcome = inflater.chunks(&input, |chunk| {
        came += chunk.len();
        Ok(())
    });
    assert_eq!((outcome, came), (Err(too_long), 10));
}

#[test]
fn an_inflater_goes_on_after_a_failure() {
    let input = deflate(b"blob of some kind", 6);
    let (mut inflater, mut out) = (Inflater::<Sirocco>::default(), ObjectBuffer::default());
    assert_eq!(inflater.once(b"\x78\x9c\xff\xff", 17, &mut out), Err(InflateError::Corrupt));
    assert_eq!(inflater.once(&input[..9], 17, &mut out), Err(InflateError::Truncated));
    assert_eq!(inflater.once(&input, 17, &mut out), Ok(input.len()));
    assert_eq!(&out[..], b"blob of some kind");
}

#[test]
fn a_preset_dictionary_is_refused() {
    // 0x78 0x20+check: FDICT set.
    let mut out = ObjectBuffer::default();
    let outcome = Inflater::<Sirocco>::default().once(b"\x78\xbb\0\0\0\0....", 4, &mut out);
    assert_eq!(outcome, Err(InflateError::Dictionary));
    let outcome = Inflater::<Zlib>::default().once(b"\x78\xbb\0\0\0\0....", 4, &mut out);
    assert_eq!(outcome, Err(InflateError::Dictionary));
}

#[test]
fn large_objects_leave_no_memory_behind() {
    let content = vec![7; 9 << 20];
    let input = deflate(&content, 1);
    let (mut inflater, mut out) = (Inflater::<Sirocco>::default(), ObjectBuffer::default());
    inflater.once(&input, content.len() as u64, &mut out).unwrap();
    assert!(out[..] == content[..]);
    out.clear();
    assert_eq!(out.take().capacity(), 0);
}
