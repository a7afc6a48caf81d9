//! What joins the logs of both sides: our session id, and the client's in the trace of this side
//! (gitprotocol-capabilities, "session-id"; git's api-trace2, "Event Format").
//!
//! Of git's trace this is the one event that others look for. It goes to the file, or into the
//! directory, that `GIT_TRACE2_EVENT` names by an absolute path; the variable's other forms are
//! for git's own programs.

use crate::repo::{Disk, Environment};
use bstr::{BStr, ByteSlice};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

/// The id of this process: when it was first asked for, and its number; below the session that
/// started it, if that says so.
pub(super) fn session_id(environment: &Environment) -> String {
    static OWN: OnceLock<String> = OnceLock::new();
    let own = OWN.get_or_init(|| {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        format!(
            "packhouse-{}.{:06}-P{:08x}",
            began.as_secs(),
            began.subsec_micros(),
            std::process::id()
        )
    });
    let parent = environment.var("GIT_TRACE2_PARENT_SID").and_then(|parent| parent.to_str());
    match parent.filter(|parent| !parent.is_empty()) {
        Some(parent) => format!("{parent}/{own}"),
        None => own.clone(),
    }
}

/// Writes down the client's session id, if a trace is asked for.
pub(super) fn trace_client_session(
    disk: &Disk,
    environment: &Environment,
    client: Option<&BStr>,
) -> io::Result<()> {
    let (Some(client), Some(target)) = (client, environment.var("GIT_TRACE2_EVENT")) else {
        return Ok(());
    };
    let target = Path::new(target);
    if !target.as_os_str().as_bytes().starts_with(b"/") {
        return Ok(());
    }
    let own = session_id(environment);
    let event = event(&own, client, SystemTime::now());
    let mut file = disk.append_file(&file_for(disk, target, &own)?, 0o666)?;
    file.write_all(event.as_bytes())
}

/// A directory gets one file for each session.
fn file_for(disk: &Disk, target: &Path, own: &str) -> io::Result<PathBuf> {
    let is_directory =
        disk.stat(target)?.is_some_and(|stat| stat.kind == crate::repo::EntryKind::Directory);
    let name = own.rsplit('/').next().unwrap_or(own);
    Ok(if is_directory { target.join(name) } else { target.to_owned() })
}

fn event(own: &str, client: &BStr, now: SystemTime) -> String {
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let client = client.to_str_lossy();
    let event = serde_json::json!({
        "event": "data",
        "sid": own,
        "thread": "main",
        "time": time(now.as_secs(), now.subsec_micros()),
        "category": "transfer",
        "key": "client-sid",
        "value": client,
    });
    format!("{event}\n")
}

/// The moment as git writes it, in UTC.
fn time(seconds: u64, micros: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date(days);
    let (hour, minute, second) = (rest / 3600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}

/// Year, month and day of a day since 1970, by the calendar's cycle of 400 years, which is taken
/// to begin in March.
fn date(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (cycle, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day_of_month = day - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (cycle * 400 + year + carry, month, day_of_month)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(values: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::empty();
        for (name, value) in values {
            environment.set(*name, *value);
        }
        environment
    }

    #[test]
    fn a_session_names_the_one_that_started_it() {
        let own = session_id(&environment(&[]));
        let below = session_id(&environment(&[("GIT_TRACE2_PARENT_SID", "a/b")]));
        assert_eq!(below, format!("a/b/{own}"));
        assert!(own.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    #[test]
    fn the_client_s_session_is_written_to_the_file_or_into_the_directory() {
        let root = tempfile::tempdir().unwrap();
        let disk = Disk::default();
        let file = root.path().join("events");
        let target = file.to_str().unwrap();
        let trace = |target: &str| {
            let environment = environment(&[("GIT_TRACE2_EVENT", target)]);
            trace_client_session(&disk, &environment, Some("a\"b".into())).unwrap();
        };
        trace(target);
        trace(target);
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 2);
        assert!(text.contains(r#""key":"client-sid","#) && text.contains(r#""value":"a\"b""#));
        let directory = root.path().join("directory");
        std::fs::create_dir(&directory).unwrap();
        trace(directory.to_str().unwrap());
        assert_eq!(std::fs::read_dir(directory).unwrap().count(), 1);
        for elsewhere in ["0", "1", "true", "relative"] {
            trace(elsewhere);
        }
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(time(0, 0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(time(951_782_400, 5), "2000-02-29T00:00:00.000005Z");
        assert_eq!(time(1_735_689_599, 0), "2024-12-31T23:59:59.000000Z");
        assert_eq!(time(4_107_542_399, 999_999), "2100-02-28T23:59:59.999999Z");
        assert_eq!(time(4_107_542_400, 0), "2100-03-01T00:00:00.000000Z");
    }
}
