//! Every bound on a push: its name, its unit, its default.

use std::fmt;

/// Makes [`Limits`], its defaults and its table from one list. The comment on a limit says what it
/// bounds; behind the unit stands what a client reads that goes past it, with `N` for each number
/// and `ID` for an object; nothing, if no client does.
macro_rules! limits {
    ($($(#[doc = $bounds:literal])+ $name:ident: $default:expr, $unit:literal, $told:literal;)+) => {
        /// The bounds that one push must keep to, and those on all pushes of a server together.
        ///
        /// Values are handed down from the edge; nothing below reads them from a global. Each is
        /// named in the message that a client sees when it goes past.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct Limits {
            $($(#[doc = $bounds])+ pub $name: u64,)+
        }

        impl Default for Limits {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl Limits {
            /// Every limit.
            pub const TABLE: &[LimitRow] = &[$(LimitRow {
                name: stringify!($name),
                unit: $unit,
                bounds: concat!($($bounds),+),
                told: $told,
                place: |limits| &mut limits.$name,
            },)+];
        }
    };
}

/// What there is to know of one limit.
#[derive(Clone, Copy, Debug)]
pub struct LimitRow {
    /// Its name: of the field, in messages, and in the configuration.
    pub name: &'static str,
    /// What its value counts.
    pub unit: &'static str,
    /// What it bounds, in sentences that begin with a blank.
    pub bounds: &'static str,
    /// What a client reads that goes past it, with `N` for each number; empty if none does.
    pub told: &'static str,
    /// Where its value is.
    pub place: fn(&mut Limits) -> &mut u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

limits! {
    /// Bytes of the command list, shallow lines and certificate together.
    command_bytes_max: 64 * MIB, "bytes",
        "push request goes past the limit 'command_bytes_max' of N bytes: push fewer refs at once";
    /// Bytes of memory that the requests of all pushes of the server take together, without the
    /// packs. Those that take up to a MiB, some five thousand commands, are not counted.
    command_memory_bytes_max: 256 * MIB, "bytes",
        "the command lists of this and other pushes go past the limit 'command_memory_bytes_max' \
         of N bytes: push fewer refs at once, or later";
    /// Commands in one push.
    commands_max: 1_000_000, "commands",
        "push request goes past the limit 'commands_max' of N commands: push fewer refs at once";
    /// Bytes of all push options together.
    push_option_bytes_max: MIB, "bytes",
        "push request goes past the limit 'push_option_bytes_max' of N bytes: send shorter push \
         options";
    /// Seconds that a push waits for the programs that check the signature of its certificate, all
    /// together. When they have passed, hooks are told that it could not be checked.
    signature_seconds_max: 30, "seconds",
        "the signature of the push certificate was not checked within the limit \
         'signature_seconds_max' of N seconds";
    /// Bytes of the pack as received; `receive.maxInputSize` of a repository lowers it.
    pack_bytes_max: u64::MAX, "bytes", "pack exceeds maximum allowed size (N bytes)";
    /// Objects that a pack may announce. The largest public repositories have some ten million.
    objects_max: 100_000_000, "objects",
        "pack announces N objects, more than the limit 'objects_max' of N objects: push the \
         history in parts";
    /// Bytes of one object, inflated.
    object_bytes_max: 64 * GIB, "bytes",
        "pack has an object of N bytes, more than the limit 'object_bytes_max' of N bytes: keep \
         large files outside of the repository";
    /// Bytes of one commit, tree or tag: what is read for its links is held in memory for that.
    /// The largest trees that are known, of directories with a million files, have some fifty MB.
    /// fsck on receipt takes no larger `.gitmodules` or `.gitattributes`.
    metadata_bytes_max: 64 * MIB, "bytes",
        "pack has a tree of N bytes, more than the limit 'metadata_bytes_max' of N bytes: split \
         the directory into smaller ones";
    /// Bytes of memory that the checks of all pushes of the server together take for trees of more
    /// than a MiB. Each holds one at a time, and counts as `metadata_bytes_max`; the others wait.
    metadata_memory_bytes_max: 128 * MIB, "bytes", "";
    /// Parents of one commit. The widest merge in Linux, which is known for it, has 66.
    commit_parents_max: 10_000, "parents",
        "commit ID has more parents than the limit 'commit_parents_max' of N parents: merge in \
         several steps";
    /// Entries of one tree.
    tree_entries_max: 2_000_000, "entries",
        "tree ID has more entries than the limit 'tree_entries_max' of N entries: split the \
         directory into smaller ones";
    /// Bytes of the name of one entry of a tree. git's fsck calls longer paths than the default
    /// very long (git-fsck(1), `largePathname`); no common file system takes names of 256.
    entry_name_bytes_max: 4096, "bytes",
        "tree ID has an entry whose name is longer than the limit 'entry_name_bytes_max' of N \
         bytes: give it a shorter one";
    /// Bytes of all objects of a push together, inflated and resolved.
    inflated_bytes_max: 1024 * GIB, "bytes",
        "the objects of the pack inflate to more than the limit 'inflated_bytes_max' of N bytes: \
         push the history in parts";
    /// Bytes that the objects of a push have together for each byte of its pack, beyond
    /// `expansion_free_bytes`. Source code makes some 30 to 100, long lists that change a little
    /// with each commit some hundreds. A pack that is made to hurt has millions.
    expansion_ratio_max: 1000, "bytes for each byte",
        "the objects of the pack have N bytes, and it has N: more than the limit \
         'expansion_ratio_max' of N bytes for each byte: push in smaller steps, or ask for a \
         larger one";
    /// Bytes that the objects of a push may have together however small its pack is: a line added
    /// to each of some large files is no attack.
    expansion_free_bytes: 4 * GIB, "bytes", "";
    /// Deltas from an object down to its whole base. git makes at most 4,095.
    delta_depth_max: 10_000, "deltas",
        "pack has a delta chain longer than the limit 'delta_depth_max' of N deltas: repack with \
         a smaller --depth";
    /// Different ids that the objects of a push name; each is remembered, at some fifty bytes.
    named_objects_max: 50_000_000, "objects",
        "the objects of the pack name more ids than the limit 'named_objects_max' of N objects: \
         push the history in parts";
    /// Bytes of memory that all pushes of the server take together for the bases, the deltas and
    /// the tables of their objects. What a push can do without it takes only while there is
    /// enough; it goes on with large objects on disk. For its tables it waits until others have
    /// ended. One at a time goes past the limit with them, so that no push is too large for it;
    /// while others wait for that one, its pack has to come at a MiB in half a minute or faster.
    /// Each has four MiB for contents and one for tables beside it.
    push_memory_bytes_max: 256 * MIB, "bytes",
        "other pushes have taken all of the limit 'push_memory_bytes_max' of N bytes for too \
         long: push again later";
    /// Bytes of base contents and inflated deltas that one push holds in memory at once.
    base_cache_bytes_max: 96 * MIB, "bytes", "";
    /// Bytes of the pack-index table that one repository keeps merged in memory.
    index_cache_bytes_max: 64 * MIB, "bytes", "";
    /// Inflated bytes from which a push is kept as a pack whatever its object count.
    unpack_bytes_max: 32 * MIB, "bytes", "";
    /// Objects from which a push is kept as a pack whatever `receive.unpackLimit` says: each loose
    /// object is a file that stays open until it is flushed.
    unpack_objects_max: 1000, "objects", "";
    /// Bytes from which a blob is hashed, compared and stored as a stream
    /// (`core.bigFileThreshold` of a repository sets its own).
    big_file_bytes: 512 * MIB, "bytes", "";
}

impl Limits {
    /// The limit of this name, for messages.
    fn limit(name: &'static str, value: u64) -> Limit {
        let row = Self::TABLE.iter().find(|row| row.name == name);
        Limit { name, value, unit: row.map_or("", |row| row.unit) }
    }

    /// `command_memory_bytes_max`, for messages.
    pub fn command_memory_bytes(&self) -> Limit {
        Self::limit("command_memory_bytes_max", self.command_memory_bytes_max)
    }

    /// `metadata_memory_bytes_max`, for messages.
    pub fn metadata_memory_bytes(&self) -> Limit {
        Self::limit("metadata_memory_bytes_max", self.metadata_memory_bytes_max)
    }

    /// `metadata_bytes_max`, for messages.
    pub fn metadata_bytes(&self) -> Limit {
        Limit { name: "metadata_bytes_max", value: self.metadata_bytes_max, unit: "bytes" }
    }

    /// `push_memory_bytes_max`, for messages.
    pub fn push_memory_bytes(&self) -> Limit {
        Self::limit("push_memory_bytes_max", self.push_memory_bytes_max)
    }

    /// `signature_seconds_max`, for messages.
    pub fn signature_seconds(&self) -> Limit {
        Self::limit("signature_seconds_max", self.signature_seconds_max)
    }

    /// Bytes that the objects of a pack of so many bytes may have together, by
    /// `expansion_ratio_max` and `expansion_free_bytes`.
    pub fn expanded_bytes_max(&self, pack_bytes: u64) -> u64 {
        self.expansion_ratio_max.saturating_mul(pack_bytes).max(self.expansion_free_bytes)
    }

    /// `expansion_ratio_max`, for messages.
    pub fn expansion_ratio(&self) -> Limit {
        Self::limit("expansion_ratio_max", self.expansion_ratio_max)
    }
}

/// One bound that was passed, for messages: its name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name of the field of [`Limits`], or of the git setting that lowered it.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What the value counts: `bytes`, `commands`, `objects`, `deltas`, `parents`, `entries`,
    /// `seconds`.
    pub unit: &'static str,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "limit '{}' of {} {}", self.name, self.value, self.unit)
    }
}

/// The object count from which a received pack is kept; with fewer, its objects become loose.
///
/// git's rule (`builtin/receive-pack.c`, `unpack()`): `receive.unpackLimit` if set and not
/// negative, else `transfer.unpackLimit` likewise, else the server's own, else 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnpackLimit(pub u64);

impl UnpackLimit {
    /// git's default.
    pub const DEFAULT: Self = Self(100);

    /// Applies git's precedence to the values of `receive.unpackLimit` and
    /// `transfer.unpackLimit`; a negative value counts as unset.
    pub fn choose(receive: Option<i64>, transfer: Option<i64>, server: Self) -> Self {
        let value = |setting: Option<i64>| setting.and_then(|n| u64::try_from(n).ok());
        value(receive).or_else(|| value(transfer)).map_or(server, Self)
    }

    /// Whether a pack of `objects` is kept as a pack.
    pub fn keeps(self, objects: u64) -> bool {
        objects >= self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_own_place_and_says_what_it_bounds() {
        let mut limits = Limits::default();
        for row in Limits::TABLE {
            *(row.place)(&mut limits) = 7;
            assert!(row.bounds.starts_with(' ') && row.bounds.ends_with('.'), "{}", row.name);
            let is_named = row.told.is_empty() || row.told.contains(&format!("'{}'", row.name));
            assert!(is_named || row.name == "pack_bytes_max", "{}", row.name);
        }
        let shown = format!("{limits:?}");
        assert_eq!(shown.matches(": 7").count(), Limits::TABLE.len(), "{shown}");
        assert_eq!(shown.matches(": ").count(), Limits::TABLE.len(), "{shown}");
    }

    #[test]
    fn a_pack_expands_by_the_ratio_or_up_to_what_is_free() {
        let limits =
            Limits { expansion_ratio_max: 10, expansion_free_bytes: 1000, ..Limits::default() };
        assert_eq!(limits.expanded_bytes_max(0), 1000);
        assert_eq!(limits.expanded_bytes_max(100), 1000);
        assert_eq!(limits.expanded_bytes_max(101), 1010);
        assert_eq!(limits.expanded_bytes_max(u64::MAX), u64::MAX);
    }

    #[test]
    fn ninety_nine_objects_are_loose_and_a_hundred_are_kept() {
        assert!(!UnpackLimit::DEFAULT.keeps(99));
        assert!(UnpackLimit::DEFAULT.keeps(100));
    }

    #[test]
    fn receive_wins_over_transfer_over_the_server() {
        let server = UnpackLimit(7);
        assert_eq!(UnpackLimit::choose(Some(1), Some(2), server), UnpackLimit(1));
        assert_eq!(UnpackLimit::choose(None, Some(2), server), UnpackLimit(2));
        assert_eq!(UnpackLimit::choose(Some(-1), Some(2), server), UnpackLimit(2));
        assert_eq!(UnpackLimit::choose(Some(-1), None, server), server);
        assert_eq!(UnpackLimit::choose(Some(0), Some(2), server), UnpackLimit(0));
    }
}
