//! Naming a pack, with its index and what else goes with it.

use super::context::Context;
use super::error::IngestError;
use super::outcome::StoredPack;
use super::pack_body::PackBody;
use crate::model::ObjectId;
use crate::pack::index::{write_index, write_reverse_index};
use crate::pack::table::EntryTable;
use crate::repo::{NewContent, NewFile};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the companions of a pack, which ends with `checksum`: where the pack is, in memory or in
/// the quarantine; there all of them get their names, the index last. Flushes nothing; the open
/// files are what flushes them later.
pub(super) fn store(
    body: PackBody<'_>,
    table: &EntryTable,
    checksum: ObjectId,
    appended_bases: u32,
    context: Context<'_>,
) -> Result<(StoredPack, Vec<NewFile>), IngestError> {
    let companions = Companions { context, on_disk: !body.is_held() };
    let order = table.by_id();
    let keep = match &context.options.keep {
        Some(text) => {
            let write = |out: &mut NewContent| writeln!(out, "{text}");
            Some(companions.write("keep", write).map_err(failed("write a keep file"))?)
        }
        None => None,
    };
    let has_rev =
        context.options.reverse_index_from.is_some_and(|from| table.len() >= from as usize);
    let rev = if has_rev {
        let write =
            |out: &mut NewContent| write_reverse_index(table, &order, &checksum, out).map(drop);
        Some(companions.write("rev", write).map_err(failed("write the reverse index"))?)
    } else {
        None
    };
    let write = |out: &mut NewContent| write_index(table, &order, &checksum, out).map(drop);
    let index = companions.write("idx", write).map_err(failed("write the pack index"))?;

    let mut files = Vec::new();
    let mut named = |content: NewContent, extension: &str| {
        let name = Path::new("pack").join(format!("pack-{checksum}.{extension}"));
        companions.give_name(&content, &name).map_err(failed("name the pack"))?;
        files.push(NewFile { name: name.clone(), content });
        Ok::<PathBuf, IngestError>(name)
    };
    let stored = StoredPack {
        checksum,
        keep: keep.map(|file| named(file, "keep")).transpose()?,
        pack: named(body.into_content(), "pack")?,
        rev: rev.map(|file| named(file, "rev")).transpose()?,
        index: named(index, "idx")?,
        appended_bases,
    };
    Ok((stored, files))
}

struct Companions<'a> {
    context: Context<'a>,
    on_disk: bool,
}

impl Companions<'_> {
    /// Writes a file, to memory or under a temporary name.
    fn write(
        &self,
        extension: &str,
        write: impl FnOnce(&mut NewContent) -> io::Result<()>,
    ) -> io::Result<NewContent> {
        let mut content = if self.on_disk {
            let prefix = format!("tmp_{extension}_");
            NewContent::Written(self.context.destination.create_in_pack_dir(&prefix)?)
        } else {
            NewContent::Held(Vec::new())
        };
        write(&mut content)?;
        Ok(content)
    }

    /// Names a file in the quarantine, if it is there.
    fn give_name(&self, content: &NewContent, name: &Path) -> io::Result<()> {
        let NewContent::Written(file) = content else { return Ok(()) };
        let destination = self.context.destination;
        destination.disk.rename(file.path(), &destination.directory.path()?.join(name))
    }
}

fn failed(doing: &'static str) -> impl Fn(io::Error) -> IngestError {
    move |error| IngestError::disk(doing, error)
}
