//! Naming a pack in the quarantine, with its index and what else goes with it.

use super::context::Context;
use super::error::IngestError;
use super::outcome::StoredPack;
use crate::model::ObjectId;
use crate::pack::index::{write_index, write_reverse_index};
use crate::pack::table::EntryTable;
use crate::repo::DurableFile;
use std::io::{self, Write};
use std::path::PathBuf;

/// Writes the companions of the pack in `file`, which ends with `checksum`, and gives all of them
/// their names, the index last. Flushes nothing; the open files are what flushes them later.
pub(super) fn store(
    file: DurableFile,
    table: &EntryTable,
    checksum: ObjectId,
    appended_bases: u32,
    context: Context<'_>,
) -> Result<(StoredPack, Vec<(DurableFile, PathBuf)>), IngestError> {
    let files = Files { context, checksum };
    let order = table.by_id();
    let keep = match &context.options.keep {
        Some(text) => {
            let write = |out: &mut DurableFile| writeln!(out, "{text}");
            Some(files.write("keep", write).map_err(failed("write a keep file"))?)
        }
        None => None,
    };
    let rev = if context.options.write_rev {
        let write =
            |out: &mut DurableFile| write_reverse_index(table, &order, &checksum, out).map(drop);
        Some(files.write("rev", write).map_err(failed("write the reverse index"))?)
    } else {
        None
    };
    let write = |out: &mut DurableFile| write_index(table, &order, &checksum, out).map(drop);
    let index = files.write("idx", write).map_err(failed("write the pack index"))?;

    let mut open = Vec::new();
    let mut named = |file: DurableFile, extension: &str| {
        let to = files.path(extension);
        let disk = &context.destination.disk;
        disk.rename(file.path(), &to).map_err(failed("name the pack"))?;
        open.push((file, to.clone()));
        Ok::<_, IngestError>(to)
    };
    let stored = StoredPack {
        checksum,
        keep: keep.map(|file| named(file, "keep")).transpose()?,
        pack: named(file, "pack")?,
        rev: rev.map(|file| named(file, "rev")).transpose()?,
        index: named(index, "idx")?,
        appended_bases,
    };
    Ok((stored, open))
}

struct Files<'a> {
    context: Context<'a>,
    checksum: ObjectId,
}

impl Files<'_> {
    /// The name that a file of the pack gets.
    fn path(&self, extension: &str) -> PathBuf {
        self.context.destination.pack_dir().join(format!("pack-{}.{extension}", self.checksum))
    }

    /// Writes a file under a temporary name.
    fn write(
        &self,
        extension: &str,
        write: impl FnOnce(&mut DurableFile) -> io::Result<()>,
    ) -> io::Result<DurableFile> {
        let prefix = format!("tmp_{extension}_");
        let mut file = self.context.destination.create_in_pack_dir(&prefix)?;
        write(&mut file)?;
        Ok(file)
    }
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> IngestError {
    move |error| IngestError::disk(doing, error)
}
