//! What a quarantine holds: in its directory, and in memory.

use super::super::disk::{Disk, EntryKind};
use super::super::flush_policy::Component;
use super::super::held_directory::HeldDirectory;
use super::new_file::Arriving;
use super::staged::Staged;
use crate::model::{HashKind, ObjectId};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files of a quarantine, sorted by what they are.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// Loose objects.
    pub(super) loose: Vec<(ObjectId, Source)>,
    /// Files of the pack directory in the order in which they are to be moved.
    pub(super) packs: Vec<PackFile>,
    /// What is neither, such as temporary files of a hook that was killed.
    pub(super) left: Vec<PathBuf>,
}

/// A file of the pack directory.
#[derive(Debug)]
pub(super) struct PackFile {
    pub(super) role: PackRole,
    pub(super) name: OsString,
    pub(super) source: Source,
}

/// Where the bytes of a file are, before it gets its name among the repository's objects.
#[derive(Debug)]
pub(super) enum Source {
    /// In the directory of the quarantine.
    Quarantined(PathBuf),
    /// In memory.
    Held(Vec<u8>),
    /// In the directory where it is to stay, under a temporary name.
    Staged(Staged),
}

impl Source {
    /// The path in the quarantine, if it is there.
    pub(super) fn in_quarantine(&self) -> Option<&Path> {
        match self {
            Self::Quarantined(path) => Some(path),
            Self::Held(_) | Self::Staged(_) => None,
        }
    }

    /// The bytes, to be compared with those of another file.
    pub(super) fn arriving(&self) -> Arriving<'_> {
        match self {
            Self::Quarantined(path) => Arriving::File(path),
            Self::Held(bytes) => Arriving::Bytes(bytes),
            Self::Staged(staged) => Arriving::File(staged.path()),
        }
    }
}

/// What a file of the pack directory is; in the order in which they are to be moved. The index
/// comes last: by it a reader finds the pack, and everything else must be there by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PackRole {
    Keep,
    Pack,
    ReverseIndex,
    Other,
    Index,
}

impl PackRole {
    fn of(name: &OsStr) -> Self {
        match Path::new(name).extension().map(OsStr::as_bytes) {
            Some(b"keep") => Self::Keep,
            Some(b"pack") => Self::Pack,
            Some(b"rev") => Self::ReverseIndex,
            Some(b"idx") => Self::Index,
            _ => Self::Other,
        }
    }

    /// What the name of such a file begins with until it gets its own; git's names.
    pub(super) fn temporary_prefix(self) -> &'static str {
        match self {
            Self::Pack => "tmp_pack_",
            Self::ReverseIndex => "tmp_rev_",
            Self::Keep | Self::Other | Self::Index => "tmp_idx_",
        }
    }

    pub(super) fn component(self) -> Component {
        match self {
            Self::Pack => Component::Pack,
            Self::Keep | Self::ReverseIndex | Self::Other | Self::Index => Component::PackMetadata,
        }
    }
}

impl Contents {
    /// Lists a quarantine, following no symbolic link.
    pub(super) fn list(
        disk: &Disk,
        quarantine: &HeldDirectory,
        hash: HashKind,
    ) -> io::Result<Self> {
        let mut contents = Self::default();
        for entry in quarantine.list(disk)? {
            let path = quarantine.path().join(&entry.name);
            let name = entry.name.as_bytes();
            let is_fan_out = name.len() == 2 && name.iter().all(u8::is_ascii_hexdigit);
            let is_pack = name == b"pack";
            if entry.kind != EntryKind::Directory || !(is_fan_out || is_pack) {
                contents.left.push(path);
                continue;
            }
            let Some(below) = quarantine.below(&entry.name)? else { continue };
            if is_pack {
                contents.list_packs(disk, &below)?;
            } else {
                contents.list_loose(disk, &below, hash)?;
            }
        }
        Ok(contents)
    }

    /// Adds a file that is in memory, by its name below the quarantine.
    pub(super) fn add_held(&mut self, name: PathBuf, bytes: Vec<u8>) {
        let (directory, file) = (name.parent(), name.file_name().unwrap_or_default());
        let source = Source::Held(bytes);
        if directory == Some(Path::new("pack")) {
            self.packs.push(PackFile { role: PackRole::of(file), name: file.to_owned(), source });
            return;
        }
        let digits = directory.unwrap_or(Path::new("")).as_os_str().as_bytes();
        match ObjectId::from_hex(&[digits, file.as_bytes()].concat()) {
            Ok(id) => self.loose.push((id, source)),
            Err(_) => self.left.push(name),
        }
    }

    /// Puts everything in the order in which it is to be moved.
    pub(super) fn sort(&mut self) {
        self.loose.sort_by_key(|(id, _)| *id);
        self.packs.sort_by(|one, other| (one.role, &one.name).cmp(&(other.role, &other.name)));
    }

    fn list_loose(
        &mut self,
        disk: &Disk,
        fan_out: &HeldDirectory,
        hash: HashKind,
    ) -> io::Result<()> {
        let prefix = fan_out.path().file_name().unwrap_or_default().as_bytes();
        for entry in fan_out.list(disk)? {
            let path = fan_out.path().join(&entry.name);
            let hex = [prefix, entry.name.as_bytes()].concat();
            match ObjectId::from_hex(&hex) {
                Ok(id) if entry.kind == EntryKind::File && id.kind() == hash => {
                    self.loose.push((id, Source::Quarantined(path)));
                }
                _ => self.left.push(path),
            }
        }
        Ok(())
    }

    fn list_packs(&mut self, disk: &Disk, directory: &HeldDirectory) -> io::Result<()> {
        for entry in directory.list(disk)? {
            let path = directory.path().join(&entry.name);
            // Temporary files begin with `tmp_` or a dot; whatever belongs to a pack with `pack-`.
            if entry.kind == EntryKind::File && entry.name.as_bytes().starts_with(b"pack-") {
                let (role, source) = (PackRole::of(&entry.name), Source::Quarantined(path));
                self.packs.push(PackFile { role, name: entry.name, source });
            } else {
                self.left.push(path);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn files_are_sorted_by_what_they_are() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        for directory in ["ab", "pack", "info", "AB"] {
            fs::create_dir(path.join(directory)).unwrap();
        }
        let id = "ab".repeat(20);
        for file in [
            &format!("ab/{}", &id[2..]),
            "ab/tmp_obj_x",
            &format!("ab/{}", "c".repeat(62)),
            "pack/pack-1.idx",
            "pack/pack-1.pack",
            "pack/pack-1.rev",
            "pack/pack-1.bitmap",
            "pack/pack-1.keep",
            "pack/tmp_pack_x",
            "pack/multi-pack-index",
            "info/x",
            "stray",
        ] {
            fs::write(path.join(file), b"").unwrap();
        }
        std::os::unix::fs::symlink("/etc/passwd", path.join("pack/pack-2.pack")).unwrap();
        let directory = HeldDirectory::open(path).unwrap().unwrap();
        let mut contents = Contents::list(&Disk::default(), &directory, HashKind::Sha1).unwrap();
        contents.sort();
        let [(found, _)] = &contents.loose[..] else { panic!("{contents:?}") };
        assert_eq!(found.to_string(), id);
        let names: Vec<_> =
            contents.packs.iter().map(|file| Path::new(&file.name).extension().unwrap()).collect();
        assert_eq!(names, ["keep", "pack", "rev", "bitmap", "idx"]);
        assert_eq!(contents.left.len(), 7);
    }
}
