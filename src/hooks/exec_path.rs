//! Where git keeps its own programs: hooks that call plain `git-…` programs find them there.

use crate::repo::Environment;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// `PATH` with git's exec path in front, as git gives it to the hooks it starts
/// (git's `setup_path`): `GIT_EXEC_PATH` if set, else what the installed git says, asked once.
pub(super) fn path_with_exec_path(environment: &Environment) -> OsString {
    static INSTALLED: OnceLock<Option<OsString>> = OnceLock::new();
    let path = environment.var("PATH").map(OsStr::to_owned).unwrap_or_default();
    let configured = environment.var("GIT_EXEC_PATH").map(OsStr::to_owned);
    let front = configured
        .filter(|front| !front.is_empty())
        .or_else(|| INSTALLED.get_or_init(ask_installed_git).clone());
    let Some(front) = front else { return path };
    let starts_with_front = path
        .as_bytes()
        .strip_prefix(front.as_bytes())
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(b":"));
    if starts_with_front {
        return path;
    }
    let mut joined = front;
    if !path.is_empty() {
        joined.push(":");
        joined.push(path);
    }
    joined
}

fn ask_installed_git() -> Option<OsString> {
    let output =
        Command::new("git").arg("--exec-path").stdin(Stdio::null()).stderr(Stdio::null()).output();
    let mut line = output.ok().filter(|output| output.status.success())?.stdout;
    while line.last() == Some(&b'\n') {
        line.pop();
    }
    (!line.is_empty()).then(|| OsString::from_vec(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exec_path_stands_in_front_once() {
        let mut environment = Environment::empty();
        environment.set("GIT_EXEC_PATH", "/x/core");
        environment.set("PATH", "/bin:/usr/bin");
        let joined = path_with_exec_path(&environment);
        assert_eq!(joined, "/x/core:/bin:/usr/bin");
        environment.set("PATH", joined.clone());
        assert_eq!(path_with_exec_path(&environment), joined);
    }
}
