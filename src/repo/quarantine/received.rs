//! What was received into a quarantine, and whether it is still there as it was.
//!
//! Everything that was proved of a push was proved of these files. A hook has the run of the
//! quarantine, and `git prune --expire=now` removes it whole; what was received must not be taken
//! for stored on the word of anything in memory.

use super::super::disk::{Disk, EntryKind, Stat};
use super::super::durable_file::DurableFile;
use super::contents::{Contents, Source};
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

/// The files that were received, by their paths.
#[derive(Debug, Default)]
pub(super) struct Received {
    files: HashMap<PathBuf, ReceivedFile>,
    open: usize,
}

#[derive(Debug)]
struct ReceivedFile {
    /// Open as it was written, so that it is flushed through the descriptor that wrote it.
    file: Option<DurableFile>,
    seal: Option<Seal>,
}

/// By what a file is known again. Who writes to it changes the time of its modification, and whoever
/// puts another in its place its inode; changed permissions and further names change neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seal {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
}

impl Received {
    /// Takes a file that was written, under the path it has now.
    pub(super) fn adopt(&mut self, file: DurableFile, path: PathBuf) {
        let mut received = ReceivedFile { file: None, seal: None };
        if self.open < OPEN_FILES_MAX {
            self.open += 1;
            received.file = Some(file);
        } else {
            // It cannot be asked once it is closed.
            received.seal = file.stat().ok().map(Seal::of);
        }
        self.files.insert(path, received);
    }

    /// Notes what every file is, before anybody else is let at them. Without it only their names
    /// are looked for: nobody else knew of them.
    pub(super) fn seal(&mut self) -> io::Result<()> {
        for received in self.files.values_mut() {
            if let (Some(file), None) = (&received.file, received.seal) {
                received.seal = Some(Seal::of(file.stat()?));
            }
        }
        Ok(())
    }

    /// The open descriptor of a file, once.
    pub(super) fn take(&mut self, path: &Path) -> Option<DurableFile> {
        self.files.get_mut(path)?.file.take()
    }

    /// How many files were received.
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Closes what is open.
    pub(super) fn close(&mut self) {
        self.files.clear();
    }

    /// The files that are no longer what was received, in order.
    ///
    /// Costs nothing but the listing that there is anyway, and a look at each file if a hook could
    /// get at them.
    pub(super) fn altered(&self, disk: &Disk, contents: &Contents) -> io::Result<Vec<PathBuf>> {
        let loose = contents.loose.iter().map(|(_, source)| source);
        let packs = contents.packs.iter().map(|file| &file.source);
        let listed: HashSet<&Path> = loose.chain(packs).filter_map(Source::in_quarantine).collect();
        let mut altered = Vec::new();
        for (path, received) in &self.files {
            let is_there = listed.contains(path.as_path())
                && match received.seal {
                    None => true,
                    Some(seal) => disk
                        .stat_link(path)?
                        .is_some_and(|stat| stat.kind == EntryKind::File && Seal::of(stat) == seal),
                };
            if !is_there {
                altered.push(path.clone());
            }
        }
        altered.sort();
        Ok(altered)
    }
}

impl Seal {
    fn of(stat: Stat) -> Self {
        let Stat { device, inode, size, modified, .. } = stat;
        Self { device, inode, size, modified }
    }
}

/// Files kept open by one quarantine.
const OPEN_FILES_MAX: usize = 256;
