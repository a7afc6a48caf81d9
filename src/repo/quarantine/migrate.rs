//! From the quarantine to the repository's objects.

use super::super::change_set::ChangeSet;
use super::super::disk::Disk;
use super::super::flush_policy::Component;
use super::super::held_directory::{FileIdentity, HeldDirectory};
use super::super::keep::{self, KeepGuard, KeepRegistry};
use super::super::loose::{LooseComparison, LooseError, compare_loose, loose_path};
use super::super::repository::Repository;
use super::contents::{Contents, PackFile, PackRole};
use super::packs::{self, PackComparison};
use super::received::Received;
use crate::model::ObjectId;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How often a fan-out directory may be taken away before a file is in it.
const ATTEMPTS_MAX: u32 = 1000;

/// What was migrated. The keep files go when it is dropped, or when they are released.
#[derive(Debug, Default)]
pub struct Migrated {
    /// The loose objects.
    pub loose: Vec<ObjectId>,
    /// The `.pack` files, where they are now.
    pub packs: Vec<PathBuf>,
    /// The hold on each pack's keep file, to be released once refs lead to its objects.
    pub keeps: Vec<KeepGuard>,
    /// What lay in the quarantine and was neither, for the log: it was removed with it.
    pub left: Vec<PathBuf>,
}

/// Why objects were not migrated.
#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    /// What was received is no longer there as it was. Nothing was moved.
    #[error(
        "{} of {received} received files were removed or changed in quarantine, such as '{}'",
        altered.len(),
        altered.first().map(|path| path.display().to_string()).unwrap_or_default()
    )]
    Altered {
        /// The files.
        altered: Vec<PathBuf>,
        /// How many were received.
        received: usize,
    },
    /// The quarantine was moved away, and something else has its path. Nothing was moved.
    #[error("'{}' is not the quarantine it was", path.display())]
    Replaced {
        /// The path.
        path: PathBuf,
    },
    /// A sound object of that id is there, with other content.
    #[error("object {id} is there with other content")]
    LooseCollision {
        /// The id.
        id: ObjectId,
    },
    /// A sound pack of that name is there, with other content.
    #[error("pack '{}' is there with other content", path.display())]
    PackCollision {
        /// The pack.
        path: PathBuf,
    },
    /// An object of the quarantine cannot be compared with the one that is there.
    #[error("cannot compare object {id} with the one that is there")]
    Compare {
        /// The id.
        id: ObjectId,
        /// Why not.
        #[source]
        source: LooseError,
    },
    /// The disk.
    #[error("cannot migrate objects from '{}'", path.display())]
    Disk {
        /// The quarantine.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
}

/// The directory of a quarantine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area<'a> {
    pub(super) path: &'a Path,
    pub(super) identity: FileIdentity,
}

/// Flushes and moves whatever lies in the quarantine, if all that was received is there as it was.
pub(super) fn run(
    repository: &Repository,
    area: Area<'_>,
    received: Received,
    keeps: &KeepRegistry,
) -> Result<Migrated, MigrateError> {
    let quarantine = area.path;
    let on_disk = |source| MigrateError::Disk { path: quarantine.to_owned(), source };
    let disk = repository.disk();
    let contents = list(repository, area)?;
    let altered = received.altered(disk, &contents).map_err(on_disk)?;
    if !altered.is_empty() {
        return Err(MigrateError::Altered { altered, received: received.len() });
    }
    let mut migration = Migration { repository, disk, contents, received };
    migration.refuse_collisions(quarantine)?;
    migration.write_keeps().map_err(on_disk)?;
    migration.flush().map_err(on_disk)?;
    migration.rename(keeps).map_err(on_disk)
}

/// Lists the quarantine itself, never what else has got its path.
fn list(repository: &Repository, area: Area<'_>) -> Result<Contents, MigrateError> {
    let on_disk = |source| MigrateError::Disk { path: area.path.to_owned(), source };
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

struct Migration<'a> {
    repository: &'a Repository,
    disk: &'a Disk,
    contents: Contents,
    received: Received,
}

impl Migration<'_> {
    /// Compares with what is there under the same names, before anything changes. What is equal
    /// or damaged will be replaced: ours is flushed, theirs may not be.
    fn refuse_collisions(&self, quarantine: &Path) -> Result<(), MigrateError> {
        let hash = self.repository.hash();
        for (id, path) in &self.contents.loose {
            let existing = loose_path(self.repository.objects_dir(), id);
            match compare_loose(self.disk, &existing, path, id) {
                Ok(LooseComparison::Different) => {
                    return Err(MigrateError::LooseCollision { id: *id });
                }
                Ok(_) => {}
                Err(source) => return Err(MigrateError::Compare { id: *id, source }),
            }
        }
        for file in self.contents.packs.iter().filter(|file| file.role == PackRole::Pack) {
            let existing = self.pack_destination(&file.path);
            let compared = packs::compare(self.disk, &existing, &file.path, hash)
                .map_err(|source| MigrateError::Disk { path: quarantine.to_owned(), source })?;
            if compared == PackComparison::Different {
                return Err(MigrateError::PackCollision { path: existing });
            }
        }
        Ok(())
    }

    /// Gives each pack that has none a keep file.
    fn write_keeps(&mut self) -> io::Result<()> {
        let mut keeps: BTreeSet<PathBuf> = self
            .contents
            .packs
            .iter()
            .filter(|file| file.role == PackRole::Pack)
            .map(|file| file.path.with_extension("keep"))
            .collect();
        for file in &self.contents.packs {
            keeps.remove(&file.path);
        }
        for path in keeps {
            let mut file = self.disk.create_file(&path, 0o600)?;
            file.write_all(keep::message().as_bytes())?;
            self.received.adopt(file, path.clone());
            self.contents.packs.push(PackFile { role: PackRole::Keep, path });
        }
        self.contents.packs.sort();
        Ok(())
    }

    /// Makes the bytes of all files durable. They are not all open at once: there may be more of
    /// them than a process may have descriptors.
    fn flush(&mut self) -> io::Result<()> {
        let loose = self.contents.loose.iter().map(|(_, path)| (path, Component::LooseObject));
        let packs = self.contents.packs.iter().map(|file| (&file.path, file.role.component()));
        for (path, component) in loose.chain(packs) {
            let file = match self.received.take(path) {
                Some(file) => file,
                None if !self.disk.policy().flushes(component) => continue,
                None => self.disk.open_to_flush(path)?,
            };
            let mut set = ChangeSet::new();
            set.add_file(file, component);
            set.commit(self.disk)?;
        }
        Ok(())
    }

    /// Gives all files their names, and makes the names durable.
    fn rename(mut self, keeps: &KeepRegistry) -> io::Result<Migrated> {
        let mut migrated = Migrated::default();
        self.rename_loose(&mut migrated)?;
        self.rename_packs(&mut migrated, keeps)?;
        migrated.left = std::mem::take(&mut self.contents.left);
        Ok(migrated)
    }

    fn rename_loose(&self, migrated: &mut Migrated) -> io::Result<()> {
        let objects_dir = self.repository.objects_dir();
        let mut fan_outs = BTreeSet::new();
        for (id, path) in &self.contents.loose {
            let destination = loose_path(objects_dir, id);
            let fan_out = destination.parent().unwrap_or(objects_dir).to_owned();
            self.rename_into(&fan_out, path, &destination)?;
            fan_outs.insert(fan_out);
            migrated.loose.push(*id);
        }
        if fan_outs.is_empty() {
            return Ok(());
        }
        for fan_out in &fan_outs {
            match self.disk.flush_directory(fan_out, Component::LooseObject) {
                // A gc has packed what was in it and taken it away since.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                flushed => flushed?,
            }
        }
        // Whoever made the fan-out directories: another's may not be durable yet.
        self.disk.flush_directory(objects_dir, Component::LooseObject)
    }

    /// Renames a file into a fan-out directory, which git's gc removes whenever it is empty: made
    /// again as often as that happens.
    fn rename_into(&self, fan_out: &Path, from: &Path, to: &Path) -> io::Result<()> {
        let mut attempts = 0;
        loop {
            self.create_directory(fan_out)?;
            match self.disk.rename(from, to) {
                Err(error)
                    if error.kind() == io::ErrorKind::NotFound && attempts < ATTEMPTS_MAX =>
                {
                    attempts += 1;
                }
                renamed => return renamed,
            }
        }
    }

    fn rename_packs(&self, migrated: &mut Migrated, keeps: &KeepRegistry) -> io::Result<()> {
        let mut set = ChangeSet::new();
        let objects_dir = self.repository.objects_dir();
        let directory = objects_dir.join("pack");
        if !self.contents.packs.is_empty()
            && self.disk.stat(&directory)?.is_none()
            && self.create_directory(&directory)?
        {
            set.add_directory(objects_dir.to_owned(), Component::Pack);
        }
        for PackFile { role, path } in &self.contents.packs {
            let destination = self.pack_destination(path);
            if *role == PackRole::Keep {
                migrated.keeps.push(keeps.hold(self.disk, path, &destination)?);
                continue;
            }
            set.add_rename(path.clone(), destination.clone(), role.component());
            if *role == PackRole::Pack {
                migrated.packs.push(destination);
            }
        }
        set.commit(self.disk)
    }

    /// Makes a directory among the objects; false if it is there.
    ///
    /// Called right before the renames, since git's prune takes empty ones away.
    fn create_directory(&self, path: &Path) -> io::Result<bool> {
        match self.disk.create_directory(path, 0o777) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(error),
        }
        self.repository.permissions().share_directory(self.disk, path)?;
        Ok(true)
    }

    fn pack_destination(&self, path: &Path) -> PathBuf {
        let name = path.file_name().unwrap_or_default();
        self.repository.objects_dir().join("pack").join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OWN_PREFIX, Quarantine};
    use super::*;
    use crate::model::ObjectKind;
    use crate::repo::testing::{TestPack, TestRepository};
    use crate::repo::{FlushPolicy, LooseWriter, Operation, Recorder, SharedPermissions};
    use std::ffi::OsStr;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    const HELLO: &str = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";

    struct World {
        home: TestRepository,
        repository: Repository,
        recorder: Arc<Recorder>,
        keeps: KeepRegistry,
    }

    impl World {
        fn new() -> Self {
            Self::in_directory("r.git")
        }

        fn in_directory(name: &str) -> Self {
            let home = TestRepository::bare_named(name);
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            let repository = home.open(&disk);
            Self { home, repository, recorder, keeps: KeepRegistry::default() }
        }

        fn quarantine(&self) -> Quarantine {
            Quarantine::create(&self.repository).unwrap()
        }

        fn add_blob(&self, quarantine: &mut Quarantine, content: &[u8]) -> io::Result<ObjectId> {
            let id = TestRepository::blob_id(content);
            let path = quarantine.loose_path(&id)?;
            let mut writer = LooseWriter::new(self.repository.disk(), SharedPermissions::Umask, 1);
            let file = writer.write_at(&path, ObjectKind::Blob, content)?;
            quarantine.adopt(file, path);
            Ok(id)
        }

        fn add_pack(&self, quarantine: &mut Quarantine, pack: &TestPack) -> io::Result<()> {
            let directory = quarantine.pack_directory()?;
            for (extension, bytes) in [("pack", &pack.pack), ("rev", &pack.rev), ("idx", &pack.idx)]
            {
                let path = directory.join(format!("pack-{}.{extension}", pack.name));
                let mut file = self.repository.disk().create_file(&path, 0o444)?;
                file.write_all(bytes)?;
                quarantine.adopt(file, path);
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
        let world = World::new();
        let pack = TestPack::of(&["one", "two"]);
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        world.add_pack(&mut quarantine, &pack).unwrap();
        let path = quarantine.path().to_owned();
        let before = world.recorder.operations().len();
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
        assert_eq!(world.repository.disk().counts().file_flushes, 5);
        assert!(!path.exists());
        assert_eq!(migrated.loose[0].to_string(), HELLO);
        assert_eq!(migrated.packs, [world.home.path().join("objects/pack").join(part("pack"))]);
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
                let path = quarantine.path().join(&files[file]);
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
            last = loose_path(quarantine.path(), &id);
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
            let path = quarantine.path().to_owned();
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
    }

    #[test]
    fn what_a_hook_adds_is_flushed_and_moved_too() {
        let world = World::in_directory("with:colon.git");
        let mut quarantine = world.quarantine();
        world.add_blob(&mut quarantine, b"hello").unwrap();
        let environment = quarantine.environment();
        let id = world.home.git_with(&environment, &["hash-object", "-w", "--stdin"], "hook");
        // It sees what is in quarantine, and what is outside.
        world.home.git_with(&environment, &["cat-file", "-e", HELLO], "");
        let migrated = quarantine.migrate(&world.keeps).unwrap();
        assert_eq!(migrated.loose.len(), 2);
        assert_eq!(world.repository.disk().counts().file_flushes, 2);
        assert_eq!(world.home.git(&["cat-file", "blob", id.trim()]), "hook");
        let quarantine = world.quarantine();
        let environment = quarantine.environment();
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
        let quarantine = Quarantine::create(&repository).unwrap();
        let expected = format!("/a:/b:{}/objects", home.path().display());
        let set = quarantine.environment();
        assert_eq!(set.var("GIT_ALTERNATE_OBJECT_DIRECTORIES"), Some(OsStr::new(&expected)));
        assert_eq!(set.var("GIT_QUARANTINE_PATH"), Some(quarantine.path().as_os_str()));
        assert_eq!(set.var("GIT_OBJECT_DIRECTORY"), Some(quarantine.path().as_os_str()));
    }

    #[test]
    fn git_takes_the_directory_for_its_own_kind() {
        let world = World::new();
        let quarantine = world.quarantine();
        let path = quarantine.path().to_owned();
        assert!(name_of(&path).starts_with(OWN_PREFIX));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        world.home.git(&["prune", "--expire=now"]);
        assert!(!path.exists());
    }

    #[test]
    fn equal_and_damaged_files_are_replaced() {
        let pack = TestPack::of(&["one", "two"]);
        for damage in [false, true] {
            let world = World::new();
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
        let world = World::new();
        let (one, other) = (TestPack::of(&["one"]), TestPack::of(&["other"]));
        let path = world.home.path().join(format!("objects/pack/pack-{}.pack", one.name));
        fs::write(&path, &other.pack).unwrap();
        let mut quarantine = world.quarantine();
        world.add_pack(&mut quarantine, &one).unwrap();
        let failed = quarantine.migrate(&world.keeps);
        assert!(matches!(failed, Err(MigrateError::PackCollision { path: p }) if p == path));
        assert_eq!(world.objects(), [format!("pack/pack-{}.pack", one.name)]);
    }

    #[test]
    fn two_pushes_of_one_pack_share_its_keep_file() {
        let world = World::new();
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
        let world = World::new();
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
        let mut quarantine = Quarantine::create(&world.repository)?;
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
        let pack = TestPack::of(&["one", "two"]);
        let clean = World::new();
        push(&clean, &pack).unwrap();
        let operations = clean.recorder.operations();
        assert_eq!(operations.len(), clean.recorder.attempts());
        assert!(operations.len() > 25);
        for (at, operation) in operations.iter().enumerate() {
            let removes =
                matches!(operation, Operation::Unlink { .. } | Operation::RemoveDirectory { .. });
            for persistent in [false, true] {
                let world = World::new();
                world.recorder.fail_at(at, io::ErrorKind::StorageFull, persistent);
                let done = push(&world, &pack);
                assert!(done.is_err() || removes, "{at}: {operation:?}");
                assert_sound_after_fault(&world, at, removes);
            }
        }
    }
}
