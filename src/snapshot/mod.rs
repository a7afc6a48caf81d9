//! "Do we have this object": the answer for one push, and what is remembered between pushes.
//!
//! [`SnapshotCache`] is shared by all pushes of a process and remembers the pack indexes of each
//! objects directory. [`ObjectSnapshot`] is one push's view: what was there when it was taken.
//!
//! What is guaranteed:
//!
//! - A snapshot costs one `stat` per objects directory when its packs have not changed. When they
//!   have, it costs a look at what the kernel says has changed, or else one listing, after which
//!   indexes are looked at only if one of them is not known by name and inode; an index is opened
//!   once, whatever appears beside it. A lookup touches neither the pack directory nor an index,
//!   unless that index is too large for memory.
//! - A miss is final, and cheap. Only a [refreshing](ObjectSnapshot::refreshing) clone, for thin
//!   bases and connectivity, answers a miss by looking again; that happens once per push. An
//!   object that was there and cannot be opened any more (a repack took its pack away) causes
//!   the same one refresh, and is missing after it.
//! - An index that cannot be read is an error with the file's name, never an object that is
//!   missing. git warns and goes on without a *corrupt* index; packhouse refuses the push: the
//!   collision check must not pass because the evidence is damaged, and an operator learns of
//!   the damage from a push rather than from a clone. As for git, an index without its pack, a
//!   pack without its index and a multi-pack-index that names a pack that has gone are ignored,
//!   and so is any multi-pack-index that cannot be understood: the indexes say the same.
//! - No file that others may truncate is mapped into memory.
//!
//! What it does not do: find out which objects directories a repository has (the caller says so,
//! fresh for each push, which is why `info/alternates` needs no stamp here), write anything, or
//! say whether an object that is there is *complete*; that is connectivity's business.
//!
//! | file | holds |
//! |---|---|
//! | `cache` | what is remembered between pushes, within a byte budget |
//! | `directory_state` | what is known of one directory, and when that is enough |
//! | `known_indexes`, `changed_names` | its indexes, kept up to date by differences |
//! | `pack_list` | its packs, as snapshots see them |
//! | `layout`, `multi_pack_index` | the formats of the index files |
//! | `run` | many indexes merged into one sorted table |
//! | `index_file` | an index that is searched where it lies |
//! | `descriptors` | a bounded number of open files |
//! | `loose`, `loose_lists` | loose objects: one `stat` each, or a directory read once |
//! | `object_snapshot` | the view of one push, and its one refresh |
//! | `copies`, `entry_reader`, `loose_reader`, `input` | reading an object where it lies |

mod cache;
mod changed_names;
mod copies;
mod descriptors;
mod directory_state;
mod entry_reader;
mod error;
mod first_look;
mod index_file;
mod input;
mod known_indexes;
mod layout;
mod listed_multi;
mod listed_names;
mod loose;
mod loose_lists;
mod loose_reader;
mod multi_pack_index;
mod object_snapshot;
mod pack_list;
mod run;

#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use cache::{SnapshotCache, Sources};
pub use error::{Damage, IndexFault, SnapshotError};
pub use object_snapshot::{CompressedEntry, Object, ObjectSnapshot};
