//! What the command line says.

use super::inputs::Kind;
use super::support::Outcome;
use std::path::PathBuf;

pub(crate) const HELP: &str = "\
Usage: cargo bench --bench ingest -- [OPTIONS]

  --inputs I,I,...     small, mid, big, thin [default: small, mid; with --history all four]
  --history DIR        a big repository: 'big' is all its branches and tags, 'thin' is a thousand
                       made commits on top of its HEAD, pushed to where 'big' has gone before, and
                       'mid' is the oldest part of it; without it 'mid' is made up
  --mid-objects N      objects of 'mid', about [default: 100000]
  --peers TEXT,...     only peers with one of these texts in their name [default: all]
  --rounds N           turns of each, interleaved [default: 5]
  --fsck               git fsck --full after each peer's first push
  --prepared DIR       where inputs are kept, and looked for first [default: not kept]
  --only-prepare       make the inputs and end
  --scratch DIR        where repositories are made, on the file system of the inputs
                       [default: the system's temporary directory]
";

/// What the command line says.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) inputs: Vec<Kind>,
    pub(crate) history: Option<PathBuf>,
    pub(crate) mid_objects: usize,
    pub(crate) peers: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) fsck: bool,
    pub(crate) prepared: Option<PathBuf>,
    pub(crate) only_prepare: bool,
    pub(crate) scratch: PathBuf,
}

impl Arguments {
    /// Reads the command line; `None` if it asks for help.
    pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Outcome<Option<Self>> {
        let mut arguments = Self {
            inputs: Vec::new(),
            history: None,
            mid_objects: 100_000,
            peers: Vec::new(),
            rounds: 5,
            fsck: false,
            prepared: None,
            only_prepare: false,
            scratch: std::env::temp_dir(),
        };
        while let Some(word) = words.next() {
            match word.as_str() {
                "--help" | "-h" => return Ok(None),
                "--fsck" => arguments.fsck = true,
                "--only-prepare" => arguments.only_prepare = true,
                _ => {
                    let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
                    arguments.take(&word, &value)?;
                }
            }
        }
        if arguments.inputs.is_empty() {
            let kinds = if arguments.history.is_some() { 4 } else { 2 };
            arguments.inputs = Kind::ALL.into_iter().take(kinds).collect();
        }
        Ok(Some(arguments))
    }

    fn take(&mut self, word: &str, value: &str) -> Outcome<()> {
        match word {
            "--inputs" => {
                self.inputs = value.split(',').map(Kind::parse).collect::<Result<_, _>>()?;
            }
            "--history" => self.history = Some(PathBuf::from(value).canonicalize()?),
            "--mid-objects" => self.mid_objects = value.parse()?,
            "--peers" => self.peers = value.split(',').map(str::to_owned).collect(),
            "--rounds" => self.rounds = value.parse::<usize>()?.max(1),
            "--prepared" => self.prepared = Some(std::path::absolute(value)?),
            "--scratch" => self.scratch = std::path::absolute(value)?,
            _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
        }
        Ok(())
    }

    /// Whether a peer of this name takes part.
    pub(crate) fn wants(&self, name: &str) -> bool {
        self.peers.is_empty() || self.peers.iter().any(|text| name.contains(text))
    }
}
