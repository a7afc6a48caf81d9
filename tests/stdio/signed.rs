//! Signed pushes: with the programs that the world signs with where they are installed, and with
//! programs that speak as they do everywhere.

use super::{packhouse, run, seeded};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{ZERO, blob, entry, pack, two_commits};
use crate::support::request::Request;
use crate::support::signing::{
    self, GOOD, Gnupg, OPENPGP, SSH, ask_for_signatures, gpg_says, telling_hook, told, value,
};
use packhouse::model::Limits;
use packhouse::repo::{Disk, FlushPolicy};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A repository whose hooks tell what they are told, and a clone with something to push.
struct Scene {
    scratch: tempfile::TempDir,
    repository: PathBuf,
    work: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let repository = seeded(scratch.path());
        ask_for_signatures(&repository);
        telling_hook(&repository, "pre-receive", "");
        telling_hook(&repository, "post-receive", "");
        git::run(scratch.path(), &["clone", "-q", "r.git", "work"]);
        let work = scratch.path().join("work");
        Self { scratch, repository, work }
    }

    /// Commits something and pushes it signed, with stock git.
    fn push(&self, name: &str, settings: &[&str], environment: &[(&str, &Path)]) -> Output {
        fs::write(self.work.join(name), name).unwrap();
        git::run(&self.work, &["add", name]);
        git::run(&self.work, &["commit", "-q", "-m", name]);
        let mut command = git::command(&self.work);
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.envs(environment.iter().copied());
        let receiver = format!("--receive-pack={} receive-pack", env!("CARGO_BIN_EXE_packhouse"));
        let target = format!("HEAD:refs/heads/{name}");
        run(command.args(["push", "-q", "--signed", &receiver, "origin", &target]), b"")
    }

    fn push_ok(&self, name: &str, settings: &[&str], environment: &[(&str, &Path)]) {
        let output = self.push(name, settings, environment);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// What both hooks were told, which must be the same.
    fn told(&self) -> (Vec<String>, String) {
        let before = told(&self.repository, "pre-receive").unwrap();
        assert_eq!(told(&self.repository, "post-receive").unwrap(), before);
        before
    }
}

fn second_to(name: &str) -> Request {
    let (_, second) = two_commits();
    Request::new().command(ZERO, &second.id(), name).pack(second.pack())
}

/// Pushes by hand, as a server that keeps no state is pushed to.
fn push_raw(repository: &Path, request: &Request) -> Answer {
    let output = run(packhouse().arg("--stateless-rpc").arg(repository), &request.bytes());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    Answer::from_bands(&output.stdout)
}

#[test]
fn an_ssh_key_signs_a_push() {
    let scene = Scene::new();
    let directory = scene.scratch.path();
    let Some(key) = signing::ssh_key(directory, "key") else { return };
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    let signers = directory.join("signers");
    fs::write(&signers, format!("\"A U Thor with an address\" {public}")).unwrap();
    let configure = |key: &str, value: &Path| {
        git::run(&scene.repository, &["config", key, value.to_str().unwrap()]);
    };
    let signing_key = format!("user.signingKey={}", key.display());
    let settings = ["gpg.format=ssh", &signing_key];

    // Nobody is named by whom the key could be known.
    scene.push_ok("a", &settings, &[]);
    assert_eq!(value(&scene.told().0, "_STATUS").unwrap(), "N");

    configure("gpg.ssh.allowedSignersFile", &signers);
    scene.push_ok("b", &settings, &[]);
    let (variables, certificate) = scene.told();
    let printed = Command::new("ssh-keygen").arg("-lf").arg(&key).output().unwrap().stdout;
    let printed = String::from_utf8(printed).unwrap();
    let fingerprint = printed.split(' ').nth(1).unwrap();
    assert_eq!(value(&variables, "_STATUS").unwrap(), "G");
    assert_eq!(value(&variables, "_SIGNER").unwrap(), "A U Thor with an address");
    assert_eq!(value(&variables, "_KEY").unwrap(), fingerprint);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
    let nonce = value(&variables, "_NONCE").unwrap();
    assert!(certificate.contains(&format!("\nnonce {nonce}\n")), "{certificate}");
    // It is in the repository, as it was signed.
    let id = value(&variables, "").unwrap();
    let kept = git::run(&scene.repository, &["cat-file", "blob", &id]);
    assert_eq!(kept.trim_end(), certificate.trim_end());
    git::assert_sound(&scene.repository);

    fs::write(&signers, format!("somebody {}", public.replace("ed25519 A", "ed25519 B"))).unwrap();
    scene.push_ok("c", &settings, &[]);
    let (variables, _) = scene.told();
    // As in git: good, and by nobody.
    assert_eq!(value(&variables, "_STATUS").unwrap(), "G");
    assert_eq!(value(&variables, "_SIGNER").unwrap(), "");
    assert_eq!(value(&variables, "_KEY").unwrap(), fingerprint);

    fs::write(&signers, format!("somebody {public}")).unwrap();
    configure("gpg.ssh.revocationFile", &key.with_extension("pub"));
    scene.push_ok("d", &settings, &[]);
    assert_eq!(value(&scene.told().0, "_STATUS").unwrap(), "B");
}

#[test]
fn an_openpgp_key_signs_a_push() {
    let scene = Scene::new();
    let home = scene.scratch.path().join("g");
    let user = "A U Thor <author@example.com>";
    let Some(gnupg) = Gnupg::with_key(&home, user) else { return };
    let settings = ["user.signingKey=author@example.com"];
    scene.push_ok("a", &settings, &[("GNUPGHOME", &gnupg.home)]);
    let (variables, certificate) = scene.told();
    assert_eq!(value(&variables, "_STATUS").unwrap(), "G");
    assert_eq!(value(&variables, "_SIGNER").unwrap(), user);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
    let key = value(&variables, "_KEY").unwrap();
    let listed = gnupg.command("gpg").args(["--list-keys", "--with-colons"]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(key.len() == 16 && listed.contains(&format!(":{key}:")), "{key} {listed}");
    assert!(certificate.contains("-----BEGIN PGP SIGNATURE-----"), "{certificate}");

    // One that knows other keys cannot tell.
    let empty = scene.scratch.path().join("e");
    let script = format!("mkdir -p -m 700 {0}; exec gpg --homedir {0} \"$@\"", empty.display());
    let program = signing::program(&scene.repository, "elsewhere", &script);
    git::run(&scene.repository, &["config", "gpg.openpgp.program", &program]);
    scene.push_ok("b", &settings, &[("GNUPGHOME", &gnupg.home)]);
    let (variables, _) = scene.told();
    drop(Gnupg { home: empty });
    assert_eq!(value(&variables, "_STATUS").unwrap(), "E");
    assert_eq!(value(&variables, "_KEY").unwrap(), key);
    assert_eq!(value(&variables, "_SIGNER").unwrap(), "");
}

#[test]
fn the_program_is_asked_as_git_asks_it() {
    let scene = Scene::new();
    let script = "echo \"$@\" | sed 's/ [^ ]*tmp_signature_[^ ]*/ FILE/' >asked\n\
        for file; do test ! -f \"$file\" || cp \"$file\" signature; done\n\
        cat >payload\npwd >>asked\necho $GIT_DIR >>asked\necho '[GNUPG:] BADSIG K S'";
    let program = signing::program(&scene.repository, "fake", script);
    for key in ["gpg.program", "gpg.x509.program"] {
        git::run(&scene.repository, &["config", key, &program]);
    }
    let at = scene.repository.canonicalize().unwrap();
    let read = |name: &str| fs::read_to_string(scene.repository.join(name)).unwrap();
    for (name, signature, arguments) in [
        ("refs/heads/a", OPENPGP, "--keyid-format=long --status-fd=1 --verify FILE -"),
        ("refs/heads/b", signing::X509, "--status-fd=1 --verify FILE -"),
    ] {
        let request = second_to(name).signed("pusher a\n", signature);
        push_raw(&scene.repository, &request).assert_all_ok();
        assert_eq!(read("asked"), format!("{arguments}\n{}\n.\n", at.display()));
        assert_eq!(read("signature"), signature);
        let whole = String::from_utf8(request.certificate()).unwrap();
        assert_eq!(read("payload") + signature, whole);
        let (variables, certificate) = scene.told();
        assert_eq!(value(&variables, "_STATUS").unwrap(), "B");
        assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "MISSING");
        assert_eq!(certificate, whole);
    }
    let left = git::object_files(&scene.repository);
    assert!(left.iter().all(|name| !name.contains("tmp_")), "{left:?}");
}

#[test]
fn a_certificate_that_no_hook_hears_of_is_neither_checked_nor_kept() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = seeded(scratch.path());
    let program = signing::program(&repository, "fake", "touch ran");
    git::run(&repository, &["config", "gpg.program", &program]);
    git::hook(&repository, "update", "env | grep GIT_PUSH_CERT >told; exit 0");
    git::hook(&repository, "post-update", "env | grep GIT_PUSH_CERT >>told");
    let request = second_to("refs/heads/a").signed("pusher a\n", OPENPGP);
    push_raw(&repository, &request).assert_all_ok();
    assert!(!repository.join("ran").exists());
    assert_eq!(fs::read_to_string(repository.join("told")).unwrap(), "");
    let certificate = blob(request.certificate()).id();
    assert!(!git::object_ids(&repository).contains(&certificate));
}

#[test]
fn a_small_push_that_stays_in_memory_keeps_its_certificate() {
    let scene = Scene::new();
    fs::remove_file(scene.repository.join("hooks/pre-receive")).unwrap();
    gpg_says(&scene.repository, GOOD);
    let request = second_to("refs/heads/a").signed("pusher a\n", OPENPGP);
    push_raw(&scene.repository, &request).assert_all_ok();
    let (variables, certificate) = told(&scene.repository, "post-receive").unwrap();
    assert_eq!(certificate.into_bytes(), request.certificate());
    let id = blob(request.certificate()).id();
    assert_eq!(value(&variables, "").unwrap(), id);
    assert!(scene.repository.join("objects").join(&id[..2]).join(&id[2..]).exists());
}

#[test]
fn a_push_of_deletions_alone_brings_its_certificate() {
    let scene = Scene::new();
    gpg_says(&scene.repository, GOOD);
    git::run(&scene.repository, &["config", "receive.denyDeleteCurrent", "ignore"]);
    let (first, _) = two_commits();
    let request =
        Request::new().command(&first.id(), ZERO, "refs/heads/main").signed("pusher a\n", OPENPGP);
    push_raw(&scene.repository, &request).assert_all_ok();
    let (variables, certificate) = scene.told();
    assert_eq!(certificate.into_bytes(), request.certificate());
    let id = value(&variables, "").unwrap();
    assert!(git::object_ids(&scene.repository).contains(&id));
    assert_eq!(git::refs(&scene.repository), "");
}

#[test]
fn a_push_that_is_refused_leaves_no_certificate() {
    for then in ["exit 1", "exit 0"] {
        let scene = Scene::new();
        gpg_says(&scene.repository, GOOD);
        telling_hook(&scene.repository, "pre-receive", then);
        git::run(&scene.repository, &["config", "transfer.hideRefs", "refs/hidden"]);
        let name = if then == "exit 0" { "refs/hidden/a" } else { "refs/heads/a" };
        let before = git::object_ids(&scene.repository);
        let request = second_to(name).signed("pusher a\n", OPENPGP);
        let answer = push_raw(&scene.repository, &request);
        assert!(answer.of(name).starts_with("ng "), "{answer:?}");
        let (_, certificate) = told(&scene.repository, "pre-receive").unwrap();
        assert_eq!(certificate.into_bytes(), request.certificate());
        assert!(told(&scene.repository, "post-receive").is_none());
        assert_eq!(git::object_ids(&scene.repository), before);
        let left = git::object_files(&scene.repository);
        assert!(left.iter().all(|name| !name.contains("tmp_")), "{left:?}");
    }
}

#[test]
fn other_push_options_than_were_signed_refuse_every_ref() {
    let scene = Scene::new();
    gpg_says(&scene.repository, GOOD);
    git::run(&scene.repository, &["config", "receive.advertisePushOptions", "true"]);
    let (_, second) = two_commits();
    let push = |headers: &str, options: &[&str], number: usize| {
        let request = Request::new()
            .command(ZERO, &second.id(), format!("refs/heads/a{number}"))
            .command(ZERO, &second.id(), format!("refs/heads/b{number}"))
            .capabilities("report-status side-band-64k push-options")
            .options(options)
            .signed(headers, OPENPGP)
            .pack(second.pack());
        push_raw(&scene.repository, &request).report
    };
    for (number, (signed, sent)) in [
        ("", &["a"][..]),
        ("push-option a\n", &[]),
        ("push-option a\n", &["b"]),
        ("push-option a\n", &["a", "a"]),
        ("push-option a\npush-option b\n", &["b", "a"]),
        ("push-option a b\n", &["a"]),
        ("push-option a\n", &["a "]),
    ]
    .into_iter()
    .enumerate()
    {
        let refused = ["a", "b"]
            .map(|name| format!("ng refs/heads/{name}{number} inconsistent push options"));
        let expected = [vec!["unpack ok".to_owned()], refused.to_vec()].concat();
        assert_eq!(push(signed, sent, number), expected, "{signed:?} {sent:?}");
    }
    let same = push("push-option a b\nnonce x\npush-option \n", &["a b", ""], 9);
    assert_eq!(same, ["unpack ok", "ok refs/heads/a9", "ok refs/heads/b9"]);
}

#[test]
fn a_certificate_that_the_pack_brings_too_is_kept_once() {
    let (_, second) = two_commits();
    for limit in ["1", "100"] {
        for hook in ["pre-receive", "post-receive"] {
            let scratch = tempfile::tempdir().unwrap();
            let repository = seeded(scratch.path());
            gpg_says(&repository, GOOD);
            telling_hook(&repository, hook, "");
            git::run(&repository, &["config", "transfer.unpackLimit", limit]);
            let request = second_to("refs/heads/a").signed("pusher a\n", OPENPGP);
            let certificate = blob(request.certificate());
            let objects = [&second.blob, &second.tree, &second.commit, &certificate].map(entry);
            let request = request.pack(pack(&objects));
            push_raw(&repository, &request).assert_all_ok();
            let (_, kept) = told(&repository, hook).unwrap();
            assert_eq!(kept.into_bytes(), certificate.data, "{limit} {hook}");
            git::assert_sound(&repository);
            // And so is one that is there already.
            let again = request.pack(pack(&[]));
            push_raw(&repository, &again);
        }
    }
}

#[test]
fn a_program_that_takes_too_long_is_told_and_is_no_good_signature() {
    let scene = Scene::new();
    let script = "echo '[GNUPG:] GOODSIG K S'\nexec sleep 1000";
    let program = signing::program(&scene.repository, "fake", script);
    for key in ["gpg.program", "gpg.ssh.program"] {
        git::run(&scene.repository, &["config", key, &program]);
    }
    git::run(&scene.repository, &["config", "gpg.ssh.allowedSignersFile", "signers"]);
    let limits = Limits { signature_seconds_max: 1, ..Limits::default() };
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
    for (name, signature) in [("refs/heads/a", OPENPGP), ("refs/heads/b", SSH)] {
        let begun = Instant::now();
        let request = second_to(name).signed("pusher a\n", signature).bytes();
        let (outcome, heard) = local.push(&scene.repository, &request);
        assert!(outcome.result.is_ok(), "{outcome:?}");
        assert!(begun.elapsed() < Duration::from_secs(60));
        let answer = Answer::from_bands(&heard.bytes);
        let words = "error: the signature of the push certificate was not checked within the \
            limit 'signature_seconds_max' of 1 seconds\n";
        assert_eq!(answer.messages, words);
        let (variables, _) = scene.told();
        assert_eq!(value(&variables, "_STATUS").unwrap(), "E");
        assert_eq!(value(&variables, "_SIGNER").unwrap(), "");
    }
}

#[test]
fn what_the_configuration_says_of_signatures_must_make_sense() {
    let scene = Scene::new();
    gpg_says(&scene.repository, GOOD);
    git::run(&scene.repository, &["config", "gpg.minTrustLevel", "some"]);
    let request = second_to("refs/heads/a").signed("pusher a\n", OPENPGP);
    let answer = push_raw(&scene.repository, &request);
    let refused = "ng refs/heads/a invalid value for 'gpg.mintrustlevel': 'some'";
    assert_eq!(answer.of("refs/heads/a"), refused);
    assert!(told(&scene.repository, "pre-receive").is_none());
    // It is of no account for a push that nobody signed.
    push_raw(&scene.repository, &second_to("refs/heads/a")).assert_all_ok();
}
