//! Whether a pack that is there is the one that arrives under its name.

use super::super::disk::{Disk, absent_is_none, lacks_resources};
use super::new_file::Arriving;
use crate::model::HashKind;
use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::Path;

/// What became of a comparison of the pack that is there with the one that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PackComparison {
    /// There is none.
    Absent,
    /// The same bytes.
    Equal,
    /// It cannot be read, or its trailer is not the hash of its bytes: ours is better.
    Damaged,
    /// A sound pack with other bytes.
    Different,
}

/// Compares two packs byte by byte, in constant memory.
pub(super) fn compare(
    disk: &Disk,
    existing: &Path,
    arriving: Arriving<'_>,
    hash: HashKind,
) -> io::Result<PackComparison> {
    let Some(mut theirs) = absent_is_none(disk.open(existing))? else {
        return Ok(PackComparison::Absent);
    };
    let (length, mut ours) = arriving.open(disk)?;
    if theirs.metadata()?.len() == length {
        match is_equal(&mut theirs, &mut *ours)? {
            Some(true) => return Ok(PackComparison::Equal),
            Some(false) => {}
            None => return Ok(PackComparison::Damaged),
        }
    }
    Ok(match is_sound(&mut theirs, hash) {
        Ok(true) => PackComparison::Different,
        Err(error) if lacks_resources(&error) => return Err(error),
        Ok(false) | Err(_) => PackComparison::Damaged,
    })
}

/// `None` if `theirs` cannot be read.
fn is_equal(theirs: &mut File, ours: &mut dyn Read) -> io::Result<Option<bool>> {
    let (mut one, mut other) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let count = match fill(theirs, &mut one) {
            Ok(count) => count,
            Err(error) if lacks_resources(&error) => return Err(error),
            Err(_) => return Ok(None),
        };
        if fill(ours, &mut other)? != count || one.get(..count) != other.get(..count) {
            return Ok(Some(false));
        }
        if count == 0 {
            return Ok(Some(true));
        }
    }
}

/// Whether the last bytes of a file are the hash of those before.
fn is_sound(file: &mut File, hash: HashKind) -> io::Result<bool> {
    let hash_bytes = hash.len_in_bytes();
    let trailer_bytes = u64::try_from(hash_bytes).unwrap_or(u64::MAX);
    let Some(mut remaining) = file.metadata()?.len().checked_sub(trailer_bytes) else {
        return Ok(false);
    };
    file.rewind()?;
    let mut hasher = gix_hash::hasher(hash);
    let mut chunk = vec![0; CHUNK_BYTES];
    while remaining > 0 {
        let wanted = usize::try_from(remaining).unwrap_or(usize::MAX).min(CHUNK_BYTES);
        let part = chunk.get_mut(..wanted).unwrap_or_default();
        file.read_exact(part)?;
        hasher.update(part);
        remaining = remaining.saturating_sub(u64::try_from(wanted).unwrap_or(u64::MAX));
    }
    let mut trailer = vec![0; hash_bytes];
    file.read_exact(&mut trailer)?;
    Ok(hasher.try_finalize().is_ok_and(|id| id.as_bytes() == trailer))
}

fn fill(file: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    loop {
        let count = file.read(buffer.get_mut(filled..).unwrap_or_default())?;
        filled += count;
        if count == 0 || filled == buffer.len() {
            return Ok(filled);
        }
    }
}

/// Bytes compared at once.
const CHUNK_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn sound(content: &[u8]) -> Vec<u8> {
        let mut hasher = gix_hash::hasher(HashKind::Sha1);
        hasher.update(content);
        [content, hasher.try_finalize().unwrap().as_bytes()].concat()
    }

    fn compared(existing: Option<&[u8]>, arriving: &[u8]) -> PackComparison {
        let root = tempfile::tempdir().unwrap();
        let (one, other) = (root.path().join("one"), root.path().join("other"));
        if let Some(existing) = existing {
            fs::write(&one, existing).unwrap();
        }
        fs::write(&other, arriving).unwrap();
        let [on_disk, in_memory] = [Arriving::File(&other), Arriving::Bytes(arriving)]
            .map(|ours| compare(&Disk::default(), &one, ours, HashKind::Sha1).unwrap());
        assert_eq!(on_disk, in_memory);
        on_disk
    }

    #[test]
    fn each_outcome_is_told() {
        let long = sound(&vec![1; 200_000]);
        assert_eq!(compared(None, &long), PackComparison::Absent);
        assert_eq!(compared(Some(&long), &long), PackComparison::Equal);
        assert_eq!(compared(Some(&sound(b"other")), &long), PackComparison::Different);
        let mut flipped = long.clone();
        flipped[100_000] ^= 1;
        assert_eq!(compared(Some(&flipped), &long), PackComparison::Damaged);
        assert_eq!(compared(Some(&long[..100_000]), &long), PackComparison::Damaged);
        assert_eq!(compared(Some(b""), &long), PackComparison::Damaged);
        assert_eq!(compared(Some(&sound(&vec![2; 200_000])), &long), PackComparison::Different);
    }
}
