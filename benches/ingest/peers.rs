//! What takes the pushes, or at least their packs.

use super::inputs::{Input, Kind};
use super::support::git::{copy, git, refs, run, without_configuration};
use super::support::group::Group;
use super::support::options::Common;
use super::support::process::{measure, require_accepted};
use super::support::{Outcome, inflate_and_hash};
use std::fs::{self, File};
use std::io::BufReader;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

/// A peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The whole push.
    Packhouse,
    /// The whole push.
    Git,
    /// The whole push, by another version.
    OtherGit { name: String, program: String },
    /// The pack alone.
    IndexPack,
    /// The pack alone.
    GixPack,
    /// Inflating and hashing alone, one thread.
    Floor,
}

/// What a push cost a peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Turn {
    pub(crate) wall: f64,
    pub(crate) cpu: f64,
    pub(crate) peak_megabytes: f64,
}

const GIX_PACK: &str = "run-gix-pack";
const FLOOR: &str = "run-floor";

impl Peer {
    /// All, with the gits of these programs.
    pub(crate) fn all(gits: &[String]) -> Outcome<Vec<Self>> {
        let mut all = vec![Self::Git, Self::Packhouse];
        for program in gits {
            let name = Common::git_name(program)?;
            all.push(Self::OtherGit { name, program: program.clone() });
        }
        all.extend([Self::IndexPack, Self::GixPack, Self::Floor]);
        Ok(all)
    }

    pub(crate) fn name(&self) -> &str {
        match self {
            Self::OtherGit { name, .. } => name,
            Self::Packhouse => "packhouse receive-pack",
            Self::Git => "git receive-pack",
            Self::IndexPack => "git index-pack --stdin --fix-thin, no push",
            Self::GixPack => "gix-pack Bundle::write_to_directory, no push",
            Self::Floor => "floor: inflate and hash, one thread, no deltas",
        }
    }

    /// gix-pack needs an object database to look thin bases up in, which is not compared here.
    pub(crate) fn can_take(&self, input: &Input) -> bool {
        *self != Self::GixPack || input.kind != Kind::Thin
    }

    /// Lets the peer take its turn, on fresh repositories.
    pub(crate) fn take_turn(
        &self,
        input: &Input,
        group: &Group,
        scratch: &Path,
        fsck: bool,
    ) -> Outcome<Turn> {
        let directory = tempfile::Builder::new().prefix("turn-").tempdir_in(scratch)?;
        let repeats = input.kind.repeats();
        let mut repositories = Vec::new();
        for number in 0..repeats {
            let repository = directory.path().join(format!("{number}.git"));
            copy(&input.base, &repository)?;
            repositories.push(repository);
        }
        // What the peer before has left to be written is not its successor's to wait for.
        rustix::fs::sync();
        let mut sum = Turn { wall: 0.0, cpu: 0.0, peak_megabytes: f64::NAN };
        let pushes = matches!(self, Self::Packhouse | Self::Git | Self::OtherGit { .. });
        let file = if pushes { &input.body } else { &input.pack };
        for repository in &repositories {
            let command = self.command(group, repository, &input.sizes)?;
            let spent = measure(group, command, file, repeats == 1)?;
            sum.wall += spent.wall / f64::from(repeats);
            sum.cpu += spent.cpu / f64::from(repeats);
            sum.peak_megabytes = spent.peak_megabytes;
            if pushes {
                require_accepted(&spent.output)?;
                if refs(repository)? != input.refs {
                    return Err("the refs are not those that were pushed".into());
                }
                if fsck {
                    run(git(repository).args(["fsck", "--full"]))?;
                }
            }
        }
        Ok(sum)
    }

    fn command(&self, group: &Group, repository: &Path, sizes: &Path) -> Outcome<Command> {
        let own = std::env::current_exe()?;
        let own = own.to_str().ok_or("this program's path is no text")?;
        let mut command = match self {
            Self::Packhouse => group.command(env!("CARGO_BIN_EXE_packhouse")),
            Self::Git | Self::IndexPack => group.command("git"),
            Self::OtherGit { program, .. } => group.command(program),
            Self::GixPack | Self::Floor => group.command(own),
        };
        match self {
            Self::Packhouse | Self::Git | Self::OtherGit { .. } => {
                command.args(["receive-pack", "--stateless-rpc"]).arg(repository);
            }
            Self::IndexPack => {
                command.args(["index-pack", "--stdin", "--fix-thin"]).current_dir(repository);
            }
            Self::GixPack => {
                command.arg(GIX_PACK).arg(repository.join("objects/pack"));
            }
            Self::Floor => {
                command.arg(FLOOR).arg(sizes);
            }
        }
        without_configuration(&mut command);
        Ok(command)
    }
}

/// Does what [`Peer::command`] asks this program for; `false` if it asks for nothing.
pub(crate) fn run_as_process(peer: &str, rest: &[String]) -> Outcome<bool> {
    let place = || rest.first().ok_or("a path is missing");
    match peer {
        GIX_PACK => gix_pack(Path::new(place()?))?,
        FLOOR => {
            let bytes = {
                let mut bytes = Vec::new();
                std::io::Read::read_to_end(&mut std::io::stdin().lock(), &mut bytes)?;
                bytes
            };
            inflate_and_hash::inflate(&bytes)?;
            let sizes = fs::read_to_string(place()?)?;
            let sizes: Vec<u64> = sizes.lines().map(str::parse).collect::<Result<_, _>>()?;
            inflate_and_hash::hash(&sizes)?;
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn gix_pack(directory: &Path) -> Outcome<()> {
    let mut pack = BufReader::new(File::open("/dev/stdin")?);
    let outcome = gix_pack::Bundle::write_to_directory(
        &mut pack,
        Some(directory),
        &mut gix_utils::progress::Discard,
        &AtomicBool::new(false),
        None::<gix_object::find::Never>,
        gix_hash::Kind::Sha1,
        gix_pack::bundle::write::Options::default(),
    );
    outcome.map(drop).map_err(|error| error.to_string().into())
}
