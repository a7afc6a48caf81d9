//! What the benchmarks' command lines have in common.

use super::Outcome;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::ExitCode;

/// Options that several benchmarks take.
#[derive(Clone, Debug)]
pub(crate) struct Common {
    /// Turns of each, interleaved.
    pub(crate) rounds: usize,
    /// Where repositories are made.
    pub(crate) scratch: PathBuf,
    /// Programs of other gits that take part.
    pub(crate) gits: Vec<String>,
    /// Settings of all repositories.
    pub(crate) configuration: Vec<(String, String)>,
}

/// What [`Common::read`] knows by itself.
pub(crate) const HELP: &str = "\
  --git PROGRAM        the git program of another version, which takes part too; may be repeated
  --rounds N           turns of each, interleaved [default: 5]
  --scratch DIR        where repositories are made [default: the system's temporary directory]
";

/// And where repositories are made that have settings.
pub(crate) const CONFIG_HELP: &str = "\
  --config KEY=VALUE   a setting of all repositories, such as core.fsync=none; may be repeated
";

impl Common {
    /// Reads a command line; `None` if it asks for help.
    ///
    /// `flag` takes options without a value and `option` those with one that are not common;
    /// `false` says that there is no such option.
    pub(crate) fn read(
        words: impl Iterator<Item = String>,
        mut flag: impl FnMut(&str) -> bool,
        mut option: impl FnMut(&str, &str) -> Outcome<bool>,
    ) -> Outcome<Option<Self>> {
        let mut common = Self {
            rounds: 5,
            scratch: std::env::temp_dir(),
            gits: Vec::new(),
            configuration: Vec::new(),
        };
        // cargo says --bench to every benchmark.
        let mut words = words.filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            if word == "--help" || word == "-h" {
                return Ok(None);
            }
            if flag(&word) {
                continue;
            }
            let value = words.next().ok_or_else(|| format!("'{word}' needs a value"))?;
            match word.as_str() {
                "--rounds" => common.rounds = value.parse::<usize>()?.max(1),
                "--scratch" => common.scratch = std::path::absolute(value)?,
                "--git" => common.gits.push(value),
                "--config" => {
                    let (key, value) = value.split_once('=').ok_or("--config takes KEY=VALUE")?;
                    common.configuration.push((key.into(), value.into()));
                }
                _ if option(&word, &value)? => {}
                _ => return Err(format!("unknown option '{word}'; --help tells them").into()),
            }
        }
        Ok(Some(common))
    }

    /// The programs of the other gits with the argument that makes them tell their version.
    pub(crate) fn gits_to_tell(&self) -> Vec<(&str, &str)> {
        self.gits.iter().map(|program| (program.as_str(), "version")).collect()
    }

    /// What the receive-pack of another git is called in a table.
    pub(crate) fn git_name(program: &str) -> Outcome<String> {
        let output = std::process::Command::new(program).arg("version").output()?;
        let version = String::from_utf8(output.stdout)?;
        let number = version.split_whitespace().nth(2).ok_or("a git without a version")?;
        Ok(format!("git {number} receive-pack"))
    }
}

/// Ends a benchmark: with a message if it has failed.
pub(crate) fn exit<E: Display>(name: &str, outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}
