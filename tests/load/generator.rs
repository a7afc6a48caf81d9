//! Runs of `packhouse load`, and null servers for them.

use crate::support::git;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

/// A null server on a port of its own; killed when it is dropped.
pub struct NullServer {
    child: Child,
    url: String,
}

impl NullServer {
    pub fn with(flags: &[&str]) -> Self {
        let mut command = command(&["null-server", "--listen", "127.0.0.1:0"]);
        let mut child =
            command.args(flags).stderr(Stdio::piped()).stdin(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap();
        let url = url.trim_end_matches(',').to_owned();
        Self { child, url }
    }

    /// The URL of its repositories, one for each pusher.
    pub fn repositories(&self) -> String {
        format!("{}/r-{{repo}}.git", self.url)
    }

    /// The URL of one repository.
    pub fn repository(&self, name: &str) -> String {
        format!("{}/{name}", self.url)
    }
}

impl Drop for NullServer {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How a run ended.
pub struct Ended {
    pub status: i32,
    pub out: String,
    pub complaint: String,
}

impl From<Output> for Ended {
    fn from(output: Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: output.status.code().unwrap_or(-1),
            out: text(&output.stdout),
            complaint: text(&output.stderr),
        }
    }
}

/// A command that sees nothing of this machine's configuration.
pub fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    git::isolate(&mut command);
    command.arg("load").args(arguments);
    command
}

/// Runs it to its end.
pub fn load(arguments: &[&str]) -> Ended {
    command(arguments).stdin(Stdio::null()).output().unwrap().into()
}

/// Runs it with `--json`; gives the status and the object.
pub fn load_json(arguments: &[&str]) -> (i32, serde_json::Value) {
    let ended = load(&[arguments, &["--json"]].concat());
    let value = serde_json::from_str(&ended.out);
    let value = value.unwrap_or_else(|_| panic!("{}{}", ended.out, ended.complaint));
    (ended.status, value)
}
