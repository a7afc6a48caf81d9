//! What the command line says.

use super::support::Outcome;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench connectivity -- [OPTIONS]

  --refs N,N,...       refs of a repository [default: 10,10000,100000], once with all of them
                       visible and once with half of them hidden (transfer.hideRefs)
  --config KEY=VALUE   a setting of all repositories, such as core.fsync=none; may be repeated
  --rounds N           turns of each, interleaved [default: 5]
  --pushes N           advertisements and pushes of a turn [default: 3]
  --scratch DIR        where repositories are made [default: the system's temporary directory]
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) refs: Vec<usize>,
    pub(crate) configuration: Vec<(String, String)>,
    pub(crate) rounds: usize,
    pub(crate) pushes: usize,
    pub(crate) scratch: PathBuf,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let mut arguments = Self {
            refs: vec![10, 10_000, 100_000],
            configuration: Vec::new(),
            rounds: 5,
            pushes: 3,
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
        match word {
            "--refs" => self.refs = value.split(',').map(str::parse).collect::<Result<_, _>>()?,
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
