//! Whether an object that is there is the one that arrives under its name.

use super::super::disk::{Disk, lacks_resources};
use super::super::quarantine::Arriving;
use super::read::{LooseError, LooseReader};
use crate::model::{HashKind, ObjectId, oid};
use std::io::Read;
use std::path::Path;

/// What became of a comparison of the file that is there with the one that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LooseComparison {
    /// There is none.
    Absent,
    /// The same object.
    Equal,
    /// It cannot be read, or its bytes do not have the id that names it: ours is better.
    Damaged,
    /// A sound object of the same id with other content: a collision of the hash.
    Different,
}

/// Compares the content of two loose objects, both as streams.
///
/// `existing` is there under the name `id`; `arriving` must be sound, or the error says so.
pub fn compare_loose(
    disk: &Disk,
    existing: &Path,
    arriving: Arriving<'_>,
    id: &oid,
) -> Result<LooseComparison, LooseError> {
    match is_equal(disk, existing, arriving)? {
        Verdict::Absent => Ok(LooseComparison::Absent),
        Verdict::Equal => Ok(LooseComparison::Equal),
        // zlib's checksum finds a flipped bit, not a file under the wrong name.
        Verdict::Different if has_id(disk, existing, id)? => Ok(LooseComparison::Different),
        Verdict::Damaged | Verdict::Different => Ok(LooseComparison::Damaged),
    }
}

enum Verdict {
    Absent,
    Equal,
    Damaged,
    Different,
}

fn is_equal(disk: &Disk, existing: &Path, arriving: Arriving<'_>) -> Result<Verdict, LooseError> {
    let mut theirs = match LooseReader::open(disk, existing) {
        Ok(Some(reader)) => reader,
        Ok(None) => return Ok(Verdict::Absent),
        Err(error) => return damage_or_error(error),
    };
    let (_, ours) = arriving.open(disk)?;
    let mut ours = LooseReader::new(ours)?;
    if (theirs.kind(), theirs.size()) != (ours.kind(), ours.size()) {
        return Ok(Verdict::Different);
    }
    let (mut one, mut other) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    loop {
        let count = match fill(&mut theirs, &mut one) {
            Ok(count) => count,
            Err(error) => return damage_or_error(error),
        };
        if fill(&mut ours, &mut other)? != count || one.get(..count) != other.get(..count) {
            return Ok(Verdict::Different);
        }
        if count == 0 {
            return Ok(Verdict::Equal);
        }
    }
}

/// What cannot be read is damaged, unless it is we who cannot read anything.
fn damage_or_error(error: LooseError) -> Result<Verdict, LooseError> {
    match error {
        LooseError::Disk(error) if lacks_resources(&error) => Err(LooseError::Disk(error)),
        _ => Ok(Verdict::Damaged),
    }
}

/// Fills the buffer but at the end of the object.
fn fill<R: Read>(reader: &mut LooseReader<R>, buffer: &mut [u8]) -> Result<usize, LooseError> {
    let mut filled = 0;
    loop {
        let count = reader.read_content(buffer.get_mut(filled..).unwrap_or_default())?;
        filled += count;
        if count == 0 || filled == buffer.len() {
            return Ok(filled);
        }
    }
}

/// Whether a loose object reads well and its bytes have the id.
fn has_id(disk: &Disk, path: &Path, id: &oid) -> Result<bool, LooseError> {
    match id_of(disk, path, id.kind()) {
        Ok(actual) => Ok(actual.is_some_and(|actual| actual == id)),
        Err(LooseError::Disk(error)) if lacks_resources(&error) => Err(LooseError::Disk(error)),
        Err(_) => Ok(false),
    }
}

/// The id of the bytes of a loose object; `None` if it is gone, or if hashing it looks like an
/// attack on SHA-1.
fn id_of(disk: &Disk, path: &Path, hash: HashKind) -> Result<Option<ObjectId>, LooseError> {
    let Some(mut reader) = LooseReader::open(disk, path)? else { return Ok(None) };
    let mut hasher = gix_hash::hasher(hash);
    hasher.update(format!("{} {}\0", reader.kind(), reader.size()).as_bytes());
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = reader.read_content(&mut chunk)?;
        if count == 0 {
            return Ok(hasher.try_finalize().ok());
        }
        hasher.update(chunk.get(..count).unwrap_or_default());
    }
}

/// Bytes compared at once.
const CHUNK_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::super::LooseWriter;
    use super::*;
    use crate::model::ObjectKind;
    use crate::repo::SharedPermissions;
    use std::fs;
    use std::path::PathBuf;

    struct World(tempfile::TempDir);

    impl World {
        fn object(&self, name: &str, kind: ObjectKind, content: &[u8]) -> PathBuf {
            let mut writer = LooseWriter::new(&Disk::default(), SharedPermissions::Umask, 1);
            let file = writer.write(self.0.path(), kind, content).unwrap();
            let path = self.0.path().join(name);
            fs::rename(file.path(), &path).unwrap();
            path
        }

        /// Compares what is there with an arriving blob `hello`.
        fn compare(&self, existing: &Path, id_of_existing: bool) -> LooseComparison {
            let arriving = self.object("arriving", ObjectKind::Blob, b"hello");
            let disk = Disk::default();
            let named = if id_of_existing { existing } else { &arriving };
            let id = id_of(&disk, named, HashKind::Sha1).unwrap().unwrap();
            let bytes = fs::read(&arriving).unwrap();
            let [on_disk, in_memory] = [Arriving::File(&arriving), Arriving::Bytes(&bytes)]
                .map(|ours| compare_loose(&disk, existing, ours, &id).unwrap());
            assert_eq!(on_disk, in_memory);
            on_disk
        }
    }

    #[test]
    fn ids_are_those_of_git() {
        let world = World(tempfile::tempdir().unwrap());
        let path = world.object("o", ObjectKind::Blob, b"hello\n");
        let id = id_of(&Disk::default(), &path, HashKind::Sha1).unwrap().unwrap();
        assert_eq!(id.to_string(), "ce013625030ba8dba906f756967f9e9ca394464a");
    }

    #[test]
    fn each_outcome_is_told() {
        let world = World(tempfile::tempdir().unwrap());
        let there = world.object("same", ObjectKind::Blob, b"hello");
        assert_eq!(world.compare(&there, false), LooseComparison::Equal);
        let absent = world.0.path().join("absent");
        assert_eq!(world.compare(&absent, false), LooseComparison::Absent);
        fs::write(world.0.path().join("empty"), b"").unwrap();
        let empty = world.0.path().join("empty");
        assert_eq!(world.compare(&empty, false), LooseComparison::Damaged);
    }

    #[test]
    fn an_object_under_a_wrong_name_is_damage_and_one_under_its_own_a_collision() {
        let world = World(tempfile::tempdir().unwrap());
        for (kind, content) in [
            (ObjectKind::Blob, b"hellO".as_slice()),
            (ObjectKind::Tree, b""),
            (ObjectKind::Blob, b"hell"),
        ] {
            let other = world.object("other", kind, content);
            assert_eq!(world.compare(&other, false), LooseComparison::Damaged);
            // No two contents of one id are at hand: the name is made to fit the one there.
            assert_eq!(world.compare(&other, true), LooseComparison::Different);
        }
    }

    #[test]
    fn a_file_cut_short_is_damage() {
        let world = World(tempfile::tempdir().unwrap());
        let cut = world.object("cut", ObjectKind::Blob, b"hello");
        let bytes = fs::read(&cut).unwrap();
        for end in 0..bytes.len() {
            let path = world.0.path().join(format!("cut{end}"));
            fs::write(&path, &bytes[..end]).unwrap();
            assert_eq!(world.compare(&path, false), LooseComparison::Damaged);
        }
    }
}
