//! What the command line says.

use super::support::Outcome;
use super::support::options::Common;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench snapshot -- [OPTIONS]

  --packs N,N,...      packs of a repository [default: 1,100,1000,5000]; each number also in an
                       alternate of an empty repository
  --loose N,N,...      loose objects beside the fewest and the most packs [default: 50000]
  --pushes N           pushes of a turn [default: 5]
  --in-a-row N         instead of all that: so many pushes in a row to an empty repository
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) packs: Vec<usize>,
    pub(crate) loose: Vec<usize>,
    pub(crate) pushes: usize,
    pub(crate) in_a_row: usize,
    pub(crate) common: Common,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let (mut packs, mut loose) = (vec![1, 100, 1000, 5000], vec![50_000]);
        let (mut pushes, mut in_a_row) = (5, 0);
        let take = |word: &str, value: &str| {
            let numbers = || value.split(',').filter(|text| !text.is_empty()).map(str::parse);
            match word {
                "--packs" => {
                    packs = numbers().collect::<Result<_, _>>()?;
                    packs.retain(|packs| *packs > 0);
                    packs.sort_unstable();
                }
                "--loose" => loose = numbers().collect::<Result<_, _>>()?,
                "--pushes" => pushes = value.parse::<usize>()?.max(1),
                "--in-a-row" => in_a_row = value.parse()?,
                _ => return Ok(false),
            }
            Ok(true)
        };
        let common = Common::read(words, |_| false, take)?;
        Ok(common.map(|common| Self { packs, loose, pushes, in_a_row, common }))
    }
}
