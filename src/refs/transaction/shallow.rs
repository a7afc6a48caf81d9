//! The `shallow` file: the commits at which the repository's history ends (gitformat-shallow(5)).
//!
//! It is read anew each time: who has fetched, pushed or pruned since may have changed it. Lines
//! are added under `shallow.lock`, which git takes too, to what the file holds at that moment, and
//! the new file has its name durably before a ref may build on it. A crash before the ref moves
//! leaves lines too many, of commits that are there and that no ref leads to: git takes those out
//! when it prunes.
//!
//! A `git prune` that looked which commits refs lead to before the ref moved, and takes the lock after
//! it, takes the line out all the same; so it does beside git.
//!
//! Lines are never taken out here. That is for `git fetch --unshallow` and `git prune`.

use super::packed_rewrite::lock_shared_file;
use super::temporary::Temporary;
use crate::model::{HashKind, ObjectId};
use crate::refs::context::RefContext;
use crate::refs::error::{Doing, RefError};
use crate::refs::store::{RefStore, TemporaryPlace};
use crate::repo::Component;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;

/// LIMIT: bytes of the `shallow` file.
const SHALLOW_BYTES_MAX: u64 = 64 << 20;

impl RefStore {
    /// The commits at which the repository's history ends; none if the history is whole.
    pub fn shallow(&self) -> Result<Vec<ObjectId>, RefError> {
        let context = self.context();
        let Some(path) = path_to_read(context) else { return Ok(Vec::new()) };
        let text = context.disk.read_if_there(&path, SHALLOW_BYTES_MAX).doing("read", &path)?;
        parse(text.as_deref().unwrap_or_default(), context.hash)
    }

    /// Sees to it that the history ends at these commits too, and that this and what was in the
    /// file before is durable, whoever wrote it.
    ///
    /// If the file that is read is not the repository's own (`GIT_SHALLOW_FILE`), nothing is
    /// changed: git finds there that the file is another one than it has read.
    pub fn make_shallow(&self, border: &BTreeSet<ObjectId>) -> Result<(), RefError> {
        let context = self.context();
        if context.settings.shallow_file.is_some() {
            return if border.is_empty() { Ok(()) } else { Err(RefError::ShallowChanged) };
        }
        let (disk, path) = (&context.disk, shallow_path(context));
        let known: BTreeSet<ObjectId> = self.shallow()?.into_iter().collect();
        if border.is_subset(&known) {
            // Another push may have written them a moment ago, or git, which does not flush.
            match disk.open_to_flush(&path) {
                Err(error) if error.kind() == ErrorKind::NotFound && border.is_empty() => {
                    return Ok(());
                }
                opened => opened.and_then(|file| file.flush_as(Component::Reference)),
            }
            .doing("flush", &path)?;
        } else {
            let place =
                TemporaryPlace { directory: context.common_dir.clone(), prefix: "tmp_shallow_" };
            let timeout = context.settings.packed_refs_timeout;
            let _lock = lock_shared_file(context, path.clone(), &place, timeout)?;
            let mut all: BTreeSet<ObjectId> = self.shallow()?.into_iter().collect();
            all.extend(border);
            let mut file = Temporary::write(context, &place, &shallow_lines(&all))?;
            file.rename_to(&path).doing("rename a file to", &path)?;
        }
        // With the lock gone, so that a crash does not bring it back.
        disk.flush_directory(&context.common_dir, Component::Reference)
            .doing("flush", &context.common_dir)
    }
}

/// The file that says where history ends; `None` if that is nowhere.
fn path_to_read(context: &RefContext) -> Option<PathBuf> {
    match &context.settings.shallow_file {
        Some(other) if other.as_os_str().is_empty() => None,
        Some(other) => Some(context.git_dir.join(other)),
        None => Some(shallow_path(context)),
    }
}

fn shallow_path(context: &RefContext) -> PathBuf {
    context.common_dir.join("shallow")
}

/// The bytes of a file that says that history ends at these commits.
pub fn shallow_lines<'i>(ids: impl IntoIterator<Item = &'i ObjectId>) -> Vec<u8> {
    let mut text = String::new();
    for id in ids {
        text.push_str(&id.to_string());
        text.push('\n');
    }
    text.into_bytes()
}

/// One id a line; what follows it on its line git does not look at.
fn parse(text: &[u8], hash: HashKind) -> Result<Vec<ObjectId>, RefError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let lines = text.strip_suffix(b"\n").unwrap_or(text);
    lines
        .split(|byte| *byte == b'\n')
        .map(|line| {
            let digits = line.get(..hash.len_in_hex()).unwrap_or(line);
            ObjectId::from_hex(digits)
                .ok()
                .filter(|_| digits.len() == hash.len_in_hex())
                .ok_or_else(|| RefError::ShallowLine { line: line.into() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::RefSettings;
    use crate::refs::testing::{TestRepository, commit};
    use crate::repo::{Disk, FlushPolicy, Operation};
    use std::time::Duration;

    fn border(numbers: &[usize]) -> BTreeSet<ObjectId> {
        numbers.iter().map(|number| commit(*number)).collect()
    }

    fn lines(repository: &TestRepository) -> BTreeSet<String> {
        repository.read("shallow").lines().map(ToOwned::to_owned).collect()
    }

    fn text(ids: &BTreeSet<ObjectId>) -> BTreeSet<String> {
        ids.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_repository_without_the_file_or_with_an_empty_one_is_whole() {
        let repository = TestRepository::new();
        assert!(repository.store().shallow().unwrap().is_empty());
        repository.write("shallow", "");
        assert!(repository.store().shallow().unwrap().is_empty());
    }

    #[test]
    fn lines_are_read_as_git_reads_them() {
        let repository = TestRepository::new();
        let (one, two) = (commit(0), commit(1));
        let shouted = two.to_string().to_uppercase();
        repository.write("shallow", format!("{one} and more\n{shouted}"));
        assert_eq!(repository.store().shallow().unwrap(), [one, two]);
        for bad in ["\n", "1234\n", &format!("{one}\n\n{two}\n"), &format!(" {one}\n")] {
            repository.write("shallow", bad);
            let error = repository.store().shallow().unwrap_err();
            assert!(error.to_string().starts_with("bad shallow line: '"), "{error}");
            assert!(error.is_server_fault());
        }
    }

    #[test]
    fn lines_are_added_to_what_others_have_written_and_git_reads_them() {
        let repository = TestRepository::new();
        let store = repository.store();
        store.make_shallow(&BTreeSet::new()).unwrap();
        assert!(!repository.exists("shallow"));
        store.make_shallow(&border(&[0, 1])).unwrap();
        assert_eq!(repository.git(&["rev-parse", "--is-shallow-repository"]).trim(), "true");
        repository.write("shallow", format!("{}\n", commit(2)));
        store.make_shallow(&border(&[1, 3])).unwrap();
        assert_eq!(lines(&repository), text(&border(&[1, 2, 3])));
        assert!(repository.leftovers().is_empty());
        repository.git(&["fsck"]);
    }

    #[test]
    fn new_lines_are_durable_in_order_and_known_ones_are_flushed_all_the_same() {
        let repository = TestRepository::new();
        let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
        let store = repository.store_on(&disk);
        let steps = |operations: &[Operation]| {
            let step = |operation: &Operation| match operation {
                Operation::FlushFile { .. } => Some("flush file"),
                Operation::Rename { .. } => Some("rename"),
                Operation::Unlink { .. } => Some("unlink"),
                Operation::FlushDirectory { .. } => Some("flush directory"),
                _ => None,
            };
            operations.iter().filter_map(step).collect::<Vec<_>>()
        };
        store.make_shallow(&border(&[0])).unwrap();
        let first = recorder.operations();
        assert_eq!(steps(&first), ["flush file", "rename", "unlink", "flush directory"]);
        store.make_shallow(&border(&[0])).unwrap();
        let second = recorder.operations();
        assert_eq!(steps(&second[first.len()..]), ["flush file", "flush directory"]);
    }

    #[test]
    fn a_lock_that_somebody_holds_is_waited_for_and_then_named() {
        let repository = TestRepository::new();
        repository.write("shallow.lock", "");
        let context = repository.context();
        let timeout = crate::refs::LockTimeout::AtMost(Duration::from_millis(20));
        let settings = RefSettings { packed_refs_timeout: timeout, ..context.settings };
        let store = RefStore::new(RefContext { settings, ..context });
        let error = store.make_shallow(&border(&[0])).unwrap_err();
        assert!(error.to_string().ends_with("shallow.lock': File exists."), "{error}");
        assert!(!error.is_server_fault());
        assert!(!repository.exists("shallow") && repository.exists("shallow.lock"));
    }

    #[test]
    fn a_step_that_fails_changes_nothing_and_leaves_nothing() {
        for step in 0..20 {
            let repository = TestRepository::new();
            repository.write("shallow", format!("{}\n", commit(2)));
            let (disk, recorder) = Disk::recording(FlushPolicy::FULL);
            recorder.fail_at(step, std::io::ErrorKind::Other, false);
            let result = repository.store_on(&disk).make_shallow(&border(&[0]));
            assert!(repository.leftovers().is_empty(), "{step}: {:?}", repository.leftovers());
            let now = lines(&repository);
            if result.is_ok() {
                assert!(step > 2);
                assert_eq!(now, text(&border(&[0, 2])));
            } else {
                assert!(now == text(&border(&[2])) || now == text(&border(&[0, 2])), "{step}");
            }
        }
    }

    #[test]
    fn another_file_is_read_in_its_place_and_nothing_is_written_then() {
        let repository = TestRepository::new();
        repository.write("shallow", format!("{}\n", commit(0)));
        repository.write("other", format!("{}\n", commit(1)));
        let store = |file: &str| {
            let context = repository.context();
            let settings = RefSettings { shallow_file: Some(file.into()), ..context.settings };
            RefStore::new(RefContext { settings, ..context })
        };
        assert!(store("").shallow().unwrap().is_empty());
        assert!(store("none").shallow().unwrap().is_empty());
        assert_eq!(store("other").shallow().unwrap(), [commit(1)]);
        let error = store("other").make_shallow(&border(&[2])).unwrap_err();
        assert_eq!(error.to_string(), "shallow file has changed since we read it");
        assert_eq!(lines(&repository), text(&border(&[0])));
    }
}
