//! After the run: is everything there that was acknowledged?
//!
//! Three looks, each by other eyes. The refs, as a pusher is shown them: values, and that every
//! acknowledged commit is in a history that leads to one of them. A fetch by stock git over HTTP,
//! where the server serves fetches: every acknowledged commit has arrived, with all that it needs.
//! On disk, where the root is known: `git fsck` is clean and every acknowledged commit is reachable.
//!
//! Lost is what was looked for and is not there. What could not be looked at is no loss and no
//! proof: it is told apart, and nothing that happens here takes the figures of the run away.

use super::connection::{Connection, RequestError};
use super::discovery::Advertisement;
use super::files::Scratch;
use super::git::{Git, GitError};
use super::ledger::Ledger;
use super::push::{self, PushError};
use super::settings::Settings;
use super::side::Repository;
use super::summary::Verification;
use crate::model::{HashKind, ObjectId};
use hyper::http::StatusCode;
use std::collections::HashSet;
use std::error::Error as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// What was found, and whether all was looked at that could have been.
pub(super) struct Verified {
    pub(super) verification: Verification,
    /// False if something of `skipped` might hide a loss. That a server serves no fetches does
    /// not make it so.
    pub(super) complete: bool,
}

/// Looks for everything that a ledger holds; ends soon once `interrupted` says so.
pub(super) fn verify(
    settings: &Settings,
    repositories: &[Repository],
    ledger: &Ledger,
    interrupted: &dyn Fn() -> bool,
) -> Verified {
    let mut verification = Verification::of_run(ledger, repositories);
    verification.asked = true;
    let mut verified = Verified { verification, complete: true };
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => {
            let git = Git::new(settings);
            let look = Look { settings, git: &git, runtime: &runtime, interrupted };
            look.at_all(repositories, ledger, &mut verified);
        }
        Err(error) => verified.skip(&error.to_string()),
    }
    // A verdict on nothing would read as a verdict.
    verified.verification.asked = verified.verification.skipped.is_empty()
        || verified.verification.repositories > 0
        || verified.verification.on_disk > 0;
    verified
}

impl Verified {
    fn lose(&mut self, text: &str) {
        self.verification.lost.push(printable(text));
    }

    fn skip(&mut self, text: &str) {
        self.verification.skipped.push(printable(text));
        self.complete = false;
    }

    /// Takes down why git read nothing good from a disk: it did look, unless it was kept from it.
    fn take_unread(&mut self, what: &str, error: &GitError) {
        match error {
            GitError::Failed(complaint) if !complaint.contains("Permission denied") => {
                self.lose(&format!("{what}: {error}"));
            }
            error => self.skip(&format!("{what}: {error}")),
        }
    }

    /// Takes down why git fetched nothing.
    fn take_unfetched(&mut self, what: &str, error: &GitError) {
        match error {
            GitError::Failed(complaint) if tells_of_loss(complaint) => {
                self.lose(&format!("{what}: {error}"));
            }
            error => self.skip(&format!("{what}: {error}")),
        }
    }
}

/// What a verification looks with.
struct Look<'a> {
    settings: &'a Settings,
    git: &'a Git,
    runtime: &'a Runtime,
    interrupted: &'a dyn Fn() -> bool,
}

impl Look<'_> {
    fn at_all(&self, repositories: &[Repository], ledger: &Ledger, verified: &mut Verified) {
        let mut fetches = true;
        for number in ledger.repositories() {
            let Some(repository) = repositories.get(number) else { continue };
            if (self.interrupted)() {
                break;
            }
            let acknowledged = ledger.acknowledged(number);
            match self.discover(repository, &repository.paths.discover_push) {
                Some(Ok(shown)) => {
                    verified.verification.commits += acknowledged.len() as u64;
                    verified.verification.repositories += 1;
                    let missing = ledger.missing(number, &shown.values());
                    verified.verification.miss(missing, repositories);
                }
                // A repository that nothing was acknowledged for need not be there.
                Some(Err(_)) if acknowledged.is_empty() => continue,
                Some(Err(error)) if is_gone(&error) => {
                    verified.lose(&format!("{}: {error}", repository.url));
                }
                Some(Err(error)) => verified.skip(&format!("{}: {error}", repository.url)),
                None => break,
            }
            if acknowledged.is_empty() {
                continue;
            }
            if fetches {
                fetches = self.fetched(repository, &acknowledged, verified);
            }
            if let Some(root) = &self.settings.root {
                self.on_disk(root, repository, &acknowledged, verified);
            }
        }
        if (self.interrupted)() {
            verified.skip("interrupted: not every repository was looked at");
        }
    }

    /// Asks a repository for its refs; nothing if that was interrupted.
    fn discover(
        &self,
        repository: &Repository,
        path: &str,
    ) -> Option<Result<Advertisement, PushError>> {
        let mut connection = Connection::new(Arc::clone(&repository.endpoint));
        let interrupt = async {
            while !(self.interrupted)() {
                tokio::time::sleep(LOOK).await;
            }
        };
        self.runtime.block_on(async {
            tokio::select! {
                result = push::discover(&mut connection, path) => Some(result),
                () = interrupt => None,
            }
        })
    }

    /// Fetches a repository with git; whether it makes sense to try the next.
    fn fetched(
        &self,
        repository: &Repository,
        acknowledged: &[ObjectId],
        verified: &mut Verified,
    ) -> bool {
        let what = &repository.url;
        match self.discover(repository, &repository.paths.discover_fetch) {
            Some(Ok(_)) => {}
            Some(Err(error)) if serves_no_fetches(&error) => {
                let text = format!("nothing was fetched, since the server said: {error}");
                verified.verification.skipped.push(printable(&text));
                return false;
            }
            Some(Err(error)) => {
                verified.skip(&format!("{what}: cannot be fetched: {error}"));
                return true;
            }
            None => return false,
        }
        let scratch =
            match Scratch::new(&format!("{}-{}", std::process::id(), repository.directory)) {
                Ok(scratch) => scratch,
                Err(error) => {
                    let cause =
                        error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
                    verified.skip(&format!("nothing was fetched: {error}{cause}"));
                    return false;
                }
            };
        let hash = acknowledged.first().map(ObjectId::kind);
        let format = if hash == Some(HashKind::Sha256) { "sha256" } else { "sha1" };
        let all = ["fetch", "-q", "--no-tags", what, "+refs/*:refs/*"];
        let result = self
            .git(scratch.path(), &["init", "-q", "--bare", "--object-format", format, "."])
            .and_then(|_| self.git(scratch.path(), &all));
        if let Err(error) = result {
            // A server that lets one fetch run into the deadline would do so with each.
            let hopeless = matches!(error, GitError::Deadline(_));
            verified.take_unfetched(&format!("{what}: cannot be fetched"), &error);
            return !hopeless;
        }
        match self.reachable(scratch.path()) {
            Ok(there) => {
                verified.verification.fetched += 1;
                for id in acknowledged.iter().filter(|id| !there.contains(*id)) {
                    verified.lose(&format!("{what}: {id} could not be fetched"));
                }
            }
            Err(error) => verified.take_unread(what, &error),
        }
        true
    }

    /// Looks at a repository on disk.
    fn on_disk(
        &self,
        root: &Path,
        repository: &Repository,
        acknowledged: &[ObjectId],
        verified: &mut Verified,
    ) {
        let Some(path) = place(root, &repository.path) else {
            let (url, root) = (&repository.url, root.display());
            verified
                .skip(&format!("{url}: it lies neither by its path nor by its name in '{root}'"));
            return;
        };
        let shown = path.display();
        match self.git(&path, &["fsck", "--full", "--no-dangling", "--no-progress"]) {
            Ok(text) => {
                let faults = text.lines().filter(|line| !line.starts_with("notice: "));
                for line in faults.filter(|line| !line.is_empty()) {
                    verified.lose(&format!("{shown}: git fsck: {line}"));
                }
            }
            Err(error) => {
                verified.take_unread(&format!("{shown}: git fsck"), &error);
                if !matches!(error, GitError::Failed(_)) {
                    return;
                }
            }
        }
        match self.reachable(&path) {
            Ok(there) => {
                verified.verification.on_disk += 1;
                for id in acknowledged.iter().filter(|id| !there.contains(*id)) {
                    verified.lose(&format!("{shown}: {id} is not on disk behind any ref"));
                }
            }
            Err(error) => verified.take_unread(&shown.to_string(), &error),
        }
    }

    /// The commits behind all refs. Their trees and blobs are read too, so that none is missing.
    fn reachable(&self, path: &Path) -> Result<HashSet<ObjectId>, GitError> {
        self.git(path, &["rev-list", "--objects", "--all", "--quiet"])?;
        let text = self.git(path, &["rev-list", "--all"])?;
        Ok(text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect())
    }

    fn git(&self, directory: &Path, arguments: &[&str]) -> Result<String, GitError> {
        self.git.run(directory, arguments, self.interrupted)
    }
}

/// Where a repository lies: by the path of its URL below the root, or by the end of that path if
/// the server serves the root below a path of its own.
fn place(root: &Path, path: &str) -> Option<PathBuf> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    (0..parts.len())
        .map(|first| parts.iter().skip(first).collect::<PathBuf>())
        .filter(|below| below.components().all(|part| matches!(part, Component::Normal(_))))
        .flat_map(|below| {
            let mut longer = below.clone().into_os_string();
            longer.push(".git");
            [root.join(below), root.join(longer)]
        })
        .find(|path| path.is_dir())
}

/// Whether the server that acknowledged pushes to a repository says now that it has none.
fn is_gone(error: &PushError) -> bool {
    matches!(
        error,
        PushError::Request(RequestError::Status {
            status: StatusCode::NOT_FOUND | StatusCode::GONE,
            ..
        })
    )
}

/// Whether it is the server's way not to serve fetches, rather than a fault.
fn serves_no_fetches(error: &PushError) -> bool {
    let PushError::Request(RequestError::Status { status, .. }) = error else { return false };
    let passing = [
        StatusCode::UNAUTHORIZED,
        StatusCode::PROXY_AUTHENTICATION_REQUIRED,
        StatusCode::REQUEST_TIMEOUT,
        StatusCode::TOO_MANY_REQUESTS,
    ];
    *status == StatusCode::NOT_IMPLEMENTED
        || (status.is_client_error() && !passing.contains(status))
}

/// Whether git says that objects are not there, rather than that it could not ask.
fn tells_of_loss(complaint: &str) -> bool {
    [
        "did not send all necessary objects",
        "unresolved delta",
        "bad object",
        "bad tree object",
        "missing blob",
        "missing tree",
        "missing commit",
        "Could not read ",
        "unable to read tree",
        "unable to read sha1 file",
        "unable to parse object",
    ]
    .iter()
    .any(|words| complaint.contains(words))
}

/// One line, whatever a server put into it.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

const LOOK: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_lies_by_its_whole_path_or_by_its_end() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        assert_eq!(place(root, "/team/x.git"), None);
        std::fs::create_dir_all(root.join("x.git")).unwrap();
        assert_eq!(place(root, "/team/x.git"), Some(root.join("x.git")));
        std::fs::create_dir_all(root.join("team/x.git")).unwrap();
        assert_eq!(place(root, "/team/x.git"), Some(root.join("team/x.git")));
        assert_eq!(place(root, "/git/team/x"), Some(root.join("team/x.git")));
        assert_eq!(place(root, "/../team"), Some(root.join("team")));
        assert_eq!(place(root, ""), None);
    }

    #[test]
    fn a_name_with_a_dot_is_lengthened_and_not_changed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("x.git")).unwrap();
        assert_eq!(place(root.path(), "/x.y"), None);
        std::fs::create_dir(root.path().join("x.y.git")).unwrap();
        assert_eq!(place(root.path(), "/x.y"), Some(root.path().join("x.y.git")));
    }

    #[test]
    fn only_what_was_looked_for_and_is_not_there_is_a_loss() {
        let mut verified = Verified { verification: Verification::default(), complete: true };
        let failed = |text: &str| GitError::Failed(text.into());
        verified
            .take_unfetched("x", &failed("fatal: unable to access 'http://h/': Failed to connect"));
        verified.take_unfetched("x", &GitError::Deadline(LOOK));
        verified.take_unfetched("x", &GitError::Interrupted);
        assert_eq!(verified.verification.lost, Vec::<String>::new());
        assert_eq!(verified.verification.skipped.len(), 3);
        assert!(!verified.complete);
        verified
            .take_unfetched("x", &failed("error: http://h/ did not send all necessary objects"));
        verified.take_unread("x", &failed("error: cannot open 'x': Permission denied"));
        assert_eq!(verified.verification.lost.len(), 1);
        verified.take_unread("x", &failed("fatal: missing blob object '1234'"));
        assert_eq!(verified.verification.lost.len(), 2);
    }

    #[test]
    fn a_server_that_refuses_fetches_is_told_from_one_that_is_in_trouble() {
        let error = |status: u16| {
            let status = StatusCode::from_u16(status).unwrap();
            let detail = String::new();
            PushError::Request(RequestError::Status { status, detail, retry_after: None })
        };
        assert!([403, 404, 501].into_iter().all(|status| serves_no_fetches(&error(status))));
        assert!(![401, 429, 500, 503].into_iter().any(|status| serves_no_fetches(&error(status))));
        assert!(!serves_no_fetches(&PushError::Request(RequestError::Timeout(LOOK))));
        assert!(is_gone(&error(404)) && !is_gone(&error(503)));
    }
}
