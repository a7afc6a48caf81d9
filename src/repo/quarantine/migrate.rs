//! From the quarantine to the repository's objects.

use super::super::change_set::ChangeSet;
use super::super::disk::Disk;
use super::super::durable_file::DurableFile;
use super::super::flush_policy::Component;
use super::super::held_directory::{FileIdentity, HeldDirectory};
use super::super::keep::KeepRegistry;
use super::super::loose::{LooseComparison, compare_loose, loose_path};
use super::super::repository::Repository;
use super::contents::{Contents, PackFile, PackRole, Source};
use super::outcome::{MigrateError, Migrated, MigratedPack};
use super::packs::{self, PackComparison};
use super::received::Received;
use super::staged::{MadeDirectories, Staged};
use crate::model::ObjectId;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

/// How often a fan-out directory may be taken away before a file is in it.
const ATTEMPTS_MAX: u32 = 1000;

/// LIMIT: files that are open at once, written and not flushed yet.
const UNFLUSHED_MAX: usize = 64;

/// The directory of a quarantine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area<'a> {
    pub(super) path: &'a Path,
    pub(super) identity: FileIdentity,
}

/// Flushes and moves whatever the quarantine holds, if all that was received is there as it was:
/// `held` in memory, everything else in its directory, if there is one.
pub(super) fn run(
    repository: &Repository,
    area: Option<Area<'_>>,
    held: Vec<(PathBuf, Vec<u8>)>,
    received: Received,
    keeps: &KeepRegistry,
) -> Result<Migrated, MigrateError> {
    let (disk, objects_dir) = (repository.disk(), repository.objects_dir());
    let on_disk = |source| MigrateError::Disk { path: objects_dir.to_owned(), source };
    let mut contents = match area {
        Some(area) => list(repository, area)?,
        None => Contents::default(),
    };
    let altered = received.altered(disk, &contents).map_err(on_disk)?;
    if !altered.is_empty() {
        let received = received.len().saturating_add(held.len());
        return Err(MigrateError::Altered { altered, received });
    }
    for (name, bytes) in held {
        contents.add_held(name, bytes);
    }
    contents.sort();
    let made = MadeDirectories::new(disk);
    let mut migration = Migration {
        repository,
        disk,
        contents,
        received,
        indexes: HashMap::new(),
        loose_files: Vec::new(),
        made,
    };
    migration.refuse_collisions()?;
    migration.make_durable().map_err(on_disk)?;
    migration.name(keeps)
}

/// Lists the quarantine itself, never what else has got its path.
fn list(repository: &Repository, area: Area<'_>) -> Result<Contents, MigrateError> {
    let on_disk = |source| MigrateError::Disk { path: repository.objects_dir().to_owned(), source };
    let replaced = || MigrateError::Replaced { path: area.path.to_owned() };
    match HeldDirectory::open(area.path) {
        Ok(Some(directory)) if directory.identity() == area.identity => {
            Contents::list(repository.disk(), &directory, repository.hash()).map_err(on_disk)
        }
        // Removed, as by `git prune`: that is as good as empty.
        Ok(None) => Ok(Contents::default()),
        Ok(Some(_)) => Err(replaced()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => Err(replaced()),
        Err(error) => Err(on_disk(error)),
    }
}

/// A file that is where it is to be flushed.
#[derive(Default)]
struct Written {
    /// Open, if it is to be flushed.
    file: Option<DurableFile>,
    /// Its bytes, if they were in memory.
    held: Option<Vec<u8>>,
}

struct Migration<'a> {
    repository: &'a Repository,
    disk: &'a Disk,
    contents: Contents,
    received: Received,
    /// The bytes of indexes that were in memory, by the name of the file.
    indexes: HashMap<OsString, Vec<u8>>,
    /// The bytes of loose objects that were in memory.
    loose_files: Vec<(ObjectId, Vec<u8>)>,
    /// Last, so that files that have to go have gone.
    made: MadeDirectories,
}

impl Migration<'_> {
    /// Compares with what is there under the same names, before anything changes. What is equal
    /// or damaged will be replaced: ours is flushed, theirs may not be.
    fn refuse_collisions(&self) -> Result<(), MigrateError> {
        let (hash, objects_dir) = (self.repository.hash(), self.repository.objects_dir());
        for (id, source) in &self.contents.loose {
            let existing = loose_path(objects_dir, id);
            match compare_loose(self.disk, &existing, source.arriving(), id) {
                Ok(LooseComparison::Different) => {
                    return Err(MigrateError::LooseCollision { id: *id });
                }
                Ok(_) => {}
                Err(source) => return Err(MigrateError::Compare { id: *id, source }),
            }
        }
        for file in self.contents.packs.iter().filter(|file| file.role == PackRole::Pack) {
            let existing = self.pack_directory().join(&file.name);
            let compared = packs::compare(self.disk, &existing, file.source.arriving(), hash)
                .map_err(|source| MigrateError::Disk { path: objects_dir.to_owned(), source })?;
            if compared == PackComparison::Different {
                return Err(MigrateError::PackCollision { path: existing });
            }
        }
        Ok(())
    }

    /// Makes the bytes of all files durable, having written those that are in memory alone where
    /// they are to stay. They are not all open at once: there may be more of them than a process
    /// may have descriptors.
    fn make_durable(&mut self) -> io::Result<()> {
        let mut unflushed = Vec::new();
        let mut loose = std::mem::take(&mut self.contents.loose);
        for (id, source) in &mut loose {
            let path = loose_path(self.repository.objects_dir(), id);
            let fan_out = path.parent().unwrap_or(self.repository.objects_dir());
            let component = Component::LooseObject;
            let Written { file, held } = self.written(source, fan_out, "tmp_obj_", component)?;
            self.loose_files.extend(held.map(|bytes| (*id, bytes)));
            flush_in_groups(self.disk, &mut unflushed, file, component)?;
        }
        let mut packs = std::mem::take(&mut self.contents.packs);
        for PackFile { role, name, source } in &mut packs {
            let (directory, component) = (self.pack_directory(), role.component());
            let prefix = role.temporary_prefix();
            let Written { file, held } = self.written(source, &directory, prefix, component)?;
            if let (PackRole::Index, Some(bytes)) = (&*role, held) {
                self.indexes.insert(name.clone(), bytes);
            }
            flush_in_groups(self.disk, &mut unflushed, file, component)?;
        }
        (self.contents.loose, self.contents.packs) = (loose, packs);
        flush(self.disk, &unflushed)
    }

    /// The file of a source. Bytes in memory are written.
    fn written(
        &mut self,
        source: &mut Source,
        directory: &Path,
        prefix: &str,
        component: Component,
    ) -> io::Result<Written> {
        match source {
            Source::Held(bytes) => {
                let bytes = std::mem::take(bytes);
                let (staged, file) = self.stage(directory, prefix, &bytes)?;
                *source = Source::Staged(staged);
                Ok(Written { file: Some(file), held: Some(bytes) })
            }
            Source::Quarantined(path) => {
                let file = match self.received.take(path) {
                    Some(file) => Some(file),
                    None if !self.disk.policy().flushes(component) => None,
                    None => Some(self.disk.open_to_flush(path)?),
                };
                Ok(Written { file, held: None })
            }
            Source::Staged(_) => Ok(Written::default()),
        }
    }

    /// Writes bytes to a directory among the objects, which git's gc removes whenever it is empty:
    /// made again as often as that happens.
    fn stage(
        &mut self,
        directory: &Path,
        prefix: &str,
        bytes: &[u8],
    ) -> io::Result<(Staged, DurableFile)> {
        let mut attempts = 0;
        loop {
            match Staged::write(self.repository, directory, prefix, bytes) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                    self.create_directory(directory)?;
                }
                staged => return staged,
            }
        }
    }

    /// Gives all files their names, and makes the names durable.
    fn name(mut self, keeps: &KeepRegistry) -> Result<Migrated, MigrateError> {
        let mut migrated = Migrated::default();
        self.name_loose(&mut migrated)?;
        self.name_packs(&mut migrated, keeps)?;
        self.made.settle();
        migrated.left = std::mem::take(&mut self.contents.left);
        migrated.loose_files = std::mem::take(&mut self.loose_files);
        Ok(migrated)
    }

    fn name_loose(&mut self, migrated: &mut Migrated) -> Result<(), MigrateError> {
        let objects_dir = self.repository.objects_dir();
        let mut fan_outs = BTreeSet::new();
        for (id, mut source) in std::mem::take(&mut self.contents.loose) {
            let destination = loose_path(objects_dir, &id);
            let fan_out = destination.parent().unwrap_or(objects_dir).to_owned();
            self.rename(&mut source, &fan_out, &destination)?;
            fan_outs.insert(fan_out);
            migrated.loose.push(id);
        }
        if fan_outs.is_empty() {
            return Ok(());
        }
        if !self.disk.policy().flushes_directories_of(Component::LooseObject) {
            return Ok(());
        }
        // And the one that names them, whoever made them: another's may not be durable yet.
        let directories: Vec<PathBuf> =
            fan_outs.into_iter().chain([objects_dir.to_owned()]).collect();
        let flushed = self.disk.flush_together(&directories, |directory| {
            match self.disk.flush_directory(directory, Component::LooseObject) {
                // A gc has packed what was in a fan-out directory and taken it away since.
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && directory != objects_dir =>
                {
                    Ok(())
                }
                flushed => flushed,
            }
        });
        flushed.map_err(|source| MigrateError::Disk { path: objects_dir.to_owned(), source })
    }

    fn name_packs(
        &mut self,
        migrated: &mut Migrated,
        keeps: &KeepRegistry,
    ) -> Result<(), MigrateError> {
        let (objects_dir, directory) = (self.repository.objects_dir(), self.pack_directory());
        let on_disk = |source| MigrateError::Disk { path: objects_dir.to_owned(), source };
        let packs = std::mem::take(&mut self.contents.packs);
        let is_quarantined = |file: &PackFile| matches!(file.source, Source::Quarantined(_));
        if packs.iter().any(is_quarantined)
            && self.disk.stat(&directory).map_err(on_disk)?.is_none()
        {
            self.create_directory(&directory).map_err(on_disk)?;
        }
        self.hold_keeps(&packs, migrated, keeps).map_err(on_disk)?;
        let mut directories = ChangeSet::new();
        if self.made.has(&directory) {
            directories.add_directory(objects_dir.to_owned(), Component::Pack);
        }
        for PackFile { role, name, mut source } in packs {
            if role == PackRole::Keep {
                continue;
            }
            let destination = directory.join(&name);
            self.rename(&mut source, &directory, &destination)?;
            directories.add_directory(directory.clone(), role.component());
            if role == PackRole::Pack {
                let index = Path::new(&name).with_extension("idx").into_os_string();
                let index = self.indexes.remove(&index);
                migrated.packs.push(MigratedPack { path: destination, index });
            }
        }
        directories.commit(self.disk).map_err(on_disk)
    }

    /// Sees to it that every pack has a keep file before its index is there: its own, if a hook
    /// made one, else one of this process.
    fn hold_keeps(
        &self,
        packs: &[PackFile],
        migrated: &mut Migrated,
        keeps: &KeepRegistry,
    ) -> io::Result<()> {
        let directory = self.pack_directory();
        let mut kept = BTreeSet::new();
        for file in packs.iter().filter(|file| file.role == PackRole::Keep) {
            if let Some(from) = file.source.in_quarantine() {
                let to = directory.join(&file.name);
                migrated.keeps.push(keeps.hold(self.disk, from, &to)?);
                kept.insert(to);
            }
        }
        for file in packs.iter().filter(|file| file.role == PackRole::Pack) {
            let to = directory.join(&file.name).with_extension("keep");
            if !kept.contains(&to) {
                migrated.keeps.push(keeps.hold_new(self.disk, &to)?);
            }
        }
        Ok(())
    }

    /// Gives a file its name in a directory among the objects.
    fn rename(
        &mut self,
        source: &mut Source,
        directory: &Path,
        to: &Path,
    ) -> Result<(), MigrateError> {
        let objects_dir = self.repository.objects_dir();
        let on_disk = |source| MigrateError::Disk { path: objects_dir.to_owned(), source };
        match source {
            Source::Staged(staged) => match staged.rename(to) {
                // A prune that spares nothing takes temporary files as well.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let altered = vec![staged.path().to_owned()];
                    Err(MigrateError::Altered { altered, received: 1 })
                }
                renamed => renamed.map_err(on_disk),
            },
            Source::Quarantined(from) => {
                let mut attempts = 0;
                loop {
                    if directory != self.pack_directory() {
                        self.create_directory(directory).map_err(on_disk)?;
                    }
                    match self.disk.rename(from, to) {
                        Err(error)
                            if error.kind() == io::ErrorKind::NotFound
                                && attempts < ATTEMPTS_MAX =>
                        {
                            attempts += 1;
                        }
                        renamed => return renamed.map_err(on_disk),
                    }
                }
            }
            Source::Held(_) => Err(on_disk(io::Error::other("the file was not written"))),
        }
    }

    /// Makes a directory among the objects, unless it is there.
    ///
    /// Called right before it is needed, since git's prune takes empty ones away.
    fn create_directory(&mut self, path: &Path) -> io::Result<()> {
        match self.disk.create_directory(path, 0o777) {
            Ok(()) => self.made.note(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
            Err(error) => return Err(error),
        }
        self.repository.permissions().share_directory(self.disk, path)
    }

    fn pack_directory(&self) -> PathBuf {
        self.repository.objects_dir().join("pack")
    }
}

/// Adds a file to those that are written and not flushed; flushes all when they are many.
fn flush_in_groups(
    disk: &Disk,
    unflushed: &mut Vec<(DurableFile, Component)>,
    file: Option<DurableFile>,
    component: Component,
) -> io::Result<()> {
    unflushed.extend(file.map(|file| (file, component)));
    if unflushed.len() < UNFLUSHED_MAX {
        return Ok(());
    }
    flush(disk, &std::mem::take(unflushed))
}

/// Makes the bytes of files durable.
fn flush(disk: &Disk, files: &[(DurableFile, Component)]) -> io::Result<()> {
    if !files.iter().any(|(_, component)| disk.policy().flushes(*component)) {
        return Ok(());
    }
    disk.flush_together(files, |(file, component)| file.flush_as(*component))
}

#[cfg(test)]
mod tests {
    use super::super::super::keep::KeepGuard;
    use super::super::{OWN_PREFIX, Quarantine};
    use super::*;
    use crate::model::ObjectKind;
    use crate::repo::testing::{TestPack, TestRepository};
    use crate::repo::{
        FlushPolicy, LooseWriter, NewContent, NewFile, Operation, Recorder, SharedPermissions,
    };
    use std::ffi::OsStr;
    use std::fs;
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    const HELLO: &str = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";

    struct World {
        home: TestRepository,
        repository: Repository,
        recorder: Arc<Recorder>,
        keeps: KeepRegistry,
        /// Whether what comes stays in memory.
        holds: bool,
    }

    impl World {
        fn new() -> Self {
            Self::in_directory("r.git")
        }

        fn in_directory(name: &str) -> Self {
            let home = TestRepository::bare_named(name);
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            let repository = home.open(&disk);
            Self { home, repository, recorder, keeps: KeepRegistry::default(), holds: false }
        }

        fn holding(holds: bool) -> Self {
            Self { holds, ..Self::new() }
        }

        fn quarantine(&self) -> Quarantine {
            Quarantine::new(&self.repository)
        }

        fn add(&self, quarantine: &mut Quarantine, name: PathBuf, bytes: &[u8]) -> io::Result<()> {
            let content = if self.holds {
                NewContent::Held(bytes.to_vec())
            } else {
                let path = quarantine.directory().path()?.join(&name);
                let disk = self.repository.disk();
                let parent = path.parent().unwrap();
                if !parent.exists() {
                    disk.create_directory(parent, 0o777)?;
                }
                let mut file = disk.create_file(&path, 0o444)?;
                file.write_all(bytes)?;
                NewContent::Written(file)
            };
            quarantine.adopt(NewFile { name, content })
        }

        fn add_blob(&self, quarantine: &mut Quarantine, content: &[u8]) -> io::Result<ObjectId> {
            let id = TestRepository::blob_id(content);
            let mut writer = LooseWriter::new(self.repository.disk(), SharedPermissions::Umask, 1);
            let bytes = writer.deflated(ObjectKind::Blob, content)?;
            self.add(quarantine, loose_path(Path::new(""), &id), &bytes)?;
            Ok(id)
        }

        fn add_pack(&self, quarantine: &mut Quarantine, pack: &TestPack) -> io::Result<()> {
            for (extension, bytes) in [("pack", &pack.pack), ("rev", &pack.rev), ("idx", &pack.idx)]
            {
                let name = format!("pack/pack-{}.{extension}", pack.name).into();
                self.add(quarantine, name, bytes)?;
            }
            Ok(())
        }

        /// Files below `objects`, without the directory.
        fn objects(&self) -> Vec<String> {
            self.home.files("objects")
        }

        fn operations_since(&self, count: usize) -> Vec<Operation> {
            self.recorder.operations().split_off(count)
        }
    }

    fn name_of(path: &Path) -> String {
        path.file_name().unwrap().to_string_lossy().into_owned()
    }

    #[test]
    fn everything_is_flushed_and_moved_in_order() {
        [false, true].into_iter().for_each(is_moved_in_order);
    }

    fn is_moved_in_order(holds: bool) {
        let world = World::holding(holds);
        let pack = TestPack::of(&["one", "two"]);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        world.add_pack(&mut quarantine, &pack).unwrap();
        let before = world.recorder.operations().len();
        assert_eq!(before == 0, holds, "nothing is on disk before the migration");
        let migrated = quarantine.migrate(&world.keeps).unwrap();
        let operations = world.operations_since(before);
        let moved: Vec<_> = operations
            .iter()
            .filter_map(|operation| match operation {
                Operation::Rename { to, .. } | Operation::Link { to, .. } => Some(name_of(to)),
                Operation::FlushDirectory { path } => Some(format!("flush {}", name_of(path))),
                _ => None,
            })
            .collect();
        let part = |extension: &str| format!("pack-{}.{extension}", pack.name);
        assert_eq!(
            moved,
            [
                &HELLO[2..],
                "flush b6",
                "flush objects",
                &part("keep"),
                &part("pack"),
                &part("rev"),
                &part("idx"),
                "flush pack",
            ]
        );
        let at = |wanted: fn(&Operation) -> bool| operations.iter().position(wanted).unwrap();
        let last_flush =
            operations.iter().rposition(|o| matches!(o, Operation::FlushFile { .. })).unwrap();
        assert!(last_flush < at(|o| matches!(o, Operation::Rename { .. })));
        let creations = operations.iter().filter(|o| matches!(o, Operation::CreateFile { .. }));
        // The keep file, and in memory everything.
        assert_eq!(creations.count(), if holds { 5 } else { 1 });
        assert_eq!(world.repository.disk().counts().file_flushes, 4);
        assert!(!world.objects().iter().any(|name| name.contains("tmp_")));
        assert_eq!(migrated.loose[0].to_string(), HELLO);
        let [MigratedPack { path, index }] = &migrated.packs[..] else { panic!("{migrated:?}") };
        assert_eq!(*path, world.home.path().join("objects/pack").join(part("pack")));
        assert_eq!(index.as_ref(), holds.then_some(&pack.idx));
        assert!(world.objects().contains(&format!("pack/{}", part("keep"))));
        drop(migrated);
        assert!(!world.objects().contains(&format!("pack/{}", part("keep"))));
        world.home.git(&["fsck", "--full", "--strict"]);
        assert_eq!(world.home.git(&["cat-file", "blob", HELLO]), "hello");
    }

    #[test]
    fn nothing_to_migrate_costs_no_flush() {
        let world = World::new();
        let quarantine = world.quarantine();
        quarantine.migrate(&world.keeps).unwrap();
        assert!(world.recorder.operations().is_empty());
        let quarantine = world.quarantine();
        quarantine.put_on_disk().unwrap();
        let before = world.recorder.operations().len();
        quarantine.migrate(&world.keeps).unwrap();
        let [Operation::RemoveDirectory { .. }] = &world.operations_since(before)[..] else {
            panic!("{:?}", world.recorder.operations());
        };
    }

    /// Whether the quarantine is sealed, and what is done to a file of it.
    type Change<'a> = (bool, &'a dyn Fn(&Path));

    #[test]
    fn what_was_removed_or_changed_in_quarantine_stops_the_migration() {
        let pack = TestPack::of(&["one", "two"]);
        let truncated = |path: &Path| {
            fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
            fs::write(path, b"").unwrap();
        };
        let removed = |path: &Path| fs::remove_file(path).unwrap();
        let changes: [Change<'_>; 3] = [(false, &removed), (true, &removed), (true, &truncated)];
        for (seals, change) in changes {
            for file in 0..4 {
                let world = World::new();
                let before = world.objects();
                let mut quarantine = world.quarantine();
                world.add_blob(&mut quarantine, b"hello").unwrap();
                world.add_pack(&mut quarantine, &pack).unwrap();
                if seals {
                    quarantine.seal().unwrap();
                }
                let files = [
                    format!("b6/{}", &HELLO[2..]),
                    format!("pack/pack-{}.pack", pack.name),
                    format!("pack/pack-{}.rev", pack.name),
                    format!("pack/pack-{}.idx", pack.name),
                ];
                let path = quarantine.directory().path().unwrap().join(&files[file]);
                change(&path);
                let failed = quarantine.migrate(&world.keeps);
                let Err(MigrateError::Altered { altered, received: 4 }) = failed else {
                    panic!("{file}: {failed:?}");
                };
                assert_eq!(altered, [path]);
                assert_eq!(world.objects(), before);
            }
        }
    }

    #[test]
    fn a_seal_covers_files_that_are_no_longer_open() {
        let world = World::new();
        let mut quarantine = world.quarantine();
        let mut last = PathBuf::new();
        for n in 0..300 {
            let id = world.add_blob(&mut quarantine, format!("{n}").as_bytes()).unwrap();
            last = loose_path(quarantine.directory().path().unwrap(), &id);
        }
        quarantine.seal().unwrap();
        fs::remove_file(&last).unwrap();
        fs::write(&last, b"").unwrap();
        let failed = quarantine.migrate(&world.keeps);
        assert!(matches!(failed, Err(MigrateError::Altered { altered, .. }) if altered == [last]));
    }

    #[test]
    fn a_quarantine_whose_path_is_anothers_is_neither_moved_nor_removed() {
        for link in [false, true] {
            let world = World::new();
            let mut quarantine = world.quarantine();
            world.add_blob(&mut quarantine, b"hello").unwrap();
            let path = quarantine.directory().path().unwrap().to_owned();
            let away = world.home.path().join("away");
            fs::rename(&path, &away).unwrap();
            if link {
                std::os::unix::fs::symlink(&away, &path).unwrap();
            } else {
                fs::create_dir(&path).unwrap();
            }
            let failed = quarantine.migrate(&world.keeps);
            assert!(matches!(failed, Err(MigrateError::Replaced { .. })), "{failed:?}");
            assert!(path.exists() && away.join("b6").join(&HELLO[2..]).exists());
        }
    }

    #[test]
    fn a_refused_push_leaves_nothing() {
        let world = World::new();
        let before = world.objects();
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        drop(quarantine);
        let mut quarantine = world.quarantine();
        world.add_pack(&mut quarantine, &TestPack::of(&["one"])).unwrap();
        quarantine.discard().unwrap();
        assert_eq!(world.objects(), before);
        let world = World::holding(true);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        drop(quarantine);
        assert!(world.recorder.operations().is_empty());
    }

    #[test]
    fn what_is_held_in_memory_is_on_disk_for_a_hook_and_watched_like_the_rest() {
        let pack = TestPack::of(&["one", "two"]);
        for spoils in [false, true] {
            let world = World::holding(true);
            let mut quarantine = world.quarantine();
            world.add_blob(&mut quarantine, b"hello").unwrap();
            world.add_pack(&mut quarantine, &pack).unwrap();
            quarantine.seal().unwrap();
            let environment = quarantine.environment().unwrap();
            world.home.git_with(&environment, &["cat-file", "-e", HELLO], "");
            let index = format!("pack/pack-{}.idx", pack.name);
            let path = quarantine.directory().path().unwrap().join(index);
            world.home.git_with(&environment, &["verify-pack", path.to_str().unwrap()], "");
            if spoils {
                fs::remove_file(&path).unwrap();
                let failed = quarantine.migrate(&world.keeps);
                let Err(MigrateError::Altered { altered, received: 4 }) = failed else {
                    panic!("{failed:?}");
                };
                assert_eq!(altered, [path]);
            } else {
                quarantine.migrate(&world.keeps).unwrap();
                world.home.git(&["fsck", "--full", "--strict"]);
                assert_eq!(world.home.git(&["cat-file", "blob", HELLO]), "hello");
            }
        }
    }

    #[test]
    fn a_temporary_file_that_a_prune_takes_stops_the_migration() {
        // Taken between the flush and the rename, where this test cannot come: the rename fails.
        let world = World::holding(true);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        // A file that lacks its directory, that, the file, its bytes and their flush come before.
        world.recorder.fail_at(5, io::ErrorKind::NotFound, false);
        let failed = quarantine.migrate(&world.keeps);
        assert!(matches!(failed, Err(MigrateError::Altered { .. })), "{failed:?}");
        assert!(!world.objects().iter().any(|name| name.contains("tmp_")));
    }

    #[test]
    fn what_was_in_memory_has_the_permissions_of_a_shared_repository() {
        let world = World::holding(true);
        world.home.git(&["config", "core.sharedRepository", "0640"]);
        let world = World { repository: world.home.open(world.repository.disk()), ..world };
        let objects = world.home.path().join("objects");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        let seen = quarantine.put_on_disk().unwrap().to_owned();
        let modes =
            |root: &Path| (mode(&root.join("b6")), mode(&root.join("b6").join(&HELLO[2..])));
        assert_eq!(modes(&seen), (0o2750, 0o440));
        drop(quarantine);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        quarantine.migrate(&world.keeps).unwrap();
        assert_eq!(modes(&objects), (0o2750, 0o440));
    }

    #[test]
    fn what_a_hook_adds_is_flushed_and_moved_too() {
        let world = World::in_directory("with:colon.git");
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        let environment = quarantine.environment().unwrap();
        let id = world.home.git_with(&environment, &["hash-object", "-w", "--stdin"], "hook");
        // It sees what is in quarantine, and what is outside.
        world.home.git_with(&environment, &["cat-file", "-e", HELLO], "");
        let migrated = quarantine.migrate(&world.keeps).unwrap();
        assert_eq!(migrated.loose.len(), 2);
        assert_eq!(world.repository.disk().counts().file_flushes, 2);
        assert_eq!(world.home.git(&["cat-file", "blob", id.trim()]), "hook");
        let quarantine = world.quarantine();
        let environment = quarantine.environment().unwrap();
        world.home.git_with(&environment, &["cat-file", "-e", HELLO], "");
        assert!(!world.home.git_fails(&environment, &["cat-file", "-e", id.trim()]));
        // git refuses to touch refs while a quarantine is on.
        let update = ["update-ref", "refs/heads/x", id.trim()];
        assert!(world.home.git_fails(&environment, &update));
    }

    #[test]
    fn alternates_of_the_environment_are_kept() {
        let home = TestRepository::bare_named("r.git");
        let mut environment = home.environment().clone();
        environment.set("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/a:/b");
        let disk = Disk::default();
        let repository = Repository::open_exact(&disk, home.path(), &environment).unwrap();
        let quarantine = Quarantine::new(&repository);
        let expected = format!("/a:/b:{}/objects", home.path().display());
        let set = quarantine.environment().unwrap();
        assert_eq!(set.var("GIT_ALTERNATE_OBJECT_DIRECTORIES"), Some(OsStr::new(&expected)));
        assert_eq!(
            set.var("GIT_QUARANTINE_PATH"),
            Some(quarantine.directory().path().unwrap().as_os_str())
        );
        assert_eq!(
            set.var("GIT_OBJECT_DIRECTORY"),
            Some(quarantine.directory().path().unwrap().as_os_str())
        );
    }

    #[test]
    fn git_takes_the_directory_for_its_own_kind() {
        let world = World::new();
        let quarantine = world.quarantine();
        let path = quarantine.directory().path().unwrap().to_owned();
        assert!(name_of(&path).starts_with(OWN_PREFIX));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        world.home.git(&["prune", "--expire=now"]);
        assert!(!path.exists());
    }

    #[test]
    fn equal_and_damaged_files_are_replaced() {
        let pack = TestPack::of(&["one", "two"]);
        for (damage, holds) in [(false, false), (false, true), (true, false), (true, true)] {
            let world = World::holding(holds);
            for round in 0..2 {
                let mut quarantine = world.quarantine();
                world.add_blob(&mut quarantine, b"hello").unwrap();
                world.add_pack(&mut quarantine, &pack).unwrap();
                let before = world.recorder.operations().len();
                quarantine.migrate(&world.keeps).unwrap();
                let renames = world.operations_since(before);
                let is_rename = |o: &&Operation| matches!(o, Operation::Rename { .. });
                assert_eq!(renames.iter().filter(is_rename).count(), 4, "{round}");
                if damage {
                    for file in world.objects() {
                        let path = world.home.path().join("objects").join(file);
                        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
                        fs::write(&path, b"damaged").unwrap();
                    }
                }
            }
            if !damage {
                world.home.git(&["fsck", "--full", "--strict"]);
            }
        }
    }

    #[test]
    fn what_is_there_and_differs_fails_the_push() {
        for holds in [false, true] {
            let world = World::holding(holds);
            let (one, other) = (TestPack::of(&["one"]), TestPack::of(&["other"]));
            let path = world.home.path().join(format!("objects/pack/pack-{}.pack", one.name));
            fs::write(&path, &other.pack).unwrap();
            let mut quarantine = world.quarantine();
            world.add_pack(&mut quarantine, &one).unwrap();
            let failed = quarantine.migrate(&world.keeps);
            assert!(matches!(failed, Err(MigrateError::PackCollision { path: p }) if p == path));
            assert_eq!(world.objects(), [format!("pack/pack-{}.pack", one.name)]);
        }
    }

    #[test]
    fn two_pushes_of_one_pack_share_its_keep_file() {
        let world = World::holding(true);
        let pack = TestPack::of(&["one"]);
        let migrate = || {
            let mut quarantine = world.quarantine();
            world.add_pack(&mut quarantine, &pack).unwrap();
            quarantine.migrate(&world.keeps).unwrap()
        };
        let (first, second) = (migrate(), migrate());
        let keep = second.keeps[0].path().to_owned();
        drop(first);
        assert!(keep.exists());
        let content = fs::read_to_string(&keep).unwrap();
        assert!(content.starts_with(&format!("receive-pack {} on ", std::process::id())));
        drop(second);
        assert!(!keep.exists());
    }

    #[test]
    fn a_push_of_many_objects_does_not_run_out_of_descriptors() {
        for holds in [false, true] {
            many_objects(&World::holding(holds));
        }
    }

    fn many_objects(world: &World) {
        let mut quarantine = world.quarantine();
        let before = fs::read_dir("/proc/self/fd").unwrap().count();
        for n in 0..600 {
            world.add_blob(&mut quarantine, format!("{n}").as_bytes()).unwrap();
        }
        // Other tests run at the same time, with files of their own.
        let open = fs::read_dir("/proc/self/fd").unwrap().count();
        assert!(open < before + 450, "{before} {open}");
        let migrated = quarantine.migrate(&world.keeps).unwrap();
        assert_eq!(migrated.loose.len(), 600);
        assert_eq!(world.repository.disk().counts().file_flushes, 600);
    }

    /// Quarantines a loose object and a pack, migrates them and lets the keep file go.
    fn push(world: &World, pack: &TestPack) -> io::Result<()> {
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello")?;
        world.add_pack(&mut quarantine, pack)?;
        let migrated = quarantine.migrate(&world.keeps).map_err(io::Error::other)?;
        migrated.keeps.into_iter().try_for_each(KeepGuard::release)
    }

    fn assert_sound_after_fault(world: &World, at: usize, may_stray: bool) {
        let files = world.objects();
        let extension = |file: &String| Path::new(file).extension().map(OsStr::to_owned);
        let has = |wanted: &str| files.iter().any(|f| extension(f).is_some_and(|e| e == wanted));
        let in_place = |wanted: &str| has(wanted) && !files.iter().any(|f| f.contains("tmp_"));
        assert!(!in_place("idx") || has("pack") && has("rev"), "{at}: {files:?}");
        let is_stray = |file: &&String| file.contains("tmp_") || file.contains(".keep");
        let strays = files.iter().filter(is_stray).count();
        assert!(strays == 0 || may_stray, "{at}: {files:?}");
        if in_place("idx") {
            world.home.git(&["fsck", "--full", "--strict"]);
        }
    }

    #[test]
    fn a_fault_at_any_change_leaves_sound_objects_and_no_stray_files() {
        for holds in [false, true] {
            fail_at_any_change(holds);
        }
    }

    fn fail_at_any_change(holds: bool) {
        let pack = TestPack::of(&["one", "two"]);
        let world = || {
            let world = World::holding(holds);
            if holds {
                // So that every attempt but those that are to fail is a change.
                fs::create_dir(world.home.path().join("objects/b6")).unwrap();
            }
            world
        };
        let clean = world();
        push(&clean, &pack).unwrap();
        let operations = clean.recorder.operations();
        assert_eq!(operations.len(), clean.recorder.attempts());
        assert!(operations.len() > 20, "{}", operations.len());
        for (at, operation) in operations.iter().enumerate() {
            let removes =
                matches!(operation, Operation::Unlink { .. } | Operation::RemoveDirectory { .. });
            for persistent in [false, true] {
                let world = world();
                world.recorder.fail_at(at, io::ErrorKind::StorageFull, persistent);
                let done = push(&world, &pack);
                assert!(done.is_err() || removes, "{at}: {operation:?}");
                assert_sound_after_fault(&world, at, removes);
            }
        }
    }

    #[test]
    fn a_migration_that_fails_leaves_no_directory_that_it_made() {
        let world = World::holding(true);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        // The bytes do not fit.
        world.recorder.fail_at(3, io::ErrorKind::StorageFull, true);
        quarantine.migrate(&world.keeps).unwrap_err();
        assert!(!world.home.path().join("objects/b6").exists());
    }
}
