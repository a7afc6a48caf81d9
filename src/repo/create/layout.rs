//! What a fresh repository consists of: how it is filled, recognised and taken apart.

use crate::model::{HashKind, RefName};
use crate::repo::{Component, Disk, EntryKind};
use std::io::{self, Write};
use std::path::Path;

/// Beside a repository, the name it has before it is whole and after it was given up.
pub(in crate::repo) const TEMPORARY_PREFIX: &str = ".tmp-packhouse-";

const FILE_MODE: u32 = 0o666;
pub(super) const DIRECTORY_MODE: u32 = 0o777;

/// Each directory after the one it lies in.
const DIRECTORIES: [&str; 6] =
    ["objects", "objects/info", "objects/pack", "refs", "refs/heads", "refs/tags"];

/// Puts the files and directories of a fresh repository into an empty directory and flushes them
/// all, that directory with them.
pub(super) fn fill(disk: &Disk, git_dir: &Path, hash: HashKind, head: &RefName) -> io::Result<()> {
    let mut head_text = b"ref: ".to_vec();
    head_text.extend_from_slice(head.as_bstr());
    head_text.push(b'\n');
    for (name, content) in [("HEAD", head_text.as_slice()), ("config", config_of(hash).as_bytes())]
    {
        let mut file = disk.create_file(&git_dir.join(name), FILE_MODE)?;
        file.write_all(content)?;
        file.flush_as(Component::Reference)?;
    }
    for name in DIRECTORIES {
        disk.create_directory(&git_dir.join(name), DIRECTORY_MODE)?;
    }
    for name in DIRECTORIES.iter().rev() {
        disk.flush_directory(&git_dir.join(name), Component::Reference)?;
    }
    disk.flush_directory(git_dir, Component::Reference)
}

/// Whether there is nothing in a directory but what [`fill`] put there.
pub(super) fn is_untouched(disk: &Disk, git_dir: &Path) -> io::Result<bool> {
    if !holds_only(disk, git_dir, &["HEAD", "config", "objects", "refs"])?
        || !holds_only(disk, &git_dir.join("objects"), &["info", "pack"])?
        || !holds_only(disk, &git_dir.join("refs"), &["heads", "tags"])?
    {
        return Ok(false);
    }
    for name in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
        if !holds_only(disk, &git_dir.join(name), &[])? {
            return Ok(false);
        }
    }
    let config = disk.read_if_there(&git_dir.join("config"), CONFIG_BYTES_MAX)?;
    Ok(config.is_some_and(|config| {
        [HashKind::Sha1, HashKind::Sha256].iter().any(|hash| config_of(*hash).as_bytes() == config)
    }))
}

/// Takes apart what [`fill`] made, or a part of it; nothing else is removed. `objects` goes
/// first: after it nothing can land. False if something had landed before; `objects` is then
/// whole again and the rest was not touched.
///
/// An error of the kind `DirectoryNotEmpty` says that something else lies there, which stays.
pub(in crate::repo) fn take_apart(disk: &Disk, git_dir: &Path) -> io::Result<bool> {
    let objects = DIRECTORIES.iter().rev().filter(|name| name.starts_with("objects"));
    for name in objects {
        match disk.remove_directory(&git_dir.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                restore_objects(disk, git_dir)?;
                return Ok(false);
            }
            result => result?,
        };
    }
    for name in DIRECTORIES.iter().rev().filter(|name| name.starts_with("refs")) {
        disk.remove_directory(&git_dir.join(name))?;
    }
    disk.unlink(&git_dir.join("config"))?;
    disk.unlink(&git_dir.join("HEAD"))?;
    disk.remove_directory(git_dir)?;
    Ok(true)
}

/// Whether a directory has the shape of a repository. Looser than git, which also reads HEAD: this
/// decides where nothing is created and what is walked into, and a damaged repository is one too.
pub(in crate::repo) fn is_repository(disk: &Disk, path: &Path) -> io::Result<bool> {
    let is_directory = |name| -> io::Result<bool> {
        Ok(disk.stat(&path.join(name))?.is_some_and(|stat| stat.kind == EntryKind::Directory))
    };
    Ok(disk.stat_link(&path.join("HEAD"))?.is_some()
        && is_directory("objects")?
        && is_directory("refs")?)
}

fn restore_objects(disk: &Disk, git_dir: &Path) -> io::Result<()> {
    for name in DIRECTORIES.iter().filter(|name| name.starts_with("objects")) {
        match disk.create_directory(&git_dir.join(name), DIRECTORY_MODE) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            result => result?,
        }
    }
    disk.flush_directory(&git_dir.join("objects"), Component::Reference)
}

fn holds_only(disk: &Disk, directory: &Path, names: &[&str]) -> io::Result<bool> {
    let Some(entries) = crate::repo::disk::absent_is_none(disk.list(directory))? else {
        return Ok(false);
    };
    Ok(entries.len() == names.len()
        && entries.iter().all(|entry| names.iter().any(|name| entry.name == *name)))
}

/// The comment marks the repository as one that may be taken away again; git, and whoever reads
/// the file, see that too.
fn config_of(hash: HashKind) -> &'static str {
    match hash {
        HashKind::Sha256 => {
            "# made by packhouse for a push\n\
             [core]\n\
             \trepositoryformatversion = 1\n\
             \tfilemode = true\n\
             \tbare = true\n\
             [extensions]\n\
             \tobjectFormat = sha256\n"
        }
        _ => {
            "# made by packhouse for a push\n\
             [core]\n\
             \trepositoryformatversion = 0\n\
             \tfilemode = true\n\
             \tbare = true\n"
        }
    }
}

/// Longer is not ours.
const CONFIG_BYTES_MAX: u64 = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn filled() -> (Disk, tempfile::TempDir) {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let head = RefName::new("refs/heads/main").unwrap();
        disk.create_directory(&root.path().join("r"), 0o777).unwrap();
        fill(&disk, &root.path().join("r"), HashKind::Sha1, &head).unwrap();
        (disk, root)
    }

    #[test]
    fn what_was_filled_is_untouched_until_anything_is_added_changed_or_taken() {
        type Change = fn(&Path);
        let changes: &[Change] = &[
            |path| fs::write(path.join("packed-refs"), "").unwrap(),
            |path| fs::write(path.join("refs/heads/main"), "").unwrap(),
            |path| fs::write(path.join("refs/stash"), "").unwrap(),
            |path| fs::create_dir(path.join("objects/00")).unwrap(),
            |path| fs::create_dir(path.join("objects/tmp_objdir-incoming-abcdef")).unwrap(),
            |path| fs::write(path.join("objects/info/alternates"), "/x\n").unwrap(),
            |path| fs::write(path.join("objects/pack/p.pack"), "").unwrap(),
            |path| fs::create_dir(path.join("hooks")).unwrap(),
            |path| fs::write(path.join("config"), "[core]\n\tbare = true\n").unwrap(),
            |path| fs::remove_file(path.join("config")).unwrap(),
            |path| fs::remove_dir(path.join("refs/tags")).unwrap(),
            |path| fs::remove_dir_all(path.join("objects")).unwrap(),
        ];
        let (disk, root) = filled();
        assert!(is_untouched(&disk, &root.path().join("r")).unwrap());
        for (number, change) in changes.iter().enumerate() {
            let (disk, root) = filled();
            change(&root.path().join("r"));
            assert!(!is_untouched(&disk, &root.path().join("r")).unwrap(), "change {number}");
        }
    }

    #[test]
    fn what_was_filled_can_be_taken_apart_whole_or_in_part() {
        let (disk, root) = filled();
        let path = root.path().join("r");
        fs::remove_file(path.join("config")).unwrap();
        fs::remove_dir(path.join("refs/tags")).unwrap();
        assert!(take_apart(&disk, &path).unwrap());
        assert!(!path.exists());
        assert!(take_apart(&disk, &path).unwrap());
    }

    #[test]
    fn a_quarantine_or_an_object_that_came_meanwhile_stops_the_removal() {
        for name in ["objects/tmp_objdir-incoming-abcdef", "objects/pack/pack-1.pack"] {
            let (disk, root) = filled();
            let path = root.path().join("r");
            fs::create_dir(path.join(name)).unwrap();
            assert!(!take_apart(&disk, &path).unwrap());
            for name in DIRECTORIES.iter().chain(&["HEAD", "config", name]) {
                assert!(path.join(name).exists(), "{name}");
            }
        }
    }

    #[test]
    fn nothing_is_removed_that_was_not_filled_in() {
        let (disk, root) = filled();
        let path = root.path().join("r");
        fs::create_dir(path.join("hooks")).unwrap();
        let error = take_apart(&disk, &path).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::DirectoryNotEmpty);
        assert!(path.join("hooks").exists());
    }

    #[test]
    fn a_repository_is_known_by_its_shape() {
        let (disk, root) = filled();
        let path = root.path().join("r");
        assert!(is_repository(&disk, &path).unwrap());
        assert!(!is_repository(&disk, root.path()).unwrap());
        assert!(!is_repository(&disk, &root.path().join("none")).unwrap());
        fs::remove_file(path.join("HEAD")).unwrap();
        assert!(!is_repository(&disk, &path).unwrap());
    }
}
