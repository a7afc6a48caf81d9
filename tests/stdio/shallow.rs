//! Shallow clients and shallow repositories, by way of the drop-in.

use super::{packhouse, run, seeded};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, commit, entry, pack, two_commits};
use crate::support::request::Request;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A bare repository with a line of commits, and work trees cloned from it.
struct Place {
    scratch: TempDir,
}

impl Place {
    fn new(format: &str, commits: usize) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        git::init_bare_as(&scratch.path().join("r.git"), format);
        let place = Self { scratch };
        place.git(".", &["clone", "-q", "r.git", "full"]);
        for number in 1..=commits {
            place.commit("full", &format!("c{number}"));
        }
        place.git("full", &["push", "-q", "origin", "HEAD:refs/heads/main"]);
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    fn git(&self, place: &str, arguments: &[&str]) -> String {
        git::run(&self.path(place), arguments)
    }

    fn commit(&self, place: &str, name: &str) -> String {
        fs::write(self.path(place).join(name), name).unwrap();
        self.git(place, &["add", "."]);
        self.git(place, &["commit", "-q", "-m", name]);
        self.git(place, &["rev-parse", "HEAD"])
    }

    /// A clone whose history has this many commits.
    fn shallow_clone(&self, of: &str, depth: usize, name: &str) {
        let depth = format!("--depth={depth}");
        self.git(".", &["clone", "-q", "--no-local", &depth, of, name]);
    }

    fn try_push(&self, from: &str, to: &str, refspec: &str) -> Output {
        let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
        git::try_run(&self.path(from), &["push", "-q", &receiver, to, refspec])
    }

    fn push(&self, from: &str, to: &str, refspec: &str) {
        let output = self.try_push(from, to, refspec);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        git::assert_sound(&self.path("r.git"));
    }

    /// The subjects of a branch's history.
    fn log(&self, place: &str, name: &str) -> String {
        self.git(place, &["log", "--format=%s", name]).replace('\n', " ")
    }

    fn is_shallow(&self, place: &str) -> bool {
        self.git(place, &["rev-parse", "--is-shallow-repository"]) == "true"
    }
}

#[test]
fn what_a_shallow_clone_adds_is_whole_where_its_history_is() {
    for (format, limit) in [("sha1", "1"), ("sha1", "100"), ("sha256", "1"), ("sha256", "100")] {
        let place = Place::new(format, 4);
        place.git("r.git", &["config", "transfer.unpackLimit", limit]);
        place.git("r.git", &["config", "transfer.fsckObjects", "true"]);
        place.shallow_clone("r.git", 1, "shallow");
        // The branch goes on, so that the client's border is not advertised.
        place.commit("full", "c5");
        place.push("full", "origin", "HEAD:refs/heads/main");
        place.commit("shallow", "side");
        place.push("shallow", "origin", "HEAD:refs/heads/side");
        assert_eq!(place.log("r.git", "side"), "side c4 c3 c2 c1");
        assert!(!place.is_shallow("r.git"));
        assert!(!place.path("r.git/shallow").exists());
    }
}

#[test]
fn a_foreign_history_is_taken_with_its_border_only_by_who_wants_it_and_can_be_made_whole() {
    for format in ["sha1", "sha256"] {
        let place = Place::new(format, 4);
        let target = git::init_bare_as(&place.path("t.git"), format);
        place.shallow_clone("r.git", 2, "shallow");
        let refused = place.try_push("shallow", "../t.git", "HEAD:refs/heads/x");
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(text.contains("(shallow update not allowed)"), "{text}");
        assert!(!target.join("shallow").exists());
        assert_eq!(git::object_ids(&target), "");

        git::run(&target, &["config", "receive.shallowUpdate", "true"]);
        place.push("shallow", "../t.git", "HEAD:refs/heads/x");
        assert!(place.is_shallow("t.git"));
        assert_eq!(place.log("t.git", "x"), "c4 c3");
        git::assert_sound(&target);
        // Both sides end at the same commit now, or the client has more.
        place.commit("shallow", "c5");
        place.push("shallow", "../t.git", "HEAD:refs/heads/x");
        place.git(
            "full",
            &["pull", "-q", "--ff-only", &place.path("t.git").display().to_string(), "x"],
        );
        place.commit("full", "c6");
        place.push("full", "../t.git", "HEAD:refs/heads/x");
        assert_eq!(place.log("t.git", "x"), "c6 c5 c4 c3");
        git::assert_sound(&target);

        place.git("t.git", &["fetch", "-q", "--unshallow", "../r.git", "main"]);
        assert!(!place.is_shallow("t.git"));
        place.commit("shallow", "c6b");
        place.push("shallow", "../t.git", "HEAD:refs/heads/y");
        assert!(!place.is_shallow("t.git"));
        assert_eq!(place.log("t.git", "y"), "c6b c5 c4 c3 c2 c1");
        git::assert_sound(&target);
    }
}

#[test]
fn the_border_of_the_repository_is_told_to_clients() {
    let place = Place::new("sha1", 4);
    place.shallow_clone("r.git", 2, "shallow");
    let mut git = std::process::Command::new("git");
    git::isolate(&mut git);
    git.arg("receive-pack");
    let [git, ours] = [git, packhouse()].map(|mut command| {
        command.arg("--http-backend-info-refs").arg(place.path("shallow/.git"));
        let output = run(&mut command, b"");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split_once("shallow ").unwrap().1.to_owned()
    });
    assert_eq!(git, ours);
}

/// A line of two commits on top of one that the client does not have.
struct Grafted {
    border: Snapshot,
    tip: Snapshot,
}

impl Grafted {
    fn new(name: &str) -> Self {
        let root = Snapshot::new(&format!("{name} root\n"), &[]);
        let border = Snapshot::new(&format!("{name} border\n"), &[&root.id()]);
        let tip = Snapshot::new(&format!("{name} tip\n"), &[&border.id()]);
        Self { border, tip }
    }

    fn entries(&self) -> Vec<Vec<u8>> {
        [&self.border, &self.tip]
            .iter()
            .flat_map(|one| [&one.blob, &one.tree, &one.commit].map(entry))
            .collect()
    }

    fn request(&self, name: &str) -> Request {
        let request = Request::new().shallow(&self.border.id());
        request.command(ZERO, &self.tip.id(), name).pack(pack(&self.entries()))
    }
}

fn takes_borders(repository: &Path) {
    git::run(repository, &["config", "receive.shallowUpdate", "true"]);
}

fn answer(repository: &Path, request: &Request) -> Answer {
    let output = run(packhouse().arg("--stateless-rpc").arg(repository), &request.bytes());
    assert_eq!(output.status.code(), Some(0));
    Answer::from_bands(&output.stdout)
}

fn border_lines(repository: &Path) -> Vec<String> {
    let text = fs::read_to_string(repository.join("shallow")).unwrap();
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn hooks_see_the_history_as_it_will_be_and_the_file_for_them_is_gone_afterwards() {
    for limit in ["1", "100"] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        takes_borders(&repository);
        git::run(&repository, &["config", "transfer.unpackLimit", limit]);
        git::run(&repository, &["config", "gc.autoPackLimit", "1"]);
        git::run(&repository, &["config", "gc.autoDetach", "false"]);
        let grafted = Grafted::new("x");
        for name in ["pre-receive", "update", "reference-transaction", "post-receive"] {
            let text = format!(
                "cat >/dev/null\ngit rev-list {} >>seen && [ -s \"$GIT_SHALLOW_FILE\" ]",
                grafted.tip.id()
            );
            git::hook(&repository, name, &text);
        }
        // What tidies up sees the repository's own file.
        git::hook(&repository, "pre-auto-gc", "echo \"$GIT_SHALLOW_FILE\" >gc.log");
        answer(&repository, &grafted.request("refs/heads/x")).assert_all_ok();
        let seen = fs::read_to_string(repository.join("seen")).unwrap();
        let expected = format!("{}\n{}\n", grafted.tip.id(), grafted.border.id());
        // `prepared` and `committed` are two.
        assert_eq!(seen, expected.repeat(5));
        if let Ok(log) = fs::read_to_string(repository.join("gc.log")) {
            assert_eq!(log, "\n");
        }
        let left = fs::read_dir(&repository)
            .unwrap()
            .any(|entry| entry.unwrap().file_name().to_string_lossy().starts_with("shallow_"));
        assert!(!left);
        git::assert_sound(&repository);
    }
}

#[test]
fn what_is_not_whole_even_with_its_border_is_refused_and_nothing_of_it_stays() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    takes_borders(&repository);
    let before = git::object_ids(&repository);
    let Grafted { border, tip } = Grafted::new("x");
    let objects = [&border.tree, &border.commit, &tip.blob, &tip.tree, &tip.commit].map(entry);
    let request = Request::new()
        .shallow(&border.id())
        .command(ZERO, &tip.id(), "refs/heads/x")
        .pack(pack(&objects));
    let answer = answer(&repository, &request);
    assert_eq!(answer.of("refs/heads/x"), "ng refs/heads/x shallow error");
    assert!(answer.messages.contains(&border.blob.id()), "{answer:?}");
    assert!(!repository.join("shallow").exists());
    assert_eq!(git::object_ids(&repository), before);
    git::assert_sound(&repository);
}

/// Three refs on two borders, one of which needs both, and two that need none.
fn three_on_two_borders() -> (Vec<String>, Request) {
    let (one, two) = (Grafted::new("one"), Grafted::new("two"));
    let merge = commit(&one.tip.tree.id(), &[&one.tip.id(), &two.tip.id()], "merge");
    let (first, _) = two_commits();
    let entries = one.entries().into_iter().chain(two.entries()).chain([entry(&merge)]);
    let request = Request::new()
        .shallow(&one.border.id())
        .shallow(&two.border.id())
        .command(ZERO, &first.id(), "refs/heads/first")
        .command(ZERO, &one.tip.id(), "refs/heads/one")
        .command(ZERO, &two.tip.id(), "refs/heads/two")
        .command(ZERO, &merge.id(), "refs/heads/merge")
        .command(ZERO, &first.id(), "refs/heads/last")
        .pack(pack(&entries.collect::<Vec<_>>()));
    (vec![one.border.id(), two.border.id()], request)
}

#[test]
fn each_ref_brings_the_border_it_needs_and_no_other() {
    for (refused, lines) in
        [("none", &[0, 1][..]), ("merge", &[0, 1]), ("one", &[0, 1]), ("one merge", &[1])]
    {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        takes_borders(&repository);
        // By the time the hook looks, the lines of the refs before are there.
        let text = format!(
            "for name in {refused}; do [ \"$1\" = refs/heads/$name ] && exit 1; done\n\
             [ $1 != refs/heads/last ] || cp shallow seen"
        );
        git::hook(&repository, "update", &text);
        let (borders, request) = three_on_two_borders();
        let answer = answer(&repository, &request);
        for name in ["first", "one", "two", "merge", "last"] {
            let name_of_ref = format!("refs/heads/{name}");
            let is_refused = refused.split(' ').any(|one| one == name);
            let expected = if is_refused { "ng" } else { "ok" };
            assert!(answer.of(&name_of_ref).starts_with(expected), "{answer:?}");
        }
        let mut expected: Vec<String> = lines.iter().map(|at| borders[*at].clone()).collect();
        expected.sort();
        assert_eq!(border_lines(&repository), expected, "{refused}");
        assert_eq!(
            fs::read(repository.join("seen")).ok(),
            fs::read(repository.join("shallow")).ok()
        );
        git::assert_sound(&repository);
    }
}

#[test]
fn without_the_setting_each_ref_on_a_border_is_refused_and_the_others_go_on() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let (_, request) = three_on_two_borders();
    let answer = answer(&repository, &request);
    for name in ["one", "two", "merge"] {
        let expected = format!("ng refs/heads/{name} shallow update not allowed");
        assert_eq!(answer.of(&format!("refs/heads/{name}")), expected);
    }
    for name in ["refs/heads/first", "refs/heads/last"] {
        assert_eq!(answer.of(name), format!("ok {name}"));
    }
    assert!(!repository.join("shallow").exists());
    git::assert_sound(&repository);
}

#[test]
fn what_the_proc_receive_hook_stores_has_its_border() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    takes_borders(&repository);
    git::run(&repository, &["config", "receive.procReceiveRefs", "refs/for"]);
    let grafted = Grafted::new("x");
    let text = format!(
        "printf '000eversion=1\\n00000014ok refs/for/main0000'\ncat >/dev/null\n\
         git update-ref refs/pull/1/head {}",
        grafted.tip.id()
    );
    git::hook(&repository, "proc-receive", &text);
    let request = grafted.request("refs/for/main");
    answer(&repository, &request).assert_all_ok();
    assert!(git::refs(&repository).contains("refs/pull/1/head"));
    assert_eq!(border_lines(&repository), [grafted.border.id()]);
    git::assert_sound(&repository);
}

#[test]
fn a_lock_on_the_file_refuses_what_needs_it_and_nothing_else() {
    let (first, _) = two_commits();
    for atomic in [false, true] {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        takes_borders(&repository);
        git::run(&repository, &["config", "core.packedRefsTimeout", "10"]);
        fs::write(repository.join("shallow.lock"), "").unwrap();
        let request = Grafted::new("x").request("refs/heads/x");
        let request = request.command(ZERO, &first.id(), "refs/heads/y");
        let capabilities = if atomic { "atomic " } else { "" };
        let capabilities = format!("report-status side-band-64k {capabilities}agent=probe");
        let answer = answer(&repository, &request.capabilities(&capabilities));
        assert_eq!(answer.of("refs/heads/x"), "ng refs/heads/x shallow error");
        let other = if atomic { "ng refs/heads/y atomic push failure" } else { "ok refs/heads/y" };
        assert_eq!(answer.of("refs/heads/y"), other);
        assert!(answer.messages.contains("shallow.lock': File exists."), "{answer:?}");
        assert!(!repository.join("shallow").exists());
        git::assert_sound(&repository);
    }
}

#[test]
fn lines_that_others_write_meanwhile_stay() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    takes_borders(&repository);
    let other = Grafted::new("other");
    answer(&repository, &other.request("refs/heads/other")).assert_all_ok();
    // The hook makes the repository shallow at one commit more.
    let text = format!("echo {} >>shallow", other.tip.id());
    git::hook(&repository, "pre-receive", &text);
    let grafted = Grafted::new("x");
    answer(&repository, &grafted.request("refs/heads/x")).assert_all_ok();
    let mut expected = [other.border.id(), other.tip.id(), grafted.border.id()];
    expected.sort();
    assert_eq!(border_lines(&repository), expected);
    git::assert_sound(&repository);
}

#[test]
fn another_shallow_file_can_be_named_and_is_not_written() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    takes_borders(&repository);
    let grafted = Grafted::new("x");
    answer(&repository, &grafted.request("refs/heads/x")).assert_all_ok();
    let advertised = |value: Option<&str>| {
        let mut command = packhouse();
        if let Some(value) = value {
            command.env("GIT_SHALLOW_FILE", value);
        }
        let output = run(command.arg("--advertise-refs").arg(&repository), b"");
        String::from_utf8_lossy(&output.stdout)
            .contains(&format!("shallow {}", grafted.border.id()))
    };
    assert!(advertised(None));
    assert!(!advertised(Some("")));
    fs::rename(repository.join("shallow"), repository.join("elsewhere")).unwrap();
    assert!(!advertised(None));
    assert!(advertised(Some("elsewhere")));
    let mut command = packhouse();
    command.env("GIT_SHALLOW_FILE", "elsewhere").arg("--stateless-rpc").arg(&repository);
    let output = run(&mut command, &Grafted::new("y").request("refs/heads/y").bytes());
    let answer = Answer::from_bands(&output.stdout);
    assert_eq!(answer.of("refs/heads/y"), "ng refs/heads/y shallow error");
    assert!(answer.messages.contains("shallow file has changed since we read it"), "{answer:?}");
    assert!(!repository.join("shallow").exists());
}

#[test]
fn thousands_of_lines_that_mean_nothing_cost_little() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    takes_borders(&repository);
    let (first, second) = two_commits();
    let mut request = Request::new();
    for number in 0..20_000 {
        request = request.shallow(&format!("{number:040x}"));
    }
    // Of what is here, and what comes, of any kind.
    for one in [&first, &second] {
        for object in [&one.blob, &one.tree, &one.commit] {
            request = request.shallow(&object.id());
        }
    }
    let request = request
        .command(&first.id(), &first.id(), "refs/heads/main")
        .command(ZERO, &first.id(), "refs/heads/same")
        .pack(second.pack());
    let begun = Instant::now();
    answer(&repository, &request).assert_all_ok();
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert!(!repository.join("shallow").exists());
    git::assert_sound(&repository);
}

#[test]
fn a_fork_is_not_whole_because_the_repository_it_borrows_from_is() {
    // An alternate may be shallow itself, and nobody looks into its file: so says git, too.
    let place = Place::new("sha1", 4);
    place.shallow_clone("r.git", 2, "shallow");
    place.git(".", &["clone", "-q", "--bare", "--no-local", "--depth=2", "r.git", "parent.git"]);
    place.git(".", &["init", "-q", "--bare", "fork.git"]);
    let objects = format!("{}\n", place.path("parent.git/objects").display());
    fs::write(place.path("fork.git/objects/info/alternates"), objects).unwrap();
    place.commit("shallow", "c5");
    let refused = place.try_push("shallow", "../fork.git", "HEAD:refs/heads/x");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("(shallow update not allowed)"));
    place.git("fork.git", &["config", "receive.shallowUpdate", "true"]);
    place.push("shallow", "../fork.git", "HEAD:refs/heads/x");
    assert_eq!(place.log("fork.git", "x"), "c5 c4 c3");
    git::assert_sound(&place.path("fork.git"));
}
