//! The packed-refs file of one repository, read again when it has changed and only then.
//!
//! Every lookup looks at the file's stamp first; there is no time for which an old answer may be
//! given. A stamp that is younger than the clock is fine is not trusted, and the file is read.

use super::error::{Doing, RefError};
use super::packed::PackedRefs;
use crate::model::HashKind;
use crate::repo::{Disk, Stamp, Stat};
use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// What one repository's packed-refs holds, for all who share it. One cache serves one
/// repository, of one hash.
#[derive(Debug, Default)]
pub struct PackedRefsCache {
    state: Mutex<Option<Cached>>,
}

#[derive(Debug)]
struct Cached {
    /// `None` while there is no file.
    stamp: Option<Stamp>,
    trusted: bool,
    refs: Arc<PackedRefs>,
}

/// LIMIT: bytes of a packed-refs file; some ten million refs.
pub(super) const PACKED_REFS_BYTES_MAX: u64 = 1 << 31;

impl PackedRefsCache {
    /// A cache that has read nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The refs as they are in the file now. While they stay the same it is the same `Arc`.
    pub(super) fn current(
        &self,
        disk: &Disk,
        path: &Path,
        hash: HashKind,
    ) -> Result<Arc<PackedRefs>, RefError> {
        // Held while reading: who comes meanwhile wants the same file.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = disk.stat(path).doing("look at", path)?.as_ref().map(Stamp::of);
        if let Some(cached) = state.as_ref()
            && cached.stamp == stamp
            && (cached.trusted || stamp.is_none())
        {
            return Ok(Arc::clone(&cached.refs));
        }
        let mut read = read(disk, path, hash)?;
        if let Some(cached) = state.take()
            && cached.stamp.is_some() == read.stamp.is_some()
            && cached.refs.has_same_refs(&read.refs)
        {
            read.refs = cached.refs;
        }
        let refs = Arc::clone(&read.refs);
        *state = Some(read);
        Ok(refs)
    }
}

fn read(disk: &Disk, path: &Path, hash: HashKind) -> Result<Cached, RefError> {
    let now = SystemTime::now();
    let file = match disk.open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let refs = Arc::new(PackedRefs::empty(hash));
            return Ok(Cached { stamp: None, trusted: true, refs });
        }
        Err(error) => return Err(error).doing("open", path),
    };
    // From the descriptor: a path may name the next file already.
    let stat = Stat::from(file.metadata().doing("look at", path)?);
    if stat.size > PACKED_REFS_BYTES_MAX {
        let message = format!("more than {PACKED_REFS_BYTES_MAX} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message)).doing("read", path);
    }
    let mut bytes = Vec::with_capacity(usize::try_from(stat.size).unwrap_or_default());
    file.take(PACKED_REFS_BYTES_MAX).read_to_end(&mut bytes).doing("read", path)?;
    let refs = Arc::new(PackedRefs::parse(bytes, hash)?);
    let stamp = Stamp::of(&stat);
    Ok(Cached { stamp: Some(stamp), trusted: stamp.is_settled_file(now), refs })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectId;
    use std::fs::{self, File, FileTimes};
    use std::path::PathBuf;
    use std::time::Duration;

    struct Setting {
        _root: tempfile::TempDir,
        path: PathBuf,
        disk: Disk,
        cache: PackedRefsCache,
    }

    impl Setting {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("packed-refs");
            Self { _root: root, path, disk: Disk::default(), cache: PackedRefsCache::new() }
        }

        fn current(&self) -> Arc<PackedRefs> {
            self.cache.current(&self.disk, &self.path, HashKind::Sha1).unwrap()
        }

        fn value(&self) -> Option<ObjectId> {
            self.current().find("refs/heads/a".into()).unwrap()
        }

        fn write(&self, byte: u8) {
            fs::write(&self.path, format!("{} refs/heads/a\n", id(byte))).unwrap();
        }

        fn make_old(&self) {
            let time = SystemTime::now() - Duration::from_secs(60);
            let file = File::options().write(true).open(&self.path).unwrap();
            file.set_times(FileTimes::new().set_modified(time)).unwrap();
            // The kernel notes when that was done.
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes_or_panic(&[byte; 20])
    }

    #[test]
    fn an_unchanged_file_costs_one_look() {
        let setting = Setting::new();
        setting.write(1);
        setting.make_old();
        let first = setting.current();
        let before = setting.disk.counts();
        assert!(Arc::ptr_eq(&first, &setting.current()));
        let after = setting.disk.counts();
        assert_eq!((after.stats - before.stats, after.opens - before.opens), (1, 0));
    }

    #[test]
    fn a_file_that_is_rewritten_within_the_grain_of_the_clock_is_seen() {
        let setting = Setting::new();
        for round in 0..200_u8 {
            // In place and of the same size: inode and size tell nothing, the time may not.
            setting.write(round);
            assert_eq!(setting.value(), Some(id(round)));
        }
    }

    #[test]
    fn a_file_that_comes_and_goes_is_seen() {
        let setting = Setting::new();
        assert_eq!(setting.value(), None);
        assert!(Arc::ptr_eq(&setting.current(), &setting.current()));
        setting.write(1);
        setting.make_old();
        assert_eq!(setting.value(), Some(id(1)));
        fs::remove_file(&setting.path).unwrap();
        assert_eq!(setting.value(), None);
    }

    #[test]
    fn a_file_with_the_same_refs_is_the_same() {
        let setting = Setting::new();
        setting.write(1);
        let first = setting.current();
        setting.write(1);
        assert!(Arc::ptr_eq(&first, &setting.current()));
        setting.write(2);
        assert!(!Arc::ptr_eq(&first, &setting.current()));
    }

    #[test]
    fn a_broken_file_is_an_error_each_time_and_a_mended_one_is_read() {
        let setting = Setting::new();
        fs::write(&setting.path, b"nonsense\n").unwrap();
        for _ in 0..2 {
            let result = setting.cache.current(&setting.disk, &setting.path, HashKind::Sha1);
            assert!(matches!(result, Err(RefError::PackedRefsLine { .. })));
        }
        setting.write(1);
        assert_eq!(setting.value(), Some(id(1)));
    }
}
