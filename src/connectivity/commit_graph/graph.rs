//! The commits of a commit-graph file, or of a chain of them.

use super::layer::Layer;
use crate::model::{HashKind, ObjectId, oid};
use crate::repo::Disk;
use std::path::PathBuf;

/// A commit-graph in memory.
///
/// Closed under parents: what it names, it names with all ancestors.
#[derive(Debug)]
pub struct CommitGraph {
    /// Lowest first; the commits of each are numbered on from those before it.
    layers: Vec<Layer>,
}

/// What a commit-graph says of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphCommit {
    /// The tree.
    pub tree: ObjectId,
    /// The parents, in order.
    pub parents: Vec<ObjectId>,
    /// One more than the greatest of the parents'; one without parents. Never zero.
    pub generation: u32,
    /// When it was committed: seconds since 1970, modulo 2^34.
    pub date: u64,
}

impl CommitGraph {
    /// Reads the graph of the first of these objects directories that has one, as git does; the
    /// files of a chain may lie in any of them. `None` if there is none that can be used.
    pub fn load(
        disk: &Disk,
        objects_directories: &[PathBuf],
        hash: HashKind,
        bytes_max: u64,
    ) -> Option<Self> {
        let mut reader = Reader { disk, hash, bytes_left: bytes_max };
        objects_directories.iter().find_map(|directory| {
            let single = directory.join(SINGLE);
            if let Some(layer) = reader.layer(&single).filter(|layer| layer.bases().is_empty()) {
                return Some(Self { layers: vec![layer] });
            }
            let chain = disk.read_if_there(&directory.join(CHAIN), CHAIN_BYTES_MAX).ok()??;
            reader.chain(&chain, objects_directories)
        })
    }

    /// What the graph says of a commit; `None` if it does not know it, or nothing useful.
    pub fn find(&self, id: &oid) -> Option<GraphCommit> {
        let (layer, place) =
            self.layers.iter().rev().find_map(|layer| Some((layer, layer.find(id)?)))?;
        let record = layer.record(place)?;
        // Ancient versions of git wrote no generations.
        if record.generation == 0 {
            return None;
        }
        let parents = record.parents.into_iter().map(|position| self.id(position));
        Some(GraphCommit {
            tree: record.tree,
            parents: parents.collect::<Option<_>>()?,
            generation: record.generation,
            date: record.date,
        })
    }

    /// Whether the graph knows a commit.
    pub fn contains(&self, id: &oid) -> bool {
        self.layers.iter().any(|layer| layer.find(id).is_some())
    }

    /// The bytes it holds in memory.
    pub fn bytes_len(&self) -> u64 {
        self.layers.iter().map(|layer| u64::try_from(layer.bytes_len()).unwrap_or(u64::MAX)).sum()
    }

    fn id(&self, position: u32) -> Option<ObjectId> {
        let mut place = position;
        for layer in &self.layers {
            match place.checked_sub(layer.count()) {
                Some(above) => place = above,
                None => return layer.id(place),
            }
        }
        None
    }
}

/// Reads files within one budget.
struct Reader<'a> {
    disk: &'a Disk,
    hash: HashKind,
    bytes_left: u64,
}

impl Reader<'_> {
    fn layer(&mut self, path: &std::path::Path) -> Option<Layer> {
        let bytes = self.disk.read_if_there(path, self.bytes_left).ok()??;
        self.bytes_left = self.bytes_left.saturating_sub(u64::try_from(bytes.len()).ok()?);
        Layer::parse(bytes, self.hash).ok()
    }

    /// Reads the files that a chain file names, lowest first. Each must name those below it.
    fn chain(&mut self, chain: &[u8], objects_directories: &[PathBuf]) -> Option<CommitGraph> {
        let (mut names, mut layers) = (Vec::new(), Vec::new());
        for line in chain.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
            let name = ObjectId::from_hex(line).ok().filter(|name| name.kind() == self.hash)?;
            let file = format!("{CHAIN_DIRECTORY}/graph-{name}.graph");
            let layer = objects_directories
                .iter()
                .find_map(|directory| self.layer(&directory.join(&file)))
                .filter(|layer| layer.bases() == names)?;
            names.push(name);
            layers.push(layer);
        }
        (!layers.is_empty()).then_some(CommitGraph { layers })
    }
}

pub(super) const SINGLE: &str = "info/commit-graph";
pub(super) const CHAIN: &str = "info/commit-graphs/commit-graph-chain";
const CHAIN_DIRECTORY: &str = "info/commit-graphs";

/// The format has no room for more than 255 files below one: each has a line here.
const CHAIN_BYTES_MAX: u64 = 256 * 65;
