//! What the command line says.

use super::inputs::Kind;
use super::support::Outcome;
use super::support::options::Common;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench ingest -- [OPTIONS]

  --inputs I,I,...     small, mid, blob (one of 600 MB), big, thin [default: small, mid; with
                       --history big and thin, too]
  --history DIR        a big repository: 'big' is all its branches and tags, 'thin' is a thousand
                       made commits on top of its HEAD, pushed to where 'big' has gone before, and
                       'mid' is the oldest part of it; without it 'mid' is made up
  --mid-objects N      objects of 'mid', about [default: 100000]
  --peers TEXT,...     only peers with one of these texts in their name [default: all]
  --at-once N,N,...    instead of the comparison: so many pushes to one packhouse at once
  --fsck               git fsck --full after each peer's first push
  --prepared DIR       where inputs are kept, and looked for first [default: not kept]
  --only-prepare       make the inputs and end
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) inputs: Vec<Kind>,
    pub(crate) history: Option<PathBuf>,
    pub(crate) mid_objects: usize,
    pub(crate) peers: Vec<String>,
    pub(crate) at_once: Vec<usize>,
    pub(crate) fsck: bool,
    pub(crate) prepared: Option<PathBuf>,
    pub(crate) only_prepare: bool,
    pub(crate) common: Common,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let (mut inputs, mut peers, mut mid_objects) = (Vec::new(), Vec::new(), 100_000);
        let (mut history, mut prepared, mut at_once) = (None, None, Vec::new());
        let (mut fsck, mut only_prepare) = (false, false);
        let flag = |word: &str| match word {
            "--fsck" => {
                fsck = true;
                true
            }
            "--only-prepare" => {
                only_prepare = true;
                true
            }
            _ => false,
        };
        let take = |word: &str, value: &str| {
            match word {
                "--inputs" => {
                    inputs = value.split(',').map(Kind::parse).collect::<Result<_, _>>()?;
                }
                "--history" => history = Some(PathBuf::from(value).canonicalize()?),
                "--mid-objects" => mid_objects = value.parse()?,
                "--peers" => peers = value.split(',').map(str::to_owned).collect(),
                "--at-once" => {
                    at_once = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
                }
                "--prepared" => prepared = Some(std::path::absolute(value)?),
                _ => return Ok(false),
            }
            Ok(true)
        };
        let Some(common) = Common::read(words, flag, take)? else { return Ok(None) };
        if inputs.is_empty() {
            inputs = vec![Kind::Small, Kind::Mid];
            inputs.extend(history.iter().flat_map(|_| [Kind::Big, Kind::Thin]));
        }
        Ok(Some(Self {
            inputs,
            history,
            mid_objects,
            peers,
            at_once,
            fsck,
            prepared,
            only_prepare,
            common,
        }))
    }

    /// Whether a peer of this name takes part.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|text| name.contains(text))
    }
}
