//! The command line.
//!
//! `receive-pack` keeps git's exit statuses: 0 once a report went out, 128 for anything fatal, 129
//! for a usage error. Under the name `git-receive-pack` the binary is that command.

mod config;
mod limits;
mod load;
mod receive_pack;
mod serve;
mod sweep;

use crate::model::PushId;
use crate::repo::Environment;
use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use load::Load;
use receive_pack::ReceivePack;
use serve::Serve;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// A smart git receive server that stores pushes as packs, durably, in plain bare repositories.
#[derive(Debug, Parser)]
#[command(name = "packhouse", version)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Load(Box<Load>),
    ReceivePack(ReceivePack),
    Serve(Box<Serve>),
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
    match CommandLine::try_parse_from(arguments) {
        Ok(CommandLine { command: Command::ReceivePack(command) }) => command.run(environment),
        Ok(CommandLine { command: Command::Serve(command) }) => command.run(environment),
        Ok(CommandLine { command: Command::Load(command) }) => command.run(),
        Err(error) => {
            drop(error.print());
            match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => ExitCode::SUCCESS,
                _ => ExitCode::from(USAGE),
            }
        }
    }
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
