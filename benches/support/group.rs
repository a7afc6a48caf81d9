//! Processor time of a server and of everything it starts.
//!
//! A control group counts it, because nothing else does: a CGI process whose parent does not wait
//! for it leaves no time behind in `/proc`. That needs root, and a hierarchy of control groups
//! (either version).

use super::Outcome;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A control group of one server.
#[derive(Debug)]
pub(crate) struct Group {
    directory: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Group {
    /// Makes a group with this name.
    pub(crate) fn new(name: &str) -> Outcome<Self> {
        let places = [
            (Path::new("/sys/fs/cgroup/cpuacct"), Version::One),
            (Path::new("/sys/fs/cgroup/cpu,cpuacct"), Version::One),
            (Path::new("/sys/fs/cgroup"), Version::Two),
        ];
        let (root, version) = places
            .into_iter()
            .find(|(root, version)| {
                root.join(version.usage_file()).exists() || *version == Version::Two
            })
            .ok_or("no hierarchy of control groups")?;
        let directory = root.join(name);
        fs::create_dir(&directory).map_err(|error| {
            format!(
                "cannot make a control group to count processor time in (root is needed): {error}"
            )
        })?;
        Ok(Self { directory, version })
    }

    /// A command that runs `program` in the group.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("sh");
        let script = r#"echo $$ > "$0"; exec "$@""#;
        command.arg("-c").arg(script).arg(self.directory.join("cgroup.procs")).arg(program);
        command
    }

    /// User and system time that was used in the group so far.
    pub(crate) fn used(&self) -> Outcome<Duration> {
        let text = fs::read_to_string(self.directory.join(self.version.usage_file()))?;
        match self.version {
            Version::One => Ok(Duration::from_nanos(text.trim().parse()?)),
            Version::Two => {
                let value = text.lines().find_map(|line| line.strip_prefix("usage_usec "));
                Ok(Duration::from_micros(value.ok_or("cpu.stat tells no usage")?.parse()?))
            }
        }
    }

    /// The most memory that one of its processes held at once, in kilobytes.
    pub(crate) fn peak_kilobytes(&self) -> Option<u64> {
        self.processes().iter().filter_map(|process| peak_kilobytes(process)).max()
    }

    fn processes(&self) -> Vec<String> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }
}

impl Version {
    fn usage_file(self) -> &'static str {
        match self {
            Self::One => "cpuacct.usage",
            Self::Two => "cpu.stat",
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // fcgiwrap leaves its workers behind, and a CGI process may take a moment to end.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            for process in self.processes() {
                let id = process.parse().ok().and_then(rustix::process::Pid::from_raw);
                id.map(|id| rustix::process::kill_process(id, rustix::process::Signal::TERM));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn peak_kilobytes(process: &str) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().trim_end_matches("kB").trim().parse().ok()
}
