//! After the run: is everything there that was acknowledged?
//!
//! Three looks, each by other eyes. The refs, as a pusher is shown them: values, and that every
//! acknowledged commit is in a history that leads to one of them. A fetch by stock git over HTTP,
//! where the server serves fetches: every acknowledged commit has arrived, with all that it needs.
//! On disk, where the root is known: `git fsck` is clean and every acknowledged commit is reachable.

use super::connection::Connection;
use super::files::{FilesError, Scratch};
use super::git::Git;
use super::interrupt::Interrupt;
use super::ledger::Ledger;
use super::push::{self, PushError};
use super::settings::Settings;
use super::side::Repository;
use super::summary::Verification;
use crate::model::ObjectId;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Why nothing can be said.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// No place for what is fetched.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// No runtime, or no git.
    #[error("cannot verify")]
    System(#[from] std::io::Error),
}

/// Looks for everything that a ledger holds.
pub(super) fn verify(
    settings: &Settings,
    repositories: &[Repository],
    ledger: &Ledger,
    interrupt: &Interrupt,
) -> Result<Verification, VerifyError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut verification = Verification::of_run(ledger, repositories);
    verification.asked = true;
    let git = Git::new(settings);
    let mut fetches = true;
    for number in ledger.repositories() {
        let Some(repository) = repositories.get(number) else { continue };
        if interrupt.is_set() {
            verification.skipped.push("interrupted: not every repository was looked at".into());
            break;
        }
        let acknowledged = ledger.acknowledged(number);
        verification.commits += acknowledged.len() as u64;
        verification.repositories += 1;
        let mut connection = Connection::new(Arc::clone(&repository.endpoint));
        let path = &repository.paths.discover_push;
        match runtime.block_on(push::discover(&mut connection, path)) {
            Ok(shown) => {
                let missing = ledger.missing(number, &shown.values());
                verification.miss(missing, repositories);
            }
            // A repository that nothing was acknowledged for need not be there.
            Err(_) if acknowledged.is_empty() => continue,
            Err(error) => verification.lost.push(format!("{}: {error}", repository.url)),
        }
        if acknowledged.is_empty() {
            continue;
        }
        if fetches {
            fetches = fetched(&git, repository, &acknowledged, &runtime, &mut verification)?;
        }
        if let Some(root) = &settings.root {
            on_disk(&git, root.join(&repository.directory), &acknowledged, &mut verification)?;
        }
    }
    Ok(verification)
}

/// Fetches a repository with git; whether it makes sense to try the next.
fn fetched(
    git: &Git,
    repository: &Repository,
    acknowledged: &[ObjectId],
    runtime: &tokio::runtime::Runtime,
    verification: &mut Verification,
) -> Result<bool, VerifyError> {
    let mut connection = Connection::new(Arc::clone(&repository.endpoint));
    let path = &repository.paths.discover_fetch;
    if let Err(error) = runtime.block_on(push::discover(&mut connection, path)) {
        let text = match error {
            PushError::Request(error) => error.to_string(),
            error => error.to_string(),
        };
        verification.skipped.push(format!("nothing was fetched, since the server said: {text}"));
        return Ok(false);
    }
    if !git.is_there() {
        verification.skipped.push("nothing was fetched: there is no git on this machine".into());
        return Ok(false);
    }
    let scratch = Scratch::new(&format!("{}-{}", std::process::id(), repository.directory))?;
    let hash = acknowledged.first().map(ObjectId::kind);
    let format = if hash == Some(crate::model::HashKind::Sha256) { "sha256" } else { "sha1" };
    let result = git
        .run(scratch.path(), &["init", "-q", "--bare", "--object-format", format, "."])
        .and_then(|_| {
            let all = ["fetch", "-q", "--no-tags", &repository.url, "+refs/*:refs/*"];
            git.run(scratch.path(), &all)
        });
    match result {
        Ok(_) => {
            absent(git, scratch.path(), acknowledged, "fetched", repository, verification);
            verification.fetched += 1;
        }
        Err(text) => {
            verification.lost.push(format!("{}: cannot be fetched: {text}", repository.url));
        }
    }
    Ok(true)
}

/// Looks at a repository on disk.
fn on_disk(
    git: &Git,
    path: PathBuf,
    acknowledged: &[ObjectId],
    verification: &mut Verification,
) -> Result<(), VerifyError> {
    let path = if path.is_dir() { path } else { path.with_extension("git") };
    let shown = path.display();
    if !git.is_there() {
        return Err(std::io::Error::new(
            std::io::ErrorKind::NotFound,
            "there is no git on this machine to look at what lies on disk",
        )
        .into());
    }
    if !path.is_dir() {
        verification.lost.push(format!("there is no repository at '{shown}'"));
        return Ok(());
    }
    verification.on_disk += 1;
    match git.run(&path, &["fsck", "--full", "--no-dangling", "--no-progress"]) {
        Ok(text) => {
            let faults = text.lines().filter(|line| !line.starts_with("notice: "));
            let faults = faults.filter(|line| !line.is_empty());
            verification.lost.extend(faults.map(|line| format!("{shown}: git fsck: {line}")));
        }
        Err(text) => verification.lost.push(format!("{shown}: git fsck: {text}")),
    }
    match reachable(git, &path) {
        Ok(there) => {
            for id in acknowledged.iter().filter(|id| !there.contains(*id)) {
                verification.lost.push(format!("{shown}: {id} is not on disk behind any ref"));
            }
        }
        Err(text) => verification.lost.push(format!("{shown}: {text}")),
    }
    Ok(())
}

fn absent(
    git: &Git,
    path: &Path,
    acknowledged: &[ObjectId],
    how: &str,
    repository: &Repository,
    verification: &mut Verification,
) {
    match reachable(git, path) {
        Ok(there) => {
            for id in acknowledged.iter().filter(|id| !there.contains(*id)) {
                verification.lost.push(format!("{}: {id} could not be {how}", repository.url));
            }
        }
        Err(text) => verification.lost.push(format!("{}: {text}", repository.url)),
    }
}

/// The commits behind all refs. Their trees and blobs are read too, so that none is missing.
fn reachable(git: &Git, path: &Path) -> Result<HashSet<ObjectId>, String> {
    git.run(path, &["rev-list", "--objects", "--all", "--quiet"])?;
    let text = git.run(path, &["rev-list", "--all"])?;
    Ok(text.lines().filter_map(|line| ObjectId::from_hex(line.as_bytes()).ok()).collect())
}
