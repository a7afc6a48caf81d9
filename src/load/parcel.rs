//! Packs, made ahead but for their last object.
//!
//! A parcel holds everything of a pack that costs time: new blobs and their tree, compressed and
//! hashed. The commit, which needs to know its parent, is put on at the last moment: some two
//! hundred bytes, and the end of a checksum. So packs can be made before the clock starts, and a
//! push that lost a race is sent again on top of the winner without making it anew.
//!
//! Every commit's tree holds the push's own blobs and nothing else, in one directory.

use super::content::{Body, append_stored_zlib, stamp};
use super::mix::PushKind;
use crate::model::{HashKind, ObjectId, ObjectKind};
use crate::pack::checksum::Checksum;
use crate::pack::entry::{EntryHeader, EntryKind};
use crate::pack::header::PackHeader;
use crate::pack::writer::encode_delta;
use std::fmt::Write as _;

/// Makes the parcels of one kind of push.
#[derive(Debug)]
pub(super) struct ParcelMaker {
    kind: PushKind,
    hash: HashKind,
    run: u64,
    /// One for each size, several where they are small.
    bodies: Vec<Body>,
    /// For thin packs: what the seed brings of each body.
    bases: Vec<Base>,
}

/// A pack without its commit.
#[derive(Debug)]
pub(super) struct Parcel {
    bytes: Vec<u8>,
    checksum: Checksum,
    tree: ObjectId,
    number: u64,
}

/// A blob that thin packs take for granted.
#[derive(Debug)]
struct Base {
    id: ObjectId,
    content: Vec<u8>,
}

/// The last part of a pack, and the commit in it.
#[derive(Debug)]
pub(super) struct Sealed {
    /// The commit.
    pub(super) commit: ObjectId,
    /// Its entry, and the trailer.
    pub(super) end: Vec<u8>,
}

impl ParcelMaker {
    /// A maker for one run, whose objects differ from those of any other.
    pub(super) fn new(kind: PushKind, hash: HashKind, run: u64) -> Self {
        let mut bodies = Vec::new();
        for &size in &kind.sizes {
            let variants = if size <= SMALL_BYTES { VARIANTS } else { 1 };
            for variant in 0..variants {
                bodies.push(Body::new(kind.texture, size, variant));
            }
        }
        let mut maker = Self { kind, hash, run, bodies, bases: Vec::new() };
        if maker.kind.thin {
            maker.bases = maker.bodies.iter().map(|body| maker.base(body)).collect();
        }
        maker
    }

    /// The parcel of a number that is used once in a run.
    pub(super) fn make(&self, number: u64) -> Parcel {
        let mut pack = Writer::new(self.hash, self.kind.blobs + 2);
        let (mut content, mut tree) = (Vec::new(), Vec::new());
        for place in 0..self.kind.blobs {
            let unique = number.wrapping_mul(1 << 20).wrapping_add(place as u64);
            let drawn = usize::try_from(super::content::mix(unique ^ self.run)).unwrap_or(0);
            let drawn = drawn % self.bodies.len();
            let body = &self.bodies[drawn];
            body.content(&stamp(self.run, unique), &mut content);
            let id = object_id(self.hash, ObjectKind::Blob, &content);
            let delta = self
                .bases
                .get(drawn)
                .and_then(|base| Some((base.id, encode_delta(&base.content, &content)?)));
            match delta {
                Some((base, delta)) => pack.stored(EntryKind::RefDelta { base }, &delta),
                None => pack.blob(body, &content),
            }
            tree_entry(&mut tree, place, &id);
        }
        pack.stored(EntryKind::Whole(ObjectKind::Tree), &tree);
        Parcel {
            tree: object_id(self.hash, ObjectKind::Tree, &tree),
            checksum: pack.checksum(),
            bytes: pack.bytes,
            number,
        }
    }

    /// A whole pack with the bases of this kind's deltas, to be pushed before any of them. `None`
    /// if there are none.
    pub(super) fn seed(&self, number: u64) -> Option<Parcel> {
        if self.bases.is_empty() {
            return None;
        }
        let mut pack = Writer::new(self.hash, self.bases.len() + 2);
        let mut tree = Vec::new();
        for (place, (body, base)) in self.bodies.iter().zip(&self.bases).enumerate() {
            pack.blob(body, &base.content);
            tree_entry(&mut tree, place, &base.id);
        }
        pack.stored(EntryKind::Whole(ObjectKind::Tree), &tree);
        Some(Parcel {
            tree: object_id(self.hash, ObjectKind::Tree, &tree),
            checksum: pack.checksum(),
            bytes: pack.bytes,
            number,
        })
    }

    fn base(&self, body: &Body) -> Base {
        let mut content = Vec::new();
        body.content(&stamp(self.run, u64::MAX), &mut content);
        Base { id: object_id(self.hash, ObjectKind::Blob, &content), content }
    }
}

impl Parcel {
    /// Puts the commit on, on top of `parent`, dated `seconds` after 1970.
    pub(super) fn seal(&self, parent: Option<&ObjectId>, seconds: u64) -> Sealed {
        let mut text = String::with_capacity(320);
        // Writing to a string does not fail.
        let _ = writeln!(text, "tree {}", self.tree);
        if let Some(parent) = parent {
            let _ = writeln!(text, "parent {parent}");
        }
        for role in ["author", "committer"] {
            let _ =
                writeln!(text, "{role} packhouse load <load@packhouse.invalid> {seconds} +0000");
        }
        let _ = write!(text, "\npush {}\n", self.number);
        let content = text.as_bytes();
        let mut end = Vec::with_capacity(content.len() + 64);
        let kind = EntryKind::Whole(ObjectKind::Commit);
        EntryHeader { kind, size: content.len() as u64 }.encode(self.bytes.len() as u64, &mut end);
        append_stored_zlib(content, &mut end);
        let mut checksum = self.checksum.clone();
        checksum.update(&end);
        end.extend_from_slice(checksum.finish().as_slice());
        Sealed { commit: object_id(self.tree.kind(), ObjectKind::Commit, content), end }
    }

    /// The pack up to its commit.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of memory that it takes.
    pub(super) fn footprint(&self) -> usize {
        self.bytes.capacity() + size_of::<Self>()
    }
}

/// The id of an object.
pub(super) fn object_id(hash: HashKind, kind: ObjectKind, content: &[u8]) -> ObjectId {
    let mut checksum = Checksum::new(hash);
    let mut header = [0_u8; 32];
    let text = {
        use std::io::Write as _;
        let mut rest = &mut header[..];
        let room = rest.len();
        let _ = write!(rest, "{kind} {}\0", content.len());
        room - rest.len()
    };
    checksum.update(&header[..text]);
    checksum.update(content);
    checksum.finish()
}

/// The front of a pack, whose number of entries is known.
struct Writer {
    bytes: Vec<u8>,
    hash: HashKind,
}

impl Writer {
    fn new(hash: HashKind, entries: usize) -> Self {
        let count = u32::try_from(entries).unwrap_or(u32::MAX);
        Self { bytes: PackHeader { version: 2, count }.encode().to_vec(), hash }
    }

    fn blob(&mut self, body: &Body, content: &[u8]) {
        self.header(EntryKind::Whole(ObjectKind::Blob), content.len());
        body.append_zlib(content, &mut self.bytes);
    }

    fn stored(&mut self, kind: EntryKind, content: &[u8]) {
        self.header(kind, content.len());
        append_stored_zlib(content, &mut self.bytes);
    }

    fn header(&mut self, kind: EntryKind, size: usize) {
        let offset = self.bytes.len() as u64;
        EntryHeader { kind, size: size as u64 }.encode(offset, &mut self.bytes);
    }

    fn checksum(&self) -> Checksum {
        let mut checksum = Checksum::new(self.hash);
        checksum.update(&self.bytes);
        checksum
    }
}

fn tree_entry(tree: &mut Vec<u8>, place: usize, id: &ObjectId) {
    // Of a fixed width, so that their order is the tree's.
    tree.extend_from_slice(format!("100644 f{place:06}\0").as_bytes());
    tree.extend_from_slice(id.as_slice());
}

/// Bodies that blobs of one size share, if they are small.
const VARIANTS: u64 = 4;
const SMALL_BYTES: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;
    use std::path::Path;
    use std::process::{Command, Stdio};

    fn git(directory: &Path, arguments: &[&str], input: &[u8]) -> String {
        let mut child = Command::new("git")
            .current_dir(directory)
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input).unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "git {arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn whole(parcel: &Parcel, parent: Option<&ObjectId>) -> (ObjectId, Vec<u8>) {
        let sealed = parcel.seal(parent, 1_700_000_000);
        (sealed.commit, [parcel.bytes(), &sealed.end].concat())
    }

    #[test]
    fn git_takes_the_packs_and_finds_the_history_sound() {
        for format in ["sha1", "sha256"] {
            let directory = tempfile::tempdir().unwrap();
            let repository = directory.path();
            git(repository, &["init", "-q", "--bare", "--object-format", format, "."], b"");
            let hash = if format == "sha1" { HashKind::Sha1 } else { HashKind::Sha256 };
            let thin = PushKind { thin: true, sizes: vec![900, 3000], ..PushKind::plain(3, 1) };
            let maker = ParcelMaker::new(thin, hash, 99);
            let take = |pack: &[u8]| {
                git(repository, &["index-pack", "--stdin", "--fix-thin", "--strict"], pack)
            };
            let (seed, pack) = whole(&maker.seed(0).unwrap(), None);
            take(&pack);
            let plain = ParcelMaker::new(PushKind::plain(2, 300), hash, 99);
            let (first, pack) = whole(&plain.make(1), Some(&seed));
            take(&pack);
            let (second, pack) = whole(&maker.make(2), Some(&first));
            assert!(pack.len() < 900, "three deltas in {} bytes", pack.len());
            take(&pack);
            git(repository, &["update-ref", "refs/heads/main", &second.to_string()], b"");
            assert_eq!(git(repository, &["fsck", "--full", "--strict"], b""), "");
            assert_eq!(git(repository, &["rev-list", "--count", "main"], b""), "3");
            assert_eq!(
                git(repository, &["ls-tree", "--name-only", "main"], b"").lines().count(),
                3
            );
        }
    }

    #[test]
    fn a_parcel_can_be_sealed_again_on_another_parent() {
        let maker = ParcelMaker::new(PushKind::plain(1, 100), HashKind::Sha1, 1);
        let parcel = maker.make(5);
        let (alone, first) = whole(&parcel, None);
        let (on_top, second) = whole(&parcel, Some(&alone));
        assert_ne!(alone, on_top);
        assert_eq!(first[..parcel.bytes().len()], second[..parcel.bytes().len()]);
        assert_eq!(whole(&maker.make(5), None), (alone, first));
    }

    #[test]
    fn no_two_parcels_hold_the_same_objects() {
        let maker = ParcelMaker::new(PushKind::plain(2, 64), HashKind::Sha1, 1);
        let other = ParcelMaker::new(PushKind::plain(2, 64), HashKind::Sha1, 2);
        let trees = [maker.make(1).tree, maker.make(2).tree, other.make(1).tree];
        assert!(trees[0] != trees[1] && trees[0] != trees[2]);
    }
}
