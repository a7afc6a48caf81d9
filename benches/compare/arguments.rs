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
  --stock              also a loop of `git push` against every server, beside the generator
  --no-table           no table of small pushes
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
    pub(crate) stock: bool,
    pub(crate) no_table: bool,
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
            stock: false,
            no_table: false,
            scratch: std::env::temp_dir(),
        };
        // cargo says --bench to every benchmark.
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            match word.as_str() {
                "--stock" => arguments.stock = true,
                "--no-table" => arguments.no_table = true,
                _ => {
                    let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
                    arguments.take(&word, &value)?;
                }
            }
        }
        Ok(Some(arguments))
    }

    fn take(&mut self, word: &str, value: &str) -> Outcome<()> {
        match word {
            "--pushers" => {
                self.pushers = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--layouts" => {
                self.layouts = value.split(',').map(Layout::parse).collect::<Result<_, _>>()?;
            }
            "--servers" => self.servers = value.split(',').map(str::to_owned).collect(),
            "--rounds" => self.rounds = value.parse::<usize>()?.max(1),
            "--seconds" => self.turn = Duration::try_from_secs_f64(value.parse()?)?,
            "--mirror" => self.mirror = Some(PathBuf::from(value).canonicalize()?),
            "--scratch" => self.scratch = value.into(),
            _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
        }
        Ok(())
    }
}
