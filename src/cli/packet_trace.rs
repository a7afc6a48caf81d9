//! What `GIT_TRACE_PACKET` names, opened once and before anything else, so that a descriptor it
//! names by number is the caller's and none of ours.
//!
//! As with git, a trace that cannot be written is told on standard error and then given up: nothing
//! that a push does depends on it.

use crate::receive::PacketTrace;
use crate::repo::{Disk, DurableFile, Environment};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The trace that the environment asks for: one that is off unless it asks for one.
pub(super) fn packet_trace(disk: &Disk, environment: &Environment) -> PacketTrace {
    let Some(named) = named(environment, "GIT_TRACE_PACKET") else {
        return PacketTrace::default();
    };
    let output = match named {
        Named::StandardError => Output::StandardError,
        // Opened again, and to append: what it is must have a name, as a socket has not.
        Named::Descriptor(number) => {
            match disk.append_file(Path::new(&format!("/dev/fd/{number}")), 0o666) {
                Ok(file) => Output::File(file),
                Err(error) => {
                    cannot_write(&error);
                    return PacketTrace::default();
                }
            }
        }
        Named::File(path) => match disk.append_file(&path, 0o666) {
            Ok(file) => Output::File(file),
            Err(error) => {
                let reason = reason(&error);
                warn(&format!("could not open '{}' for tracing: {reason}", path.display()));
                return PacketTrace::default();
            }
        },
    };
    PacketTrace::new(Box::new(output), self::named(environment, "GIT_TRACE_BARE").is_some())
}

/// Where a trace goes.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    StandardError,
    Descriptor(u8),
    File(PathBuf),
}

/// What the variable says (git(1), `GIT_TRACE`); nothing if the trace is off, or after a warning.
fn named(environment: &Environment, name: &str) -> Option<Named> {
    let value = environment.var(name)?;
    let bytes = value.as_bytes();
    let is = |word: &str| bytes.eq_ignore_ascii_case(word.as_bytes());
    match bytes {
        b"" | b"0" => None,
        b"1" | b"2" => Some(Named::StandardError),
        [digit @ b'3'..=b'9'] => Some(Named::Descriptor(digit - b'0')),
        [b'/', ..] => Some(Named::File(value.into())),
        _ if is("false") => None,
        _ if is("true") => Some(Named::StandardError),
        _ => {
            warn_of_value(name, value);
            None
        }
    }
}

fn warn_of_value(name: &str, value: &OsStr) {
    warn(&format!(
        "unknown trace value for '{name}': {}\n         If you want to trace into a file, then \
         please set {name}\n         to an absolute pathname (starting with /)",
        value.display()
    ));
}

/// What lines are written to.
enum Output {
    StandardError,
    File(DurableFile),
    /// Nothing any more: it could not be written.
    GivenUp,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::StandardError => io::stderr().lock().write_all(bytes),
            Self::File(file) => file.write_all(bytes),
            Self::GivenUp => Ok(()),
        };
        if let Err(error) = &written {
            cannot_write(error);
            *self = Self::GivenUp;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn cannot_write(error: &io::Error) {
    warn(&format!("unable to write trace for GIT_TRACE_PACKET: {}", reason(error)));
}

/// The system's words for an error, without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn warn(text: &str) {
    drop(writeln!(io::stderr().lock(), "warning: {text}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named_by(value: &str) -> Option<Named> {
        let mut environment = Environment::empty();
        environment.set("GIT_TRACE_PACKET", value);
        named(&environment, "GIT_TRACE_PACKET")
    }

    #[test]
    fn the_variable_is_read_as_git_reads_it() {
        for off in ["", "0", "false", "FALSE", "10", "yes", "relative/path", "00"] {
            assert_eq!(named_by(off), None, "{off}");
        }
        for on in ["1", "2", "true", "True"] {
            assert_eq!(named_by(on), Some(Named::StandardError), "{on}");
        }
        assert_eq!(named_by("3"), Some(Named::Descriptor(3)));
        assert_eq!(named_by("9"), Some(Named::Descriptor(9)));
        assert_eq!(named_by("/x y"), Some(Named::File("/x y".into())));
        assert_eq!(named(&Environment::empty(), "GIT_TRACE_PACKET"), None);
    }

    #[test]
    fn what_cannot_be_written_is_given_up() {
        let disk = Disk::default();
        let mut output = Output::File(disk.append_file(Path::new("/dev/full"), 0o666).unwrap());
        output.write_all(b"a line\n").unwrap();
        assert!(matches!(output, Output::GivenUp));
        output.write_all(b"another\n").unwrap();
    }
}
