//! What the command line says.

use super::support::Outcome;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench snapshot -- [OPTIONS]

  --packs N,N,...      packs of a repository [default: 1,100,1000,5000]; each number also in an
                       alternate of an empty repository
  --loose N,N,...      loose objects beside the fewest and the most packs [default: 50000]
  --config KEY=VALUE   a setting of all repositories, such as core.fsync=none; may be repeated
  --rounds N           turns of each, interleaved [default: 5]
  --pushes N           pushes of a turn [default: 5]
  --scratch DIR        where repositories are made [default: the system's temporary directory]
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) packs: Vec<usize>,
    pub(crate) loose: Vec<usize>,
    pub(crate) configuration: Vec<(String, String)>,
    pub(crate) rounds: usize,
    pub(crate) pushes: usize,
    pub(crate) scratch: PathBuf,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let mut arguments = Self {
            packs: vec![1, 100, 1000, 5000],
            loose: vec![50_000],
            configuration: Vec::new(),
            rounds: 5,
            pushes: 5,
            scratch: std::env::temp_dir(),
        };
        // cargo says --bench to every benchmark.
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
            arguments.take(&word, &value)?;
        }
        Ok(Some(arguments))
    }

    fn take(&mut self, word: &str, value: &str) -> Outcome<()> {
        let numbers = || value.split(',').filter(|text| !text.is_empty()).map(str::parse);
        match word {
            "--packs" => {
                self.packs = numbers().collect::<Result<_, _>>()?;
                self.packs.retain(|packs| *packs > 0);
                self.packs.sort_unstable();
            }
            "--loose" => self.loose = numbers().collect::<Result<_, _>>()?,
            "--config" => {
                let (key, value) = value.split_once('=').ok_or("--config takes KEY=VALUE")?;
                self.configuration.push((key.into(), value.into()));
            }
            "--rounds" => self.rounds = value.parse::<usize>()?.max(1),
            "--pushes" => self.pushes = value.parse::<usize>()?.max(1),
            "--scratch" => self.scratch = std::path::absolute(value)?,
            _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
        }
        Ok(())
    }
}
