//! Runs one push through one receiver and writes down everything that can be seen of it.

use super::{Scenario, Variant};
use crate::support::answer::Answer;
use crate::support::git;
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// What could be seen of a push.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    pub status: Option<i32>,
    pub answer: Answer,
    pub refs: String,
    pub head: String,
    pub objects: String,
    pub packs: usize,
    pub loose: usize,
    pub leftovers: Vec<String>,
    pub reflogs: String,
    /// The different lines of the `shallow` file, sorted; `None` if there is no such file.
    pub shallow: Option<Vec<String>>,
    pub hooks: String,
    pub diagnosis: String,
    pub work_trees: String,
    /// What `git fsck` finds wrong afterwards.
    pub faults: String,
}

impl Observation {
    /// Each thing seen, by name.
    pub fn parts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("status", format!("{:?}", self.status)),
            ("report", format!("{:#?}", self.answer.report)),
            ("messages", self.answer.messages.clone()),
            ("fatal", self.answer.fatal.clone()),
            ("complete", self.answer.complete.to_string()),
            ("refs", self.refs.clone()),
            ("head", self.head.clone()),
            ("objects", self.objects.clone()),
            ("packs", self.packs.to_string()),
            ("loose", self.loose.to_string()),
            ("leftovers", format!("{:?}", self.leftovers)),
            ("reflogs", self.reflogs.clone()),
            ("shallow", format!("{:?}", self.shallow)),
            ("hooks", self.hooks.clone()),
            ("standard error", self.diagnosis.clone()),
            ("work trees", self.work_trees.clone()),
        ]
    }
}

/// What is wrong with our repository after the push, unless the same is wrong with git's: some
/// scenarios begin with something that is missing.
pub fn unsound(git: &Observation, ours: &Observation) -> Option<String> {
    let is_good = ours.faults.is_empty() || ours.faults == git.faults;
    (!is_good).then(|| format!("  git:  {:?}\n  ours: {:?}", git.faults, ours.faults))
}

/// Makes the repository, pushes, looks.
pub fn run(scenario: &Scenario, variant: Variant, receiver: &[&str]) -> Observation {
    let scratch = tempfile::tempdir().unwrap();
    let ref_format = format!("--ref-format={}", variant.ref_format);
    let init = ["init", "-q", "--bare", "-b", "main", &ref_format, "r.git"];
    git::run(scratch.path(), &init);
    let repository = scratch.path().join("r.git");
    let limit = variant.unpack_limit.to_string();
    git::run(&repository, &["config", "transfer.unpackLimit", &limit]);
    git::run(&repository, &["config", "receive.autogc", "false"]);
    if variant.hooks {
        install_hooks(&repository);
    }
    (scenario.prepare)(&repository);
    let request = (scenario.request)(&repository);
    let output = push(receiver, &repository, &request);
    observe(scenario, &repository, scratch.path(), &output)
}

fn push(receiver: &[&str], repository: &Path, request: &[u8]) -> Output {
    let mut command = Command::new(receiver[0]);
    git::isolate(&mut command);
    let mut child = command
        .args(&receiver[1..])
        .arg("--stateless-rpc")
        // The nonce of a signed push is made of the name under which the repository is known.
        .current_dir(repository.parent().unwrap())
        .arg(repository.file_name().unwrap())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let request = request.to_vec();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&request)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

fn observe(scenario: &Scenario, repository: &Path, scratch: &Path, output: &Output) -> Observation {
    let stdout = &output.stdout;
    let mut answer =
        if scenario.banded { Answer::from_bands(stdout) } else { Answer::from_plain(stdout) };
    let work_trees = work_trees(scratch);
    let scratch = scratch.canonicalize().unwrap().display().to_string();
    answer.messages = without_progress(&answer.messages).replace(&scratch, "<scratch>");
    if scenario.sound {
        git::assert_sound(repository);
    }
    let files = git::object_files(repository);
    let is_loose = |name: &&String| name.len() == 41 && name.as_bytes()[2] == b'/';
    let said = String::from_utf8_lossy(&output.stderr).replace(&scratch, "<scratch>");
    Observation {
        status: output.status.code(),
        answer,
        refs: git::refs(repository),
        head: head(repository),
        objects: git::object_ids(repository),
        packs: files.iter().filter(|name| name.ends_with(".pack")).count(),
        loose: files.iter().filter(is_loose).count(),
        leftovers: leftovers(&files, repository),
        reflogs: reflogs(repository),
        shallow: shallow(repository),
        hooks: hook_log(repository, &scratch),
        work_trees,
        faults: git::faults(repository),
        diagnosis: if scenario.diagnosed { without_progress(&said) } else { String::new() },
    }
}

/// What is checked out beside the repository: HEAD, the index, changes, reflog and files.
fn work_trees(scratch: &Path) -> String {
    let mut found = Vec::new();
    for entry in fs::read_dir(scratch).unwrap() {
        let directory = entry.unwrap().path();
        if !directory.join(".git").exists() {
            continue;
        }
        let mut text = format!("== {}\n", directory.file_name().unwrap().display());
        for arguments in [
            &["rev-parse", "--symbolic-full-name", "HEAD"][..],
            &["ls-files", "--stage"],
            &["status", "--porcelain", "--untracked-files=all"],
            &["reflog", "--format=%H %gs %cn"],
        ] {
            let output = git::try_run(&directory, arguments);
            text.push_str(&String::from_utf8_lossy(&output.stdout));
        }
        let files = fs::read_dir(&directory).unwrap().map(|file| file.unwrap().path());
        let mut files: Vec<_> = files.filter(|file| file.is_file()).collect();
        files.sort();
        for file in files {
            // Hooks have written there while the work tree was made.
            if !file.ends_with(".git") && !file.ends_with("hook.log") {
                text.push_str(&fs::read_to_string(file).unwrap());
            }
        }
        found.push(text);
    }
    found.sort();
    found.concat()
}

fn leftovers(files: &[String], repository: &Path) -> Vec<String> {
    let beside = fs::read_dir(repository).unwrap();
    let beside = beside.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut found: Vec<String> = files
        .iter()
        .cloned()
        .chain(beside)
        .filter(|name| {
            ["tmp_", "shallow_"].iter().any(|part| name.contains(part))
                || name.ends_with(".keep")
                || name.ends_with(".lock")
        })
        .collect();
    found.sort();
    found
}

fn shallow(repository: &Path) -> Option<Vec<String>> {
    let text = fs::read_to_string(repository.join("shallow")).ok()?;
    let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
    lines.sort();
    // git writes a line as often as the client says it.
    lines.dedup();
    Some(lines)
}

/// Drops progress, which git shows by percent and only for kept packs. What ends it shares its line.
fn without_progress(text: &str) -> String {
    text.split_inclusive('\n')
        .map(|line| line.rsplit('\r').find(|part| !part.trim().is_empty()).unwrap_or(line))
        .filter(|last| {
            !last.starts_with("Resolving deltas: ") && !last.starts_with("Unpacking objects: ")
        })
        .collect()
}

fn head(repository: &Path) -> String {
    if is_reftable(repository) {
        return git::run(repository, &["rev-parse", "--symbolic-full-name", "HEAD"]);
    }
    fs::read_to_string(repository.join("HEAD")).unwrap()
}

fn is_reftable(repository: &Path) -> bool {
    repository.join("reftable").exists()
}

fn reflogs(repository: &Path) -> String {
    let mut found = Vec::new();
    if is_reftable(repository) {
        for name in git::run(repository, &["reflog", "list"]).lines() {
            let format = "--format=%gD %H %gs %gn %ge %gd";
            found.push(git::run(repository, &["reflog", "--date=raw", format, name]) + "\n");
        }
        return found.concat();
    }
    collect_reflogs(&repository.join("logs"), "", &mut found);
    found.sort();
    found.concat()
}

fn collect_reflogs(directory: &Path, prefix: &str, found: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    for entry in entries {
        let entry = entry.unwrap();
        let name = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().unwrap().is_dir() {
            collect_reflogs(&entry.path(), &name, found);
        } else {
            found.push(format!("{name}: {}", fs::read_to_string(entry.path()).unwrap()));
        }
    }
}

/// Hooks that write down their name, arguments, input and the variables git gives them, and say a
/// word on both streams.
fn install_hooks(repository: &Path) {
    let text = r#"#!/bin/sh
{
    echo "== $0"
    for argument; do echo "argument $argument"; done
    sed 's/^/input /'
    env | grep '^GIT_' | grep -v -e '^GIT_COMMITTER_' -e '^GIT_AUTHOR_' -e '^GIT_CONFIG_' \
        -e '^GIT_TERMINAL_PROMPT=' -e '^GIT_EXEC_PATH=' | sort
} >>hook.log
echo "word of $0"
echo "error of $0" >&2
"#;
    for name in ["pre-receive", "update", "reference-transaction", "post-receive", "post-update"] {
        write_hook(repository, name, text);
    }
}

/// Installs a hook.
pub fn write_hook(repository: &Path, name: &str, text: &str) {
    let path = repository.join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// A variable that tells of a nonce, without what it has of the clock. A nonce of the scenario's own
/// stays as it is.
fn without_clock(line: &str) -> String {
    let (name, value) = line.split_once('=').unwrap_or((line, ""));
    let is_own = value.starts_with(super::certificates::STAMP);
    match name {
        "GIT_PUSH_CERT_NONCE" if !is_own => {
            let (stamp, code) = value.split_once('-').unwrap();
            assert!(stamp.parse::<u64>().is_ok(), "{line}");
            format!("{name}=…-{} digits", code.len())
        }
        "GIT_PUSH_CERT_NONCE_SLOP" => {
            assert!(value.parse::<u64>().is_ok_and(|slop| slop > 1_000_000), "{line}");
            format!("{name}=…")
        }
        _ => line.to_owned(),
    }
}

fn hook_log(repository: &Path, scratch: &str) -> String {
    let text = fs::read_to_string(repository.join("hook.log")).unwrap_or_default();
    let text = text.replace(scratch, "<scratch>").replace("/./", "/");
    // The names of the quarantine and of what stands for `shallow` are drawn at random.
    text.lines()
        .map(|line| {
            let random = ["tmp_objdir-incoming-", "/shallow_"];
            match random.iter().find_map(|name| Some((name, line.split_once(name)?))) {
                Some((name, (before, _))) => format!("{before}{name}…\n"),
                None => format!("{}\n", without_clock(line)),
            }
        })
        .collect()
}
