//! Repositories and packs for the tests of this module.

use super::{ObjectSnapshot, SnapshotCache, Sources};
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::entry::{EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use crate::repo::{Counts, Disk};
use sha1::Digest;
use std::fmt::Write as _;
use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

pub(super) const MIB: u64 = 1 << 20;

/// A bare repository in a directory of its own, and a disk that counts.
pub(super) struct Store {
    pub(super) root: tempfile::TempDir,
    pub(super) disk: Disk,
    pub(super) hash: HashKind,
}

impl Store {
    /// One without git's help: directories only.
    pub(super) fn bare() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("objects/pack")).unwrap();
        Self { root, disk: Disk::default(), hash: HashKind::Sha1 }
    }

    /// One that stock git can work in.
    pub(super) fn git_init(hash: HashKind) -> Self {
        let store = Self { hash, ..Self::bare() };
        let format = format!("--object-format={hash}");
        store.git(&["init", "--quiet", "--bare", &format, "."]);
        store
    }

    pub(super) fn objects(&self) -> PathBuf {
        self.root.path().join("objects")
    }

    pub(super) fn packs(&self) -> PathBuf {
        self.objects().join("pack")
    }

    pub(super) fn sources(&self) -> Sources {
        Sources { own: self.objects(), alternates: Vec::new() }
    }

    pub(super) fn cache(&self) -> SnapshotCache {
        SnapshotCache::new(self.disk.clone(), 64 * MIB)
    }

    pub(super) fn following_cache(&self) -> SnapshotCache {
        SnapshotCache::following(self.disk.clone(), 64 * MIB)
    }

    pub(super) fn snapshot(&self, cache: &SnapshotCache) -> ObjectSnapshot {
        cache.snapshot(&self.sources(), self.hash).unwrap()
    }

    /// Runs git here and gives what it says.
    pub(super) fn git(&self, arguments: &[&str]) -> String {
        self.git_with(arguments, b"")
    }

    pub(super) fn git_with(&self, arguments: &[&str], input: &[u8]) -> String {
        let bytes = self.git_bytes(arguments, input);
        String::from_utf8(bytes).unwrap().trim().to_owned()
    }

    pub(super) fn git_bytes(&self, arguments: &[&str], input: &[u8]) -> Vec<u8> {
        let mut child = Command::new("git")
            .args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"])
            .args(arguments)
            .current_dir(self.root.path())
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let writer = std::thread::spawn(move || stdin.write_all(&input));
        let output = child.wait_with_output().unwrap();
        writer.join().unwrap().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "git {arguments:?}: {said}");
        output.stdout
    }

    /// Commits this many times on `branch`, each time a little more in a file, all loose or in one
    /// pack.
    pub(super) fn commit(&self, branch: &str, commits: usize, packed: bool) {
        let mut stream = String::new();
        let mut content = String::new();
        for number in 0..commits {
            writeln!(content, "line {number} of {branch}, {}", number * 7919 % 1009).unwrap();
            write!(
                stream,
                "commit refs/heads/{branch}\ncommitter A <a@b> {} +0000\ndata 2\nm\n\
                 M 644 inline d/f\ndata {}\n{content}\n",
                1_000_000_000 + number,
                content.len(),
            )
            .unwrap();
        }
        let limit =
            if packed { "fastimport.unpackLimit=1" } else { "fastimport.unpackLimit=100000" };
        self.git_with(&["-c", limit, "fast-import", "--quiet"], stream.as_bytes());
    }

    /// All objects, as git tells them.
    pub(super) fn all_objects(&self) -> Vec<(ObjectId, ObjectKind, u64)> {
        self.git(&["cat-file", "--batch-check", "--batch-all-objects"])
            .lines()
            .map(|line| {
                let words: Vec<_> = line.split(' ').collect();
                let kind = ObjectKind::from_bytes(words[1].as_bytes()).unwrap();
                (id_of_hex(words[0]), kind, words[2].parse().unwrap())
            })
            .collect()
    }

    /// Makes the pack directory look as if nothing had happened in it for an hour.
    pub(super) fn settle(&self) {
        settle(&self.packs());
    }

    /// What was done on disk by `work`.
    pub(super) fn count<T>(&self, work: impl FnOnce() -> T) -> (T, Done) {
        let before = self.disk.counts();
        let result = work();
        (result, Done::between(before, self.disk.counts()))
    }
}

pub(super) fn settle(directory: &Path) {
    let hour_ago = SystemTime::now() - Duration::from_secs(3600);
    let times = FileTimes::new().set_modified(hour_ago);
    File::open(directory).unwrap().set_times(times).unwrap();
}

/// Reads on disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    pub(super) stats: u64,
    pub(super) listings: u64,
    pub(super) opens: u64,
}

impl Done {
    fn between(before: Counts, after: Counts) -> Self {
        Self {
            stats: after.stats - before.stats,
            listings: after.listings - before.listings,
            opens: after.opens - before.opens,
        }
    }
}

pub(super) fn id_of_hex(hex: &str) -> ObjectId {
    ObjectId::from_hex(hex.as_bytes()).unwrap()
}

pub(super) fn id_of(hash: HashKind, kind: ObjectKind, data: &[u8]) -> ObjectId {
    let mut hasher = gix_hash::hasher(hash);
    hasher.update(format!("{kind} {}\0", data.len()).as_bytes());
    hasher.update(data);
    hasher.try_finalize().unwrap()
}

pub(super) fn deflate(data: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(data).unwrap();
    encoder.finish().unwrap()
}

/// A delta that makes `result` out of the first `copied` bytes of `base` and what follows them.
pub(super) fn delta(base: &[u8], copied: u16, result: &[u8]) -> Vec<u8> {
    let mut delta = Vec::new();
    for mut size in [base.len(), result.len()] {
        while size >= 0x80 {
            delta.push(u8::try_from(size & 0x7f).unwrap() | 0x80);
            size >>= 7;
        }
        delta.push(u8::try_from(size).unwrap());
    }
    if copied > 0 {
        delta.push(0xb0);
        delta.extend(copied.to_le_bytes());
    }
    for chunk in result[copied.into()..].chunks(127) {
        delta.push(u8::try_from(chunk.len()).unwrap());
        delta.extend(chunk);
    }
    delta
}

/// A pack under construction.
pub(super) struct PackBuilder {
    pub(super) hash: HashKind,
    pub(super) bytes: Vec<u8>,
    /// Ids and offsets, in the order of the pack.
    pub(super) entries: Vec<(ObjectId, u64)>,
}

impl PackBuilder {
    pub(super) fn new(hash: HashKind) -> Self {
        let bytes = PackHeader { version: 2, count: 0 }.encode().to_vec();
        Self { hash, bytes, entries: Vec::new() }
    }

    /// Adds a whole object.
    pub(super) fn whole(&mut self, kind: ObjectKind, data: &[u8]) -> ObjectId {
        let id = id_of(self.hash, kind, data);
        self.entry(id, EntryKind::Whole(kind), data);
        id
    }

    pub(super) fn blob(&mut self, data: &[u8]) -> ObjectId {
        self.whole(ObjectKind::Blob, data)
    }

    /// Adds an entry of any kind under any name.
    pub(super) fn entry(&mut self, id: ObjectId, kind: EntryKind, data: &[u8]) {
        let offset = self.bytes.len() as u64;
        EntryHeader { kind, size: data.len() as u64 }.encode(offset, &mut self.bytes);
        self.bytes.extend(deflate(data));
        self.entries.push((id, offset));
    }

    /// Where the next entry will be.
    pub(super) fn offset(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// The bytes of the pack and of its index, of version 2.
    pub(super) fn finish(mut self) -> (Vec<u8>, Vec<u8>) {
        let count = u32::try_from(self.entries.len()).unwrap();
        self.bytes[..12].copy_from_slice(&PackHeader { version: 2, count }.encode());
        let trailer = checksum(self.hash, &self.bytes);
        self.bytes.extend(&trailer);
        let index = index_v2(self.hash, &self.entries, &trailer);
        (self.bytes, index)
    }

    /// Puts pack and index into a directory as git does: under the pack's checksum, index last.
    /// Returns the path of the index.
    pub(super) fn store(self, packs: &Path) -> PathBuf {
        let hash = self.hash;
        let (pack, index) = self.finish();
        let checksum = ObjectId::try_from(&pack[pack.len() - hash.len_in_bytes()..]).unwrap();
        let path = packs.join(format!("pack-{checksum}.idx"));
        fs::write(path.with_extension("pack"), pack).unwrap();
        fs::write(&path, index).unwrap();
        path
    }
}

pub(super) fn checksum(hash: HashKind, bytes: &[u8]) -> Vec<u8> {
    match hash {
        HashKind::Sha1 => sha1::Sha1::digest(bytes).to_vec(),
        _ => sha2::Sha256::digest(bytes).to_vec(),
    }
}

fn sorted(entries: &[(ObjectId, u64)]) -> Vec<(ObjectId, u64)> {
    let mut entries = entries.to_vec();
    entries.sort();
    entries
}

fn fan_out(entries: &[(ObjectId, u64)]) -> Vec<u8> {
    (0..=255u8)
        .flat_map(|first| {
            let count = entries.iter().filter(|(id, _)| id.as_bytes()[0] <= first).count();
            u32::try_from(count).unwrap().to_be_bytes()
        })
        .collect()
}

/// An index of version 2. Offsets from 2 GiB on go to the 64-bit table.
pub(super) fn index_v2(hash: HashKind, entries: &[(ObjectId, u64)], pack: &[u8]) -> Vec<u8> {
    let entries = sorted(entries);
    let mut index = b"\xfftOc\0\0\0\x02".to_vec();
    index.extend(fan_out(&entries));
    index.extend(entries.iter().flat_map(|(id, _)| id.as_bytes().to_vec()));
    index.extend(entries.iter().flat_map(|_| [0; 4]));
    let mut large = Vec::new();
    for (_, offset) in &entries {
        let number = match u32::try_from(*offset) {
            Ok(offset) if offset < 1 << 31 => offset,
            _ => {
                large.extend(offset.to_be_bytes());
                u32::try_from(large.len() / 8 - 1).unwrap() | 1 << 31
            }
        };
        index.extend(number.to_be_bytes());
    }
    index.extend(large);
    index.extend(pack);
    let trailer = checksum(hash, &index);
    index.extend(trailer);
    index
}

/// An index of version 1.
pub(super) fn index_v1(hash: HashKind, entries: &[(ObjectId, u64)], pack: &[u8]) -> Vec<u8> {
    let entries = sorted(entries);
    let mut index = fan_out(&entries);
    for (id, offset) in &entries {
        index.extend(u32::try_from(*offset).unwrap().to_be_bytes());
        index.extend(id.as_bytes());
    }
    index.extend(pack);
    let trailer = checksum(hash, &index);
    index.extend(trailer);
    index
}

/// Puts a new checksum at the end of an index that was changed.
pub(super) fn seal(hash: HashKind, index: &mut Vec<u8>) {
    index.truncate(index.len() - hash.len_in_bytes());
    let trailer = checksum(hash, index);
    index.extend(trailer);
}
