//! Inflating and hashing the objects of a pack.

use super::Outcome;
use packhouse::model::HashKind;
use packhouse::pack::entry::{Decoded, EntryHeader};
use packhouse::pack::header::PackHeader;
use packhouse::pack::inflate::{Inflater, ObjectBuffer, Sirocco};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Measures both on one thread and prints the seconds.
pub(crate) fn measure(path: &Path) -> Outcome<()> {
    let bytes = std::fs::read(path)?;
    let sizes = sizes(path)?;
    let total: u64 = sizes.iter().sum();
    let inflated = inflate(&bytes)?;
    let hashed = hash(&sizes)?;
    println!("- {} entries, {} bytes; objects of {total} bytes", sizes.len(), bytes.len());
    println!("- inflate: {:.2} s", inflated.as_secs_f64());
    println!("- SHA-1 with detection: {:.2} s", hashed.as_secs_f64());
    println!("- together: {:.2} s", (inflated + hashed).as_secs_f64());
    Ok(())
}

pub(crate) fn inflate(bytes: &[u8]) -> Outcome<Duration> {
    let begun = Instant::now();
    let (header, _) = bytes.split_first_chunk().ok_or("not a pack: too short")?;
    let header = PackHeader::decode(header)?;
    let mut inflater: Inflater<Sirocco> = Inflater::default();
    let mut object = ObjectBuffer::default();
    let mut at = PackHeader::BYTES;
    for _ in 0..header.count {
        let rest = bytes.get(at..).unwrap_or_default();
        match EntryHeader::decode(rest, HashKind::Sha1, at as u64)? {
            Decoded::Complete(entry, length) => {
                let length = usize::from(length);
                let stream = rest.get(length..).unwrap_or_default();
                at += length + inflater.once(stream, entry.size, &mut object)?;
            }
            Decoded::Incomplete => return Err("the pack ends within an entry".into()),
        }
    }
    Ok(begun.elapsed())
}

pub(crate) fn hash(sizes: &[u64]) -> Outcome<Duration> {
    let largest = sizes.iter().max().copied().unwrap_or_default();
    let filling = (0..=250u8).cycle();
    let buffer: Vec<u8> = filling.take(usize::try_from(largest)?).collect();
    let begun = Instant::now();
    for size in sizes {
        let mut hasher = sha1dc::Hasher::new();
        hasher.update(buffer.get(..usize::try_from(*size)?).unwrap_or_default());
        hasher.finalize().map_err(|_| "the filling collides")?;
    }
    Ok(begun.elapsed())
}

/// The sizes of the objects of a pack, in its order.
fn sizes(path: &Path) -> Outcome<Vec<u64>> {
    let repository = tempfile::tempdir()?;
    let git = |arguments: &[&str]| {
        let mut command = Command::new("git");
        command.current_dir(repository.path()).args(arguments);
        command
    };
    git(&["init", "-q", "--bare"]).status()?;
    for extension in ["pack", "idx"] {
        let from = path.with_extension(extension).canonicalize()?;
        std::os::unix::fs::symlink(
            from,
            repository.path().join("objects/pack/pack-1").with_extension(extension),
        )?;
    }
    let output =
        git(&["cat-file", "--batch-all-objects", "--batch-check=%(objectsize)", "--unordered"])
            .stderr(Stdio::inherit())
            .output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().map(str::parse).collect::<Result<_, _>>()?)
}
