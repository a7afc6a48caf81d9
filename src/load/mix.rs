//! What is pushed: the kinds of pushes and fetches, how big they are and how often each comes.
//!
//! From flags for one kind of push, or from a TOML file for a mix. Which kind comes when is drawn
//! from the seed alone, so that two runs, or two servers that are compared, get the same.

use super::content::{Dice, STAMP_BYTES, Texture};
use serde::Deserialize;
use std::fmt;
use std::path::{Path, PathBuf};

/// Kinds of work with their weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    kinds: Vec<Kind>,
    weights: Vec<u64>,
}

/// One kind of work.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// A push.
    Push(PushKind),
    /// A fetch or a clone, between the pushes.
    Fetch(FetchKind),
}

/// What one kind of push holds: a commit, its tree, and blobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushKind {
    /// New blobs.
    pub blobs: usize,
    /// The sizes of blobs, in bytes, of which each blob draws one.
    pub sizes: Vec<usize>,
    /// What the blobs hold.
    pub texture: Texture,
    /// Whether blobs come as deltas against what the server already has.
    pub thin: bool,
    /// Refs that the push sets: the branch, and one less of others.
    pub refs: usize,
    /// Whether all refs are to be changed or none.
    pub atomic: bool,
    /// Whether it is no push of objects but the deletion of the refs that earlier ones added.
    pub delete: bool,
}

/// What is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FetchKind {
    /// The refs alone.
    LsRemote,
    /// What was pushed since the last fetch.
    Fetch,
    /// Everything on the branch.
    Clone,
}

/// Why a mix is of no use.
#[derive(Debug, thiserror::Error)]
pub enum MixError {
    /// The file cannot be read.
    #[error("cannot read the mix '{}'", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It is no TOML, or not of this shape.
    #[error("the mix '{}' is not understood: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What the parser says.
        reason: String,
    },
    /// A value that makes no sense.
    #[error("in the mix: {0}")]
    Senseless(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    push: Vec<PushEntry>,
    #[serde(default)]
    fetch: Vec<FetchEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct PushEntry {
    weight: u64,
    blobs: usize,
    size: Size,
    texture: Texture,
    thin: bool,
    refs: usize,
    atomic: bool,
    delete: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FetchEntry {
    #[serde(default = "one")]
    weight: u64,
    kind: FetchKind,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Size {
    One(Bytes),
    Range([Bytes; 2]),
}

#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Number(usize),
    Text(String),
}

impl Mix {
    /// Pushes of one kind.
    pub fn of(kind: PushKind) -> Result<Self, MixError> {
        Self::new(vec![(1, Kind::Push(kind))])
    }

    /// Reads a TOML file of `[[push]]` and `[[fetch]]` tables.
    pub fn read(path: &Path) -> Result<Self, MixError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| MixError::Unreadable { path: path.to_owned(), source })?;
        let file: File = toml::from_str(&text).map_err(|error| MixError::Malformed {
            path: path.to_owned(),
            reason: error.to_string().trim_end().to_owned(),
        })?;
        file.into_mix()
    }

    fn new(entries: Vec<(u64, Kind)>) -> Result<Self, MixError> {
        for (_, kind) in &entries {
            if let Kind::Push(push) = kind {
                push.check()?;
            }
        }
        let entries: Vec<_> = entries.into_iter().filter(|(weight, _)| *weight > 0).collect();
        if !entries.iter().any(|(_, kind)| matches!(kind, Kind::Push(push) if !push.delete)) {
            return Err(MixError::Senseless("nothing in it pushes objects".into()));
        }
        let (weights, kinds) = entries.into_iter().unzip();
        Ok(Self { kinds, weights })
    }

    /// The kinds.
    pub(super) fn kinds(&self) -> &[Kind] {
        &self.kinds
    }

    /// Draws the place of the next kind.
    pub(super) fn draw(&self, dice: &mut Dice) -> usize {
        let mut left = dice.below(self.weights.iter().sum());
        for (place, weight) in self.weights.iter().enumerate() {
            if left < *weight {
                return place;
            }
            left -= weight;
        }
        0
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (kind, weight)) in self.kinds.iter().zip(&self.weights).enumerate() {
            if place > 0 {
                f.write_str("; ")?;
            }
            if self.kinds.len() > 1 {
                write!(f, "{weight} × ")?;
            }
            match kind {
                Kind::Push(push) => push.fmt(f)?,
                Kind::Fetch(FetchKind::LsRemote) => f.write_str("list of refs")?,
                Kind::Fetch(FetchKind::Fetch) => f.write_str("fetch of what is new")?,
                Kind::Fetch(FetchKind::Clone) => f.write_str("clone of the branch")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for PushKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.delete {
            return f.write_str("deletion of refs");
        }
        let (least, most) = (self.sizes.iter().min(), self.sizes.iter().max());
        write!(f, "push of a commit, a tree and {} blobs of {}", self.blobs, least.unwrap_or(&0))?;
        if most != least {
            write!(f, " to {}", most.unwrap_or(&0))?;
        }
        f.write_str(" bytes")?;
        if self.texture == Texture::Random {
            f.write_str(" that do not compress")?;
        }
        if self.thin {
            f.write_str(", thin")?;
        }
        if self.refs > 1 {
            write!(f, ", {} refs", self.refs)?;
        }
        if self.atomic {
            f.write_str(", atomic")?;
        }
        Ok(())
    }
}

impl PushKind {
    /// A push of some blobs of one size, and nothing out of the ordinary.
    pub fn plain(blobs: usize, size: usize) -> Self {
        Self {
            blobs,
            sizes: vec![size],
            texture: Texture::Text,
            thin: false,
            refs: 1,
            atomic: false,
            delete: false,
        }
    }

    fn check(&self) -> Result<(), MixError> {
        let senseless = |text: String| Err(MixError::Senseless(text));
        if let Some(size) = self.sizes.iter().find(|size| !(BLOB_BYTES).contains(size)) {
            let (least, most) = (BLOB_BYTES.start(), BLOB_BYTES.end());
            return senseless(format!("a blob has {least} to {most} bytes, not {size}"));
        }
        if !(1..=BLOBS_MAX).contains(&self.blobs) {
            return senseless(format!("a push has 1 to {BLOBS_MAX} blobs, not {}", self.blobs));
        }
        if !(1..=REFS_MAX).contains(&self.refs) {
            return senseless(format!("a push sets 1 to {REFS_MAX} refs, not {}", self.refs));
        }
        Ok(())
    }
}

impl File {
    fn into_mix(self) -> Result<Mix, MixError> {
        let mut entries = Vec::new();
        for entry in self.push {
            entries.push((entry.weight, Kind::Push(entry.into_kind()?)));
        }
        for entry in self.fetch {
            entries.push((entry.weight, Kind::Fetch(entry.kind)));
        }
        Mix::new(entries)
    }
}

impl Default for PushEntry {
    fn default() -> Self {
        Self {
            weight: 1,
            blobs: 3,
            size: Size::One(Bytes::Number(1024)),
            texture: Texture::default(),
            thin: false,
            refs: 1,
            atomic: false,
            delete: false,
        }
    }
}

impl PushEntry {
    fn into_kind(self) -> Result<PushKind, MixError> {
        let sizes = match self.size {
            Size::One(size) => vec![size.count()?],
            Size::Range([least, most]) => spread(least.count()?, most.count()?)?,
        };
        Ok(PushKind {
            blobs: self.blobs,
            sizes,
            texture: self.texture,
            thin: self.thin,
            refs: self.refs,
            atomic: self.atomic,
            delete: self.delete,
        })
    }
}

impl Bytes {
    fn count(self) -> Result<usize, MixError> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Text(text) => parse_bytes(&text).map_err(MixError::Senseless),
        }
    }
}

/// Reads a number of bytes such as `300`, `64k`, `10M` or `1G`; the units are powers of 1024, as
/// in git's configuration.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize =
        digits.parse().map_err(|_| format!("'{text}' is no number of bytes, such as 64k"))?;
    number.checked_mul(1 << shift).ok_or_else(|| format!("'{text}' is too large"))
}

/// Sizes from `least` to `most`, each as much larger than the last in proportion: small ones are
/// as common as large ones.
fn spread(least: usize, most: usize) -> Result<Vec<usize>, MixError> {
    if least > most || least == 0 {
        return Err(MixError::Senseless(format!("no size lies between {least} and {most}")));
    }
    let (log_least, log_most) = (float(least).ln(), float(most).ln());
    let mut sizes: Vec<usize> = (0..SIZES)
        .map(|step| (log_least + (log_most - log_least) * float(step) / float(SIZES - 1)).exp())
        .map(rounded)
        .map(|size| size.clamp(least, most))
        .collect();
    sizes.dedup();
    Ok(sizes)
}

#[expect(clippy::cast_precision_loss, reason = "a size that is drawn need not be exact")]
fn float(size: usize) -> f64 {
    size as f64
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two sizes, and clamped to them"
)]
fn rounded(size: f64) -> usize {
    size.round() as usize
}

fn one() -> u64 {
    1
}

/// How many different sizes a range has.
const SIZES: usize = 12;
const BLOB_BYTES: std::ops::RangeInclusive<usize> = STAMP_BYTES..=256 << 20;
const BLOBS_MAX: usize = 100_000;
const REFS_MAX: usize = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn mix(text: &str) -> Result<Mix, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        file.into_mix().map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_names_what_differs_from_a_plain_push() {
        let mix =
            mix("[[push]]\nweight = 8\n[[push]]\nsize = '64k'\nthin = true\n[[push]]\nrefs = 20\n\
             atomic = true\n[[push]]\ndelete = true\n[[fetch]]\nkind = 'clone'\n")
            .unwrap();
        assert_eq!(mix.weights, [8, 1, 1, 1, 1]);
        let plain = PushKind::plain(3, 1024);
        assert_eq!(
            mix.kinds,
            [
                Kind::Push(plain.clone()),
                Kind::Push(PushKind { sizes: vec![65536], thin: true, ..plain.clone() }),
                Kind::Push(PushKind { refs: 20, atomic: true, ..plain.clone() }),
                Kind::Push(PushKind { delete: true, ..plain }),
                Kind::Fetch(FetchKind::Clone),
            ]
        );
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        for (text, words) in [
            ("", "nothing in it pushes"),
            ("[[fetch]]\nkind = 'clone'", "nothing in it pushes"),
            ("[[push]]\nweight = 0", "nothing in it pushes"),
            ("[[push]]\nblobs = 0", "1 to"),
            ("[[push]]\nsize = 3", "bytes, not 3"),
            ("[[push]]\nsize = '3x'", "'3x'"),
            ("[[push]]\nsize = [900, 20]", "between 900 and 20"),
            ("[[push]]\nrefs = 0", "sets 1 to"),
            ("[[push]]\nblob = 3", "unknown field"),
            ("[[fetch]]\nkind = 'all'", "unknown variant"),
        ] {
            let error = mix(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_have_gits_units() {
        assert_eq!(parse_bytes("300"), Ok(300));
        assert_eq!(parse_bytes("64k"), Ok(65536));
        assert_eq!(parse_bytes("2M"), Ok(2 << 20));
        assert_eq!(parse_bytes("1g"), Ok(1 << 30));
        for text in ["", "k", "-1", "1.5k", "99999999999999999999", "18446744073709551615k"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_range_has_small_sizes_as_often_as_large_ones() {
        let sizes = spread(100, 100_000).unwrap();
        assert_eq!((sizes.first(), sizes.last()), (Some(&100), Some(&100_000)));
        assert!(sizes[SIZES / 2] < 10_000, "{sizes:?}");
        assert_eq!(spread(50, 50).unwrap(), [50]);
    }

    #[test]
    fn kinds_come_as_often_as_they_weigh_and_the_same_each_time() {
        let mix = mix("[[push]]\nweight = 3\n[[push]]\nrefs = 2\n").unwrap();
        let draw = || {
            let mut dice = Dice::new(5);
            (0..4000).map(|_| mix.draw(&mut dice)).collect::<Vec<_>>()
        };
        let heavy = draw().iter().filter(|place| **place == 0).count();
        assert!((2850..3150).contains(&heavy), "{heavy}");
        assert_eq!(draw(), draw());
    }
}
