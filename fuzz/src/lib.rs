//! What is fuzzed: each target takes any bytes and panics if a property does not hold.
//!
//! `cargo fuzz run TARGET` looks for bytes that break one. The suite of the server includes this
//! file, and runs every target on its corpus and on mutations of it (`tests/fuzz`): a fault that
//! was found once is kept as a file in `corpus/TARGET`.

pub mod delta;
pub mod fsck;
pub mod idx;
pub mod links;
pub mod pack_parser;
pub mod pkt_line;
pub mod request;

/// A target, by the name of its corpus.
pub type Target = (&'static str, fn(&[u8]));

/// All of them.
pub const TARGETS: [Target; 7] = [
    ("delta", delta::run),
    ("fsck", fsck::run),
    ("idx", idx::run),
    ("links", links::run),
    ("pack_parser", pack_parser::run),
    ("pkt_line", pkt_line::run),
    ("request", request::run),
];

/// Ways to cut the same bytes: into one piece, into uneven ones, into single bytes.
fn splits(bytes: &[u8]) -> Vec<Vec<&[u8]>> {
    let uneven = usize::from(bytes.first().copied().unwrap_or(0) % 61) + 2;
    let mut splits = vec![vec![bytes], bytes.chunks(uneven).collect()];
    // Long ones would take most of the time to learn nothing new.
    if bytes.len() <= 4096 {
        splits.push(bytes.chunks(1).collect());
    }
    splits
}

/// Puts the right checksum behind all but the last bytes, which are as long as one: a mutation
/// would go no further than the checksum otherwise.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    use packhouse::model::HashKind;
    let end = bytes.len().saturating_sub(HashKind::Sha1.len_in_bytes());
    let mut sealed = bytes[..end].to_vec();
    let mut checksum = packhouse::pack::checksum::Checksum::new(HashKind::Sha1);
    checksum.update(&sealed);
    sealed.extend_from_slice(checksum.finish().as_slice());
    sealed
}
