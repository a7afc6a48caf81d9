//! However a request is cut into pieces, the result is the same.

use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{
    Object, ZERO, blob, commit, entry, ofs_delta, pack, ref_delta, thin_pack, tree, two_commits,
};
use crate::support::request::Request;
use packhouse::repo::{Disk, FlushPolicy};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Gives bytes in pieces, one a read.
pub struct Pieces<'a> {
    bytes: &'a [u8],
    cuts: Vec<usize>,
    at: usize,
}

impl<'a> Pieces<'a> {
    /// Cuts at these offsets, which are in order.
    pub fn new(bytes: &'a [u8], cuts: Vec<usize>) -> Self {
        Self { bytes, cuts, at: 0 }
    }
}

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let cut = self.cuts.iter().copied().find(|cut| *cut > self.at);
        let end = cut.unwrap_or(self.bytes.len()).min(self.at + buffer.len());
        let piece = &self.bytes[self.at..end];
        buffer[..piece.len()].copy_from_slice(piece);
        self.at = end;
        Ok(piece.len())
    }
}

/// What a push leaves: its report, the branch, the files of objects. No git is asked: this is done
/// some hundred times.
fn result(repository: &Path, request: &[u8], cuts: Vec<usize>) -> (Vec<String>, String, String) {
    let local = Local::new(Disk::new(FlushPolicy::NONE));
    let (_, heard) = local.push_from(repository, &mut Pieces::new(request, cuts));
    let report = Answer::from_bands(&heard.bytes).report;
    let main = std::fs::read_to_string(repository.join("refs/heads/main")).unwrap();
    (report, main, git::object_files(repository).join("\n"))
}

fn fresh(scratch: &Path, name: &str, limit: u32) -> PathBuf {
    let repository = git::init_bare(&scratch.join(name));
    git::run(&repository, &["config", "transfer.unpackLimit", &limit.to_string()]);
    let (first, _) = two_commits();
    let seed =
        Request::new().command(ZERO, &first.id(), "refs/heads/main").pack(first.pack()).bytes();
    Local::new(Disk::new(FlushPolicy::NONE)).push_ok(&repository, &seed);
    repository
}

#[test]
fn a_small_push_cut_at_every_byte_gives_the_same_result() {
    let (first, second) = two_commits();
    for limit in [1, 100] {
        let request = Request::new()
            .command(&first.id(), &second.id(), "refs/heads/main")
            .pack(thin_pack(&first, &second))
            .bytes();
        let scratch = tempfile::tempdir().unwrap();
        let whole = result(&fresh(scratch.path(), "whole.git", limit), &request, Vec::new());
        assert_eq!(whole.0, ["unpack ok", "ok refs/heads/main"]);
        let template = fresh(scratch.path(), "template.git", limit);
        for cut in 1..request.len() {
            let repository = copy(&template, &scratch.path().join(format!("{cut}.git")));
            assert_eq!(result(&repository, &request, vec![cut]), whole, "cut at {cut}");
            std::fs::remove_dir_all(repository).unwrap();
        }
        let every = (1..request.len()).collect();
        let repository = copy(&template, &scratch.path().join("every.git"));
        assert_eq!(result(&repository, &request, every), whole, "one byte a read");
    }
}

#[test]
fn a_large_push_cut_at_random_gives_the_same_result() {
    let request = large_request();
    let scratch = tempfile::tempdir().unwrap();
    let whole = result(&git::init_bare(&scratch.path().join("whole.git")), &request, Vec::new());
    assert_eq!(whole.0.first().map(String::as_str), Some("unpack ok"));
    // A generator of the simplest kind: the cuts need only differ.
    let mut state = 12345_u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for round in 0..20 {
        let count = 1 + random(200);
        let mut cuts: Vec<usize> = (0..count).map(|_| random(request.len())).collect();
        cuts.sort_unstable();
        let repository = git::init_bare(&scratch.path().join(format!("{round}.git")));
        assert_eq!(result(&repository, &request, cuts), whole, "round {round}");
        git::assert_sound(&repository);
    }
}

/// A few hundred objects: whole ones, deltas by offset and by id, before and after their bases.
fn large_request() -> Vec<u8> {
    let texts: Vec<String> =
        (0..150).map(|n| format!("{}{n}\n", "a line of text\n".repeat(20 + n))).collect();
    let blobs: Vec<Object> = texts.iter().map(|text| blob(text.as_str())).collect();
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for (n, object) in blobs.iter().enumerate() {
        entries.push(match n % 3 {
            0 => entry(object),
            1 => {
                let base = entries.last().unwrap().len();
                ofs_delta(base, &blobs[n - 1].data, &object.data)
            }
            // A base that comes later.
            _ => match blobs.get(n + 1) {
                Some(next) => ref_delta(&next.id(), &next.data, &object.data),
                None => entry(object),
            },
        });
    }
    let names: Vec<(String, String)> =
        blobs.iter().enumerate().map(|(n, blob)| (format!("f{n:03}"), blob.id())).collect();
    let files: Vec<_> =
        names.iter().map(|(name, id)| ("100644", name.as_str(), id.as_str())).collect();
    let tree = tree(&files);
    let commit = commit(&tree.id(), &[], "large");
    entries.extend([entry(&tree), entry(&commit)]);
    Request::new().command(ZERO, &commit.id(), "refs/heads/main").pack(pack(&entries)).bytes()
}

#[test]
fn a_push_cut_off_at_every_byte_moves_nothing_and_leaves_nothing() {
    let (first, second) = two_commits();
    for limit in [1, 100] {
        let request = Request::new()
            .command(&first.id(), &second.id(), "refs/heads/main")
            .command(ZERO, &second.id(), "refs/heads/b")
            .pack(thin_pack(&first, &second))
            .bytes();
        let scratch = tempfile::tempdir().unwrap();
        let repository = fresh(scratch.path(), "r.git", limit);
        let refs = git::refs(&repository);
        let files = git::object_files(&repository);
        let local = Local::new(Disk::new(FlushPolicy::NONE));
        for end in 0..request.len() {
            let (outcome, _) = local.push(&repository, &request[..end]);
            assert!(outcome.result.is_err(), "cut off at {end}: {outcome:?}");
            assert_eq!(git::object_files(&repository), files, "cut off at {end}");
        }
        assert_eq!(git::refs(&repository), refs);
        local.push_ok(&repository, &request);
        git::assert_sound(&repository);
    }
}

fn copy(from: &Path, to: &Path) -> PathBuf {
    let status = std::process::Command::new("cp").arg("-r").arg(from).arg(to).status().unwrap();
    assert!(status.success());
    to.to_owned()
}
