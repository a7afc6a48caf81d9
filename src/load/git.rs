//! Stock git, as the eyes of the check after a run.
//!
//! It sees no configuration but a repository's own; credentials reach it through the environment,
//! never through its arguments.

use super::settings::Settings;
use super::tls::Trust;
use std::path::Path;
use std::process::{Command, Stdio};

#[derive(Debug)]
pub(super) struct Git {
    configuration: Vec<(&'static str, String)>,
    there: bool,
}

impl Git {
    /// A git that reaches the servers of a run as its pushers do.
    pub(super) fn new(settings: &Settings) -> Self {
        let mut configuration =
            vec![("safe.directory", "*".to_owned()), ("gc.auto", "0".to_owned())];
        let header = settings.credentials.as_ref().and_then(|credentials| {
            let value = credentials.header().ok()?;
            Some(format!("Authorization: {}", value.to_str().ok()?))
        });
        configuration.extend(header.map(|header| ("http.extraHeader", header)));
        match &settings.trust {
            Trust::System => {}
            Trust::Authorities(path) => {
                let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
                configuration.push(("http.sslCAInfo", path.display().to_string()));
            }
            Trust::Anybody => configuration.push(("http.sslVerify", "false".into())),
        }
        let mut git = Self { configuration, there: false };
        git.there = git.run(Path::new("/"), &["--version"]).is_ok();
        git
    }

    /// Whether there is one.
    pub(super) fn is_there(&self) -> bool {
        self.there
    }

    /// Runs it in a directory and gives what it printed; if it failed, what it complained of.
    pub(super) fn run(&self, directory: &Path, arguments: &[&str]) -> Result<String, String> {
        let mut command = Command::new("git");
        command
            .current_dir(directory)
            .args(arguments)
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_COUNT", self.configuration.len().to_string())
            .env("LC_ALL", "C")
            .stdin(Stdio::null());
        for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_OBJECT_DIRECTORY", "GIT_NAMESPACE"] {
            command.env_remove(name);
        }
        for (number, (key, value)) in self.configuration.iter().enumerate() {
            command.env(format!("GIT_CONFIG_KEY_{number}"), key);
            command.env(format!("GIT_CONFIG_VALUE_{number}"), value);
        }
        let output = command.output().map_err(|error| format!("cannot run git: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let (out, complaint) = (text(&output.stdout), text(&output.stderr));
        if output.status.success() {
            // `git fsck` complains and succeeds where it thinks that it can.
            let fsck = arguments.first() == Some(&"fsck");
            return Ok(if fsck { format!("{out}\n{complaint}") } else { out });
        }
        let line = complaint.lines().last().unwrap_or("it failed").to_owned();
        Err(if complaint.is_empty() { format!("{out} ({})", output.status) } else { line })
    }
}
