//! What the command line says.

use super::Outcome;
use super::small::Layout;
use std::path::PathBuf;
use std::time::Duration;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench compare -- [OPTIONS]

  --pushers N,N,...    concurrent pushers [default: 1,4,16,64]
  --layouts L,L,...    own-repositories, own-branches, one-branch [default: all three]
  --servers TEXT,...   only servers with one of these texts in their name, such as
                       packhouse or 'nginx, as installed' [default: all]
  --rounds N           measured rounds of each cell [default: 5]
  --seconds S          length of a turn [default: 3]
  --mirror DIR         also `git push --mirror` this repository to every server
  --mirror-only        and nothing else
  --scratch DIR        where repositories are made [default: the system's temporary directory]
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) pushers: Vec<usize>,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) servers: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) turn: Duration,
    pub(crate) mirror: Option<PathBuf>,
    pub(crate) mirror_only: bool,
    pub(crate) scratch: PathBuf,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let mut arguments = Self {
            pushers: vec![1, 4, 16, 64],
            layouts: Layout::ALL.to_vec(),
            servers: Vec::new(),
            rounds: 5,
            turn: Duration::from_secs(3),
            mirror: None,
            mirror_only: false,
            scratch: std::env::temp_dir(),
        };
        // cargo says --bench to every benchmark.
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            if word == "--mirror-only" {
                arguments.mirror_only = true;
                continue;
            }
            let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
            let list = || value.split(',').map(str::to_owned).collect::<Vec<_>>();
            match word.as_str() {
                "--pushers" => {
                    let numbers = value.split(',').map(str::parse);
                    arguments.pushers = numbers.collect::<Result<_, _>>()?;
                }
                "--layouts" => {
                    let layouts = value.split(',').map(Layout::parse);
                    arguments.layouts = layouts.collect::<Result<_, _>>()?;
                }
                "--servers" => arguments.servers = list(),
                "--rounds" => arguments.rounds = value.parse::<usize>()?.max(1),
                "--seconds" => arguments.turn = Duration::try_from_secs_f64(value.parse()?)?,
                "--mirror" => arguments.mirror = Some(PathBuf::from(value).canonicalize()?),
                "--scratch" => arguments.scratch = value.into(),
                _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
            }
        }
        if arguments.mirror_only && arguments.mirror.is_none() {
            return Err("--mirror-only needs --mirror DIR".into());
        }
        Ok(Some(arguments))
    }
}
