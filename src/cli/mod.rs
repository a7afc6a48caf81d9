//! The command line.
//!
//! `receive-pack` keeps git's exit statuses: 0 once a report went out, 128 for anything fatal, 129
//! for a usage error. Under the name `git-receive-pack` the binary is that command.

mod access;
mod config;
mod limits;
mod load;
mod packet_trace;
mod receive_pack;
mod serve;
mod sweep;
mod token;
mod who;

use crate::model::PushId;
use crate::repo::Environment;
use access::AccessCommand;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use load::Load;
use receive_pack::ReceivePack;
use serve::Serve;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use token::TokenCommand;

/// A smart git receive server that stores pushes as packs, durably, in plain bare repositories.
#[derive(Debug, Parser)]
#[command(name = "packhouse", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Access(AccessCommand),
    /// Prints the limits on pushes with their defaults, as docs/LIMITS.md has them.
    Limits,
    Load(Box<Load>),
    ReceivePack(ReceivePack),
    Serve(Box<Serve>),
    Token(TokenCommand),
}

/// The exit status of a command line that makes no sense, as git's.
const USAGE: u8 = 129;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let name = arguments.first().map(Path::new).and_then(Path::file_name);
    if name.is_some_and(|name| name == "git-receive-pack") {
        arguments.insert(1, "receive-pack".into());
    }
    let environment = Environment::from_process();
    if let Err(error) = outlive_file_size_limit() {
        drop(writeln!(io::stderr(), "packhouse: warning: cannot handle SIGXFSZ: {error}"));
    }
    if arguments.get(1).is_some_and(|name| name == "receive-pack") {
        let flags = arguments.iter_mut().skip(2).take_while(|argument| *argument != "--");
        for argument in flags {
            if let Some(whole) = receive_pack::unabbreviated(argument) {
                *argument = whole;
            }
        }
    }
    let asks_for_usage = is_usage_of_receive_pack(&arguments);
    match CommandLine::try_parse_from(arguments) {
        Ok(CommandLine { command: Command::ReceivePack(command) }) => command.run(environment),
        Ok(CommandLine { command: Command::Serve(command) }) => command.run(environment),
        Ok(CommandLine { command: Command::Load(command) }) => command.run(),
        Ok(CommandLine { command: Command::Access(command) }) => command.run(),
        Ok(CommandLine { command: Command::Token(command) }) => command.run(),
        Ok(CommandLine { command: Command::Limits }) => limits::print(),
        Err(error) => {
            drop(error.print());
            match error.kind() {
                ErrorKind::DisplayHelp if asks_for_usage => ExitCode::from(USAGE),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            }
        }
    }
}

/// Whether this is `receive-pack -h`, which git answers with the usage and the status of a usage
/// error.
fn is_usage_of_receive_pack(arguments: &[OsString]) -> bool {
    let help = arguments.iter().find(|argument| *argument == "-h" || *argument == "--help");
    arguments.get(1).is_some_and(|name| name == "receive-pack")
        && help.is_some_and(|help| help == "-h")
}

/// Makes a write past the limit of file sizes (setrlimit(2), `RLIMIT_FSIZE`) fail with an error,
/// instead of ending the process with every push in it. Hooks and other children get the default
/// back: a handler does not outlive execve(2).
fn outlive_file_size_limit() -> io::Result<()> {
    // Nobody looks at the flag: the error of the write says it all.
    let flag = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGXFSZ, flag).map(drop)
}

/// What is advertised as `agent=`.
pub(crate) fn agent() -> String {
    concat!("packhouse/", env!("CARGO_PKG_VERSION")).to_owned()
}

/// Draws the name of a push.
pub(crate) fn draw_push_id() -> io::Result<PushId> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(PushId::new(u64::from_ne_bytes(bytes)))
}
