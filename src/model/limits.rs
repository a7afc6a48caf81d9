//! Every bound on a push: its name, its unit, its default.

use std::fmt;

/// The bounds that one push must keep to.
///
/// Values are handed down from the edge; nothing below reads them from a global. Each is named in
/// the message that a client sees when it goes past.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the command list, shallow lines and certificate together.
    pub command_bytes_max: u64,
    /// Bytes of memory that the requests of all pushes of the server take together, without the
    /// packs. Those that take up to a MiB, some five thousand commands, are not counted.
    pub command_memory_bytes_max: u64,
    /// Commands in one push.
    pub commands_max: u64,
    /// Bytes of all push options together.
    pub push_option_bytes_max: u64,
    /// Bytes of the pack as received; `receive.maxInputSize` of a repository lowers it.
    pub pack_bytes_max: u64,
    /// Objects that a pack may announce.
    pub objects_max: u64,
    /// Bytes of one object, inflated.
    pub object_bytes_max: u64,
    /// Bytes of one commit, tree or tag: what is read for its links is held in memory for that.
    ///
    /// The largest trees that are known, of directories with a million files, have some fifty MB.
    pub metadata_bytes_max: u64,
    /// Bytes of memory that the checks of all pushes of the server together take for trees of more
    /// than a MiB. Each holds one at a time, and counts as `metadata_bytes_max`; the others wait.
    pub metadata_memory_bytes_max: u64,
    /// Parents of one commit. The widest merge in Linux, which is known for it, has 66.
    pub commit_parents_max: u64,
    /// Bytes of the name of one entry of a tree. git's fsck calls longer paths than the default
    /// very long (git-fsck(1), `largePathname`); no common file system takes names of 256.
    pub entry_name_bytes_max: u64,
    /// Bytes of all objects of a push together, inflated and resolved.
    pub inflated_bytes_max: u64,
    /// Deltas from an object down to its whole base.
    pub delta_depth_max: u64,
    /// Different ids that the objects of a push name; each is remembered, at some fifty bytes.
    pub named_objects_max: u64,
    /// Bytes of base contents and inflated deltas that one push holds in memory at once.
    pub base_cache_bytes_max: u64,
    /// Bytes of the pack-index table that one repository keeps merged in memory.
    pub index_cache_bytes_max: u64,
    /// Inflated bytes from which a push is kept as a pack whatever its object count.
    pub unpack_bytes_max: u64,
    /// Bytes from which a blob is hashed, compared and stored as a stream
    /// (`core.bigFileThreshold` of a repository sets its own).
    pub big_file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            command_bytes_max: 64 * MIB,
            command_memory_bytes_max: 256 * MIB,
            commands_max: 1_000_000,
            push_option_bytes_max: MIB,
            pack_bytes_max: u64::MAX,
            objects_max: 100_000_000,
            object_bytes_max: 64 * GIB,
            metadata_bytes_max: 64 * MIB,
            metadata_memory_bytes_max: 128 * MIB,
            commit_parents_max: 10_000,
            entry_name_bytes_max: 4096,
            inflated_bytes_max: 1024 * GIB,
            delta_depth_max: 10_000,
            named_objects_max: 50_000_000,
            base_cache_bytes_max: 96 * MIB,
            index_cache_bytes_max: 64 * MIB,
            unpack_bytes_max: 32 * MIB,
            big_file_bytes: 512 * MIB,
        }
    }
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Limits {
    /// `command_memory_bytes_max`, for messages.
    pub fn command_memory_bytes(&self) -> Limit {
        let value = self.command_memory_bytes_max;
        Limit { name: "command_memory_bytes_max", value, unit: "bytes" }
    }

    /// `metadata_memory_bytes_max`, for messages.
    pub fn metadata_memory_bytes(&self) -> Limit {
        let value = self.metadata_memory_bytes_max;
        Limit { name: "metadata_memory_bytes_max", value, unit: "bytes" }
    }

    /// `metadata_bytes_max`, for messages.
    pub fn metadata_bytes(&self) -> Limit {
        Limit { name: "metadata_bytes_max", value: self.metadata_bytes_max, unit: "bytes" }
    }
}

/// One bound that was passed, for messages: its name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The name of the field of [`Limits`], or of the git setting that lowered it.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// What the value counts: `bytes`, `commands`, `objects`, `deltas`, `parents`.
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
