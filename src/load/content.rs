//! What blobs hold: text that compresses as source code does, or noise; each blob unlike any other.
//!
//! Compressing is the dearest part of making a pack, and it is done once per body: a blob is
//! sixteen digits of its own, sent as a stored block, before a body that was deflated beforehand.
//! What comes out is an ordinary zlib stream, inflated by the server at the ordinary cost; hashing
//! is all that is left to do for each blob.

use flate2::{Compress, Compression, FlushCompress, Status};

/// Digits at the front of a blob that make it unlike any other.
pub(super) const STAMP_BYTES: usize = 16;

/// The tail that blobs of one size share, with its deflate stream.
#[derive(Debug)]
pub(super) struct Body {
    content: Vec<u8>,
    deflated: Vec<u8>,
}

/// How well what is pushed compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Texture {
    /// Words and lines; compresses to about a third.
    #[default]
    Text,
    /// Random bytes; does not compress.
    Random,
}

impl Body {
    /// The body of blobs of `blob_bytes`, which is nothing for those that are all stamp.
    pub(super) fn new(texture: Texture, blob_bytes: usize, seed: u64) -> Self {
        let bytes = blob_bytes.saturating_sub(STAMP_BYTES);
        let content = match texture {
            Texture::Text => text(bytes, seed),
            Texture::Random => noise(bytes, seed),
        };
        let deflated = if content.is_empty() { Vec::new() } else { deflate(&content) };
        Self { content, deflated }
    }

    /// The blob that `stamp` makes of this body: its content.
    pub(super) fn content(&self, stamp: &[u8; STAMP_BYTES], out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(stamp);
        out.extend_from_slice(&self.content);
    }

    /// The zlib stream of `content`, which this body made.
    pub(super) fn append_zlib(&self, content: &[u8], out: &mut Vec<u8>) {
        let stamp = content.get(..STAMP_BYTES).unwrap_or(content);
        out.extend_from_slice(&ZLIB_HEADER);
        append_stored(stamp, self.deflated.is_empty(), out);
        out.extend_from_slice(&self.deflated);
        out.extend_from_slice(&adler32(content).to_be_bytes());
    }
}

/// Appends the zlib stream of `content` without compressing it: for trees, commits and deltas,
/// which are small and mostly ids.
pub(super) fn append_stored_zlib(content: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&ZLIB_HEADER);
    let mut pieces = content.chunks(STORED_BYTES_MAX).peekable();
    if pieces.peek().is_none() {
        append_stored(b"", true, out);
    }
    while let Some(piece) = pieces.next() {
        append_stored(piece, pieces.peek().is_none(), out);
    }
    out.extend_from_slice(&adler32(content).to_be_bytes());
}

/// Sixteen digits, different for each number of one run, and between runs.
pub(super) fn stamp(run: u64, number: u64) -> [u8; STAMP_BYTES] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mixed = mix(run ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut digits = [b'0'; STAMP_BYTES];
    for (place, digit) in digits.iter_mut().enumerate() {
        let nibble = (mixed >> (60 - 4 * place)) & 0xf;
        *digit = DIGITS[usize::from(nibble.to_le_bytes()[0])];
    }
    digits
}

/// The finaliser of SplitMix64: a bijection, so that different numbers stay different.
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.roll() % bound.max(1)
    }
}

const ZLIB_HEADER: [u8; 2] = [0x78, 0x9c];
/// The longest stored block: its length has sixteen bits.
const STORED_BYTES_MAX: usize = 0xffff;

/// Appends a stored block, which begins and ends at a whole byte.
fn append_stored(piece: &[u8], last: bool, out: &mut Vec<u8>) {
    let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
    out.push(u8::from(last));
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(!length).to_le_bytes());
    out.extend_from_slice(piece);
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    // The most additions after which neither sum can have overflowed (RFC 1950).
    const PIECE: usize = 5552;
    let (mut a, mut b) = (1_u32, 0_u32);
    for piece in bytes.chunks(PIECE) {
        for &byte in piece {
            a += u32::from(byte);
            b += a;
        }
        a %= MODULUS;
        b %= MODULUS;
    }
    b << 16 | a
}

fn text(bytes: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut out = Vec::with_capacity(bytes + 16);
    out.push(b'\n');
    let mut column = 0;
    while out.len() < bytes {
        // Common words come often, as they do in source code.
        let common = dice.below(3) > 0;
        let word = dice.below(if common { 40 } else { 4000 });
        let mut letters = Dice::new(word);
        for _ in 0..3 + letters.below(7) {
            out.push(b'a' + letters.below(26).to_le_bytes()[0]);
        }
        column += 1;
        out.push(if column % 9 == 0 { b'\n' } else { b' ' });
    }
    out.truncate(bytes);
    out
}

fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut dice = Dice::new(seed);
    let mut out = Vec::with_capacity(bytes + 8);
    while out.len() < bytes {
        out.extend_from_slice(&dice.roll().to_le_bytes());
    }
    out.truncate(bytes);
    out
}

fn deflate(content: &[u8]) -> Vec<u8> {
    let mut compress = Compress::new(Compression::new(6), false);
    let mut out = Vec::with_capacity(content.len() / 2 + 64);
    loop {
        let used = usize::try_from(compress.total_in()).unwrap_or(usize::MAX);
        let rest = content.get(used..).unwrap_or_default();
        out.reserve(rest.len() / 2 + 64);
        let status = compress
            .compress_vec(rest, &mut out, FlushCompress::Finish)
            .expect("a new compressor is in no wrong state");
        if status == Status::StreamEnd {
            return out;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::ZlibDecoder;
    use std::collections::HashSet;
    use std::io::Read as _;

    fn inflated(zlib: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut decoder = ZlibDecoder::new(zlib);
        decoder.read_to_end(&mut out).unwrap();
        assert_eq!(decoder.total_in(), zlib.len() as u64, "nothing follows the stream");
        out
    }

    #[test]
    fn a_blob_is_an_ordinary_zlib_stream() {
        for texture in [Texture::Text, Texture::Random] {
            for bytes in [16, 17, 18, 1024, 70_000] {
                let body = Body::new(texture, bytes, 7);
                let (mut content, mut zlib) = (Vec::new(), Vec::new());
                body.content(&stamp(1, 2), &mut content);
                body.append_zlib(&content, &mut zlib);
                assert_eq!(content.len(), bytes);
                assert_eq!(inflated(&zlib), content, "{texture:?} of {bytes}");
            }
        }
    }

    #[test]
    fn what_is_stored_comes_back_whatever_its_length() {
        for bytes in [0, 1, STORED_BYTES_MAX, STORED_BYTES_MAX + 1] {
            let content = noise(bytes, 3);
            let mut zlib = Vec::new();
            append_stored_zlib(&content, &mut zlib);
            assert_eq!(inflated(&zlib), content);
        }
    }

    #[test]
    fn text_compresses_like_text_and_noise_does_not() {
        let text = Body::new(Texture::Text, 8192, 1);
        let share = text.deflated.len() * 100 / text.content.len();
        assert!((25..60).contains(&share), "{share} %");
        assert!(Body::new(Texture::Random, 8192, 1).deflated.len() >= 8000);
    }

    #[test]
    fn stamps_differ_within_a_run_and_between_runs() {
        let stamps: HashSet<_> = (0..2000).map(|n| stamp(n / 1000, n)).collect();
        assert_eq!(stamps.len(), 2000);
    }
}
