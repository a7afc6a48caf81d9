//! Histories: made up, or a part of one that the user names.

use super::support::Outcome;
use super::support::git::{git, init_bare, run, said, told};
use super::support::objects::text;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Objects of one made-up commit: itself, five trees, two blobs.
const OBJECTS_OF_A_COMMIT: usize = 8;

/// Makes a repository with a branch `main` of about so many objects.
pub(crate) fn make_up(repository: &Path, objects: usize) -> Outcome<()> {
    init_bare(repository)?;
    let mut stream = String::new();
    for number in 0..objects / OBJECTS_OF_A_COMMIT {
        commit(&mut stream, number, "", None)?;
        for (directory, blob) in [("source", number * 2), ("tests", number * 2 + 1)] {
            let path = format!("{directory}/part-{}/{}", number % 40, blob % 97);
            file(&mut stream, &path, &text(blob, 4096))?;
        }
    }
    told(git(repository).args(["fast-import", "--quiet"]), stream.as_bytes()).map(drop)
}

/// Makes a repository with a branch `main` of one commit with three blobs.
pub(crate) fn make_up_small(repository: &Path) -> Outcome<()> {
    init_bare(repository)?;
    let mut stream = String::new();
    commit(&mut stream, 0, "", None)?;
    for blob in 0..3 {
        file(&mut stream, &format!("file-{blob}"), &text(blob, 1024))?;
    }
    told(git(repository).args(["fast-import", "--quiet"]), stream.as_bytes()).map(drop)
}

/// Makes a repository with a branch `main` of one commit with one blob that does not compress.
pub(crate) fn make_up_blob(repository: &Path, bytes: usize) -> Outcome<()> {
    init_bare(repository)?;
    let mut head = String::new();
    commit(&mut head, 0, "", None)?;
    writeln!(head, "M 100644 inline blob\ndata {bytes}")?;
    let mut stream = head.into_bytes();
    let mut state = 1u64;
    for _ in 0..bytes / 8 {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The upper half of the state is the better one.
        stream.extend_from_slice(&(state ^ state >> 32).to_le_bytes());
    }
    stream.push(b'\n');
    told(git(repository).args(["fast-import", "--quiet"]), &stream).map(drop)
}

/// Makes a repository that borrows all objects of `history`, with a branch `main` of so many
/// commits on top of its HEAD. Each changes one file by a line, as people do.
pub(crate) fn continue_history(history: &Path, repository: &Path, commits: usize) -> Outcome<()> {
    init_bare(repository)?;
    let objects = said(git(history).args(["rev-parse", "--git-path", "objects"]))?;
    let objects = history.join(objects.trim()).canonicalize()?;
    fs::write(repository.join("objects/info/alternates"), format!("{}\n", objects.display()))?;
    let head = said(git(history).args(["rev-parse", "HEAD^{commit}"]))?;
    let listed = said(git(history).args(["ls-tree", "-r", "HEAD"]))?;
    let mut paths: Vec<&str> = listed
        .lines()
        .filter(|line| line.starts_with("100644 ") && !line.contains('"'))
        .filter_map(|line| line.split_once('\t').map(|(_, path)| path))
        .filter(|path| [".c", ".h", ".sh"].iter().any(|end| path.ends_with(end)))
        .collect();
    if paths.is_empty() {
        paths = listed.lines().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    }
    let mut stream = Vec::new();
    for number in 0..commits {
        let path = paths.get(number * 7 % paths.len().max(1)).ok_or("HEAD has no files")?;
        let round = number / paths.len();
        let mut content = git(history).args(["show", &format!("HEAD:{path}")]).output()?.stdout;
        content.extend_from_slice(format!("/* change {number} of round {round} */\n").as_bytes());
        let mut head_lines = String::new();
        commit(&mut head_lines, number, "later ", (number == 0).then(|| head.trim()))?;
        stream.extend_from_slice(head_lines.as_bytes());
        stream.extend_from_slice(
            format!("M 100644 inline {path}\ndata {}\n", content.len()).as_bytes(),
        );
        stream.extend_from_slice(&content);
        stream.push(b'\n');
    }
    told(git(repository).args(["fast-import", "--quiet"]), &stream).map(drop)
}

/// The commit of HEAD's history from which about so many objects can be reached.
pub(crate) fn oldest_part(history: &Path, objects: usize) -> Outcome<String> {
    let listed = said(git(history).args(["rev-list", "--topo-order", "--reverse", "HEAD"]))?;
    let commits: Vec<&str> = listed.lines().collect();
    // Objects a commit vary little along a history: a few steps by proportion come near enough.
    let mut place = commits.len().min(objects / 4).max(1);
    for _ in 0..6 {
        let commit = commits.get(place - 1).ok_or("HEAD has no commits")?;
        let reached = said(git(history).args(["rev-list", "--objects", commit]))?.lines().count();
        if reached.abs_diff(objects) <= objects / 20 || place == commits.len() && reached < objects
        {
            return Ok((*commit).to_owned());
        }
        place = (place * objects / reached).clamp(1, commits.len());
    }
    let commit = commits.get(place - 1).ok_or("HEAD has no commits")?;
    Ok((*commit).to_owned())
}

/// A new repository with the pack and the refs of another push: what a second push comes to.
pub(crate) fn after_push(repository: &Path, pack: &Path, refs: &str) -> Outcome<()> {
    init_bare(repository)?;
    let input = fs::File::open(pack)?;
    run(git(repository).args(["index-pack", "--stdin"]).stdin(input))?;
    let mut updates = String::new();
    for line in refs.lines() {
        let (id, name) = line.split_once(' ').ok_or("a ref without a name")?;
        writeln!(updates, "create {name} {id}")?;
    }
    told(git(repository).args(["update-ref", "--stdin"]), updates.as_bytes())?;
    run(git(repository).args(["pack-refs", "--all"]))
}

fn commit(out: &mut String, number: usize, what: &str, from: Option<&str>) -> Outcome<()> {
    let message = format!("{what}commit {number}");
    write!(
        out,
        "commit refs/heads/main\ncommitter A <a@example.org> {} +0000\ndata {}\n{message}\n",
        1_700_000_000 + number,
        message.len(),
    )?;
    if let Some(from) = from {
        writeln!(out, "from {from}")?;
    }
    Ok(())
}

fn file(out: &mut String, path: &str, content: &str) -> Outcome<()> {
    Ok(writeln!(out, "M 100644 inline {path}\ndata {}\n{content}", content.len())?)
}
