//! What the command line says.

use super::support::Outcome;
use super::support::options::Common;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench connectivity -- [OPTIONS]

  --refs N,N,...       refs of a repository [default: 10,10000,100000], once with all of them
                       visible and once with half of them hidden (transfer.hideRefs)
  --pushes N           advertisements and pushes of a turn [default: 3]
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) refs: Vec<usize>,
    pub(crate) pushes: usize,
    pub(crate) common: Common,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let (mut refs, mut pushes) = (vec![10, 10_000, 100_000], 3);
        let take = |word: &str, value: &str| {
            match word {
                "--refs" => refs = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
                "--pushes" => pushes = value.parse::<usize>()?.max(1),
                _ => return Ok(false),
            }
            Ok(true)
        };
        let common = Common::read(words, |_| false, take)?;
        Ok(common.map(|common| Self { refs, pushes, common }))
    }
}
