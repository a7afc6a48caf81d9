//! `packhouse token`: tokens made, listed and taken back.
//!
//! Guarantees that the token file is changed by a rename, never in place, so that a server reads
//! the old or the new one; that two changes at once do not lose one of them; that a file that
//! cannot be read as one of tokens is not touched; that a new one is for its owner's eyes; and that
//! every line but the changed ones, comments among them, stays as it was.

use crate::access::{Glob, Grant, Scope};
use crate::auth::{Content as _, Expiry, Token, TokenDigest, TokenEntry, TokenFile};
use crate::repo::{Component, Disk, DurableFile, FlushPolicy};
use crate::report::with_causes;
use clap::{Args, Subcommand};
use std::error::Error;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

/// Makes, lists and revokes the tokens of a token file.
#[derive(Args, Clone, Debug)]
pub(super) struct TokenCommand {
    /// The token file, as given to `packhouse serve --tokens`
    #[arg(long, env = "PACKHOUSE_TOKENS", value_name = "FILE", global = true)]
    tokens: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Makes a token, shows it this once, and adds its digest to the file, which is created if it
    /// is not there
    Create {
        /// Whose it is
        user: String,
        /// How far it goes, within what the user may do anyway: fetch; push, too; make repositories,
        /// too
        #[arg(long, default_value = "write", value_name = "read|write|create")]
        scope: Scope,
        /// The repositories it is for, as in an access file; may be given several times [default:
        /// all]
        #[arg(long = "repository", value_name = "GLOB")]
        repositories: Vec<String>,
        /// When it ends: 90d for days from now, 2027-01-31, or never
        #[arg(long, default_value = "365d", value_name = "DATE|DAYSd|never")]
        expires: String,
        /// By what it is named in logs and to revoke it [default: drawn]
        #[arg(long)]
        id: Option<String>,
    },
    /// Lists the tokens: id, user, scope, end, repositories
    List,
    /// Takes tokens back, by their ids or all of a user's
    Revoke {
        /// The ids
        #[arg(required_unless_present = "user")]
        ids: Vec<String>,
        /// All tokens of this user
        #[arg(long, conflicts_with = "ids")]
        user: Option<String>,
    },
}

type Failure = Box<dyn Error + Send + Sync>;

impl TokenCommand {
    /// Runs the command: 0 if it was done, 1 if not.
    pub(super) fn run(self) -> ExitCode {
        match self.carry_out() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let text = format!("packhouse: error: {}\n", with_causes(error.as_ref()));
                drop(io::stderr().lock().write_all(text.as_bytes()));
                ExitCode::FAILURE
            }
        }
    }

    fn carry_out(self) -> Result<(), Failure> {
        let path = self.tokens.ok_or("which file? give --tokens FILE or PACKHOUSE_TOKENS")?;
        let disk = Disk::new(FlushPolicy::FULL);
        match self.action {
            Action::Create { user, scope, repositories, expires, id } => {
                let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
                let token = Token::draw()?;
                let digest = TokenDigest::of(token.reveal().as_bytes());
                let all = ["**".to_owned()];
                let globs = if repositories.is_empty() { &all[..] } else { &repositories };
                let repositories =
                    globs.iter().map(|glob| Glob::parse(glob)).collect::<Result<_, _>>()?;
                let entry = TokenEntry {
                    // Some digits of the digest, which tell nothing of the token.
                    id: id.unwrap_or_else(|| digest.to_string().chars().take(8).collect()),
                    user,
                    grant: Grant { scope, repositories },
                    expiry: expiry(&expires, now)?,
                    digest,
                };
                let (line, expiry) = (entry.to_string(), entry.expiry);
                change(&disk, &path, |lines| {
                    lines.push(line);
                    Ok(())
                })?;
                // The token alone on standard output, for scripts.
                let text = format!(
                    "token '{}' of '{}', expires: {expiry}; it is not shown again:\n",
                    entry.id, entry.user
                );
                drop(io::stderr().lock().write_all(text.as_bytes()));
                print(&format!("{}\n", token.reveal()))
            }
            Action::List => print(&list(&disk, &path)?),
            Action::Revoke { ids, user } => {
                let revoked = change(&disk, &path, |lines| revoke(lines, &ids, user.as_deref()))?;
                print(&format!("revoked: {}\n", revoked.join(", ")))
            }
        }
    }
}

/// LIMIT: bytes of a token file, as a server reads them.
const BYTES_MAX: u64 = 16 << 20;
const HEAD: &str = "# tokens of packhouse: id user scope expires sha256:digest repositories...";

fn expiry(text: &str, now: u64) -> Result<Expiry, Failure> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let end = days.and_then(|days| now.checked_add(days.checked_mul(86400)?));
    match end {
        // Years of more than four digits cannot be written.
        Some(end) if end < 253_402_300_800 => Ok(Expiry::At(end)),
        Some(_) => Err(format!("'{text}' is too far away; there is 'never'").into()),
        None => Ok(Expiry::parse(text)?),
    }
}

fn list(disk: &Disk, path: &Path) -> Result<String, Failure> {
    let file = parse(path, &disk.read(path, BYTES_MAX).map_err(|error| unreadable(path, &error))?)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut text = String::new();
    for TokenEntry { id, user, grant, expiry, .. } in file.all() {
        let ended = if expiry.is_past(now) { " (expired)" } else { "" };
        let globs: Vec<_> = grant.repositories.iter().map(Glob::as_str).collect();
        let scope = grant.scope;
        // Writing to a string does not fail.
        let _ = writeln!(text, "{id}\t{user}\t{scope}\t{expiry}{ended}\t{}", globs.join(" "));
    }
    Ok(text)
}

/// Takes the lines of tokens away; gives their ids.
fn revoke(
    lines: &mut Vec<String>,
    ids: &[String],
    user: Option<&str>,
) -> Result<Vec<String>, Failure> {
    let mut revoked = Vec::new();
    lines.retain(|line| {
        let Ok(Some(entry)) = TokenEntry::parse(line.as_bytes()) else { return true };
        let is_meant = ids.contains(&entry.id) || user == Some(entry.user.as_str());
        if is_meant {
            revoked.push(entry.id);
        }
        !is_meant
    });
    if let Some(absent) = ids.iter().find(|id| !revoked.contains(id)) {
        return Err(format!("there is no token '{absent}'; nothing was changed").into());
    }
    match user {
        Some(user) if revoked.is_empty() => Err(format!("user '{user}' has no token").into()),
        _ => Ok(revoked),
    }
}

/// Changes the lines of the file, under a lock that is the next file itself.
fn change<T>(
    disk: &Disk,
    path: &Path,
    edit: impl FnOnce(&mut Vec<String>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    let next_path = PathBuf::from(name);
    let next = disk.create_file(&next_path, 0o600).map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => format!(
            "'{}' is there: another change is under way, or one was killed and it can go",
            next_path.display()
        ),
        _ => format!("cannot create '{}': {error}", next_path.display()),
    })?;
    let changed = replace(disk, path, next, edit);
    if changed.is_err() {
        // The first error is the one to tell.
        let _ = disk.unlink(&next_path);
    }
    changed
}

fn replace<T>(
    disk: &Disk,
    path: &Path,
    mut next: DurableFile,
    edit: impl FnOnce(&mut Vec<String>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let before = disk.read_if_there(path, BYTES_MAX).map_err(|error| unreadable(path, &error))?;
    let text = match before {
        Some(bytes) => {
            parse(path, &bytes)?;
            keep_owner(disk, path, &next)?;
            String::from_utf8(bytes)?
        }
        None => format!("{HEAD}\n"),
    };
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let result = edit(&mut lines)?;
    let mut text = lines.join("\n");
    text.push('\n');
    // What a server would not read must not take the place of what it does.
    parse(path, text.as_bytes())?;
    next.write_all(text.as_bytes())?;
    next.flush_as(Component::Reference)?;
    disk.rename(next.path(), path)?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    disk.flush_directory(directory.unwrap_or(Path::new(".")), Component::Reference)?;
    Ok(result)
}

/// Gives the next file the owner and the mode of the one whose place it takes: it may be root who
/// changes the file of a server that is not.
fn keep_owner(disk: &Disk, path: &Path, next: &DurableFile) -> Result<(), Failure> {
    use std::os::unix::fs::MetadataExt as _;
    let of = disk.open(path)?.metadata()?;
    let own = next.as_file().metadata()?;
    if (of.uid(), of.gid()) != (own.uid(), own.gid()) {
        let (owner, group) =
            (rustix::fs::Uid::from_raw(of.uid()), rustix::fs::Gid::from_raw(of.gid()));
        rustix::fs::fchown(next.as_file(), Some(owner), Some(group))
            .map_err(|error| format!("cannot give '{}' its owner: {error}", path.display()))?;
    }
    next.set_mode(of.mode() & 0o777)?;
    Ok(())
}

fn parse(path: &Path, bytes: &[u8]) -> Result<TokenFile, Failure> {
    TokenFile::parse(path, bytes).map_err(|(line, fault)| {
        format!("{} '{}', line {line}: {fault}", TokenFile::WHAT, path.display()).into()
    })
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    format!("cannot read {} '{}': {error}", TokenFile::WHAT, path.display()).into()
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    fn line(id: &str, user: &str) -> String {
        format!("{id} {user} read never sha256:{} **", TokenDigest::of(id.as_bytes()))
    }

    #[test]
    fn a_new_file_is_private_and_a_changed_one_keeps_its_mode_and_its_comments() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let disk = Disk::new(FlushPolicy::FULL);
        let mode = || fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        let add = |text: String| {
            change(&disk, &path, |lines| {
                lines.push(text);
                Ok(())
            })
        };
        add(line("a", "ann")).unwrap();
        assert_eq!(mode(), 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let text = fs::read_to_string(&path).unwrap() + "  # mine\n";
        fs::write(&path, &text).unwrap();
        add(line("b", "bob")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), format!("{text}{}\n", line("b", "bob")));
        assert_eq!(mode(), 0o640);
        assert!(add(line("a", "eve")).unwrap_err().to_string().contains("'a' is there twice"));
        assert!(!directory.path().join("tokens.lock").exists());
    }

    #[test]
    fn a_broken_file_and_one_under_change_are_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let disk = Disk::new(FlushPolicy::FULL);
        fs::write(&path, "nonsense\n").unwrap();
        let error = change(&disk, &path, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("line 1: 1 words"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "nonsense\n");
        fs::write(directory.path().join("tokens.lock"), "").unwrap();
        let error = change(&disk, &path, |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("tokens.lock' is there"), "{error}");
        assert!(directory.path().join("tokens.lock").exists());
    }

    #[test]
    fn tokens_are_taken_back_by_id_and_by_user_and_all_or_none() {
        let all = || vec!["# x".to_owned(), line("a", "ann"), line("b", "bob"), line("c", "ann")];
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        let mut lines = all();
        assert_eq!(revoke(&mut lines, &ids(&["b"]), None).unwrap(), ["b"]);
        assert_eq!(lines, ["# x".to_owned(), line("a", "ann"), line("c", "ann")]);
        let mut lines = all();
        assert_eq!(revoke(&mut lines, &[], Some("ann")).unwrap(), ["a", "c"]);
        assert_eq!(lines, ["# x".to_owned(), line("b", "bob")]);
        let error = revoke(&mut all(), &ids(&["a", "z"]), None).unwrap_err().to_string();
        assert!(error.contains("no token 'z'"), "{error}");
        assert!(revoke(&mut all(), &[], Some("eve")).is_err());
    }

    #[test]
    fn an_end_may_be_so_many_days_away() {
        assert_eq!(expiry("1d", 100).unwrap(), Expiry::At(86_500));
        assert_eq!(expiry("never", 100).unwrap(), Expiry::Never);
        assert_eq!(expiry("1970-01-01", 100).unwrap(), Expiry::At(86_400));
        for wrong in ["", "d", "-1d", "1w", "99999999999999d", "99999999d"] {
            assert!(expiry(wrong, 100).is_err(), "{wrong}");
        }
    }
}
