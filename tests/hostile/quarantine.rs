//! What was received must be what is stored: hooks and prunes get at it in between.

use super::{Scene, scene};
use crate::support::git;
use crate::support::objects::ZERO;
use crate::support::request::Request;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

pub(super) fn hook(scene: &Scene, name: &str, body: &str) {
    let path = scene.repository.join("hooks").join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(super) fn unhook(scene: &Scene, name: &str) {
    fs::remove_file(scene.repository.join("hooks").join(name)).unwrap();
}

/// An update and a creation, of which the update needs the pack.
pub(super) fn two_refs(scene: &Scene, atomic: bool) -> Request {
    let atomic = if atomic { " atomic" } else { "" };
    Request::new()
        .capabilities(&format!("report-status side-band-64k{atomic}"))
        .command(&scene.first.id(), &scene.second.id(), "refs/heads/main")
        .command(ZERO, &scene.first.id(), "refs/heads/old")
        .pack(scene.second.pack())
}

/// Pushes while `pre-receive` does something to the quarantine: nothing may land.
fn refuse_with_hook(unpack_limit: u32, body: &str) {
    let scene = scene(unpack_limit);
    let (files, refs) = (git::object_files(&scene.repository), git::refs(&scene.repository));
    hook(&scene, "pre-receive", body);
    let answer = scene.answer(&two_refs(&scene, false));
    assert_eq!(answer.report[0], "unpack ok", "{body}");
    assert_eq!(answer.of("refs/heads/main"), "ng refs/heads/main bad pack", "{body}");
    let moved = "ng refs/heads/old unable to migrate objects to permanent storage";
    assert_eq!(answer.of("refs/heads/old"), moved, "{body}");
    let lost = format!("unpack should have generated {}, but I can't find it!", scene.second.id());
    assert!(answer.messages.contains(&lost), "{body}: {answer:?}");
    assert_eq!(git::refs(&scene.repository), refs, "{body}");
    assert_eq!(git::object_files(&scene.repository), files, "{body}");
    unhook(&scene, "pre-receive");
    scene.goes_on();
}

#[test]
fn a_hook_that_empties_the_quarantine_fails_the_push() {
    for limit in [1, 100] {
        refuse_with_hook(limit, r#"rm -rf "$GIT_QUARANTINE_PATH"/*"#);
        refuse_with_hook(limit, r#"rm -rf "$GIT_QUARANTINE_PATH""#);
        refuse_with_hook(
            limit,
            r#"git --git-dir="$PWD" prune --expire=now; cd ..; env -u GIT_OBJECT_DIRECTORY -u GIT_ALTERNATE_OBJECT_DIRECTORIES -u GIT_QUARANTINE_PATH git --git-dir="$OLDPWD" prune --expire=now"#,
        );
    }
    refuse_with_hook(100, "git prune --expire=now");
    refuse_with_hook(1, r#"rm -f "$GIT_QUARANTINE_PATH"/pack/*.idx"#);
    refuse_with_hook(1, r#"rm -f "$GIT_QUARANTINE_PATH"/pack/*.pack"#);
}

#[test]
fn a_hook_that_takes_one_object_away_fails_the_push() {
    let blob = scene(100).second.blob.id();
    let (fan_out, rest) = blob.split_at(2);
    refuse_with_hook(100, &format!(r#"rm -f "$GIT_QUARANTINE_PATH"/{fan_out}/{rest}"#));
}

#[test]
fn a_hook_that_changes_what_was_received_fails_the_push() {
    let each = |what: &str| format!(r#"cd "$GIT_QUARANTINE_PATH"; chmod -R +w .; {what}"#);
    for (limit, files) in [(100, "??/*"), (1, "pack/*")] {
        let all = |what: &str| each(&format!("for f in {files}; do {what}; done"));
        refuse_with_hook(limit, &all(": > $f"));
        // The same bytes in another file are no longer what was flushed and proved.
        refuse_with_hook(limit, &all("cp $f x; mv x $f"));
        // Of the same size, in the same file.
        refuse_with_hook(limit, &all("printf x | dd of=$f bs=1 conv=notrunc 2>/dev/null"));
        refuse_with_hook(limit, &all("rm $f; ln -s /etc/passwd $f"));
    }
}

#[test]
fn a_hook_that_adds_to_the_quarantine_is_welcome() {
    for limit in [1, 100] {
        let scene = scene(limit);
        let body = "chmod -R u+w \"$GIT_QUARANTINE_PATH\"; git hash-object -w --stdin < /dev/null";
        hook(&scene, "pre-receive", body);
        scene.goes_on();
        assert!(git::object_ids(&scene.repository).contains("e69de29b"));
    }
}

#[test]
fn a_quarantine_that_became_a_link_is_neither_stored_nor_emptied() {
    for limit in [1, 100] {
        for to in ["elsewhere", "moved"] {
            let scene = scene(limit);
            let elsewhere = scene.repository.parent().unwrap().join("elsewhere");
            fs::create_dir_all(elsewhere.join("d")).unwrap();
            for name in ["f", "d/f"] {
                fs::write(elsewhere.join(name), "precious").unwrap();
            }
            let refs = git::refs(&scene.repository);
            let body = format!(
                "q=\"$GIT_QUARANTINE_PATH\"; mv \"$q\" ../moved; ln -s \"$(cd ..; pwd)/{to}\" \"$q\""
            );
            hook(&scene, "pre-receive", &body);
            let answer = scene.answer(&two_refs(&scene, false));
            assert_eq!(answer.of("refs/heads/main"), "ng refs/heads/main bad pack");
            assert_eq!(git::refs(&scene.repository), refs);
            assert!(elsewhere.join("d/f").exists() && elsewhere.join("f").exists());
            // What was moved away is no business of ours any more.
            assert!(elsewhere.with_file_name("moved").exists());
            unhook(&scene, "pre-receive");
            scene.goes_on();
        }
    }
}

#[test]
fn a_kept_pack_that_is_gone_before_its_ref_moves_is_refused() {
    for atomic in [false, true] {
        let scene = scene(1);
        let refs = git::refs(&scene.repository);
        // It runs after the migration; no prune takes a pack that has a keep file.
        hook(&scene, "update", "rm -f objects/pack/*.pack objects/pack/*.idx");
        let answer = scene.answer(&two_refs(&scene, atomic));
        let why = if atomic { "atomic transaction failed" } else { "failed to update ref" };
        assert_eq!(answer.of("refs/heads/main"), format!("ng refs/heads/main {why}"));
        let text = format!("nonexistent object {}", scene.second.id());
        assert!(answer.messages.contains(&text), "{answer:?}");
        if atomic {
            assert_eq!(git::refs(&scene.repository), refs);
        } else {
            assert_eq!(answer.of("refs/heads/old"), "ok refs/heads/old");
        }
        git::assert_sound(&scene.repository);
        unhook(&scene, "update");
        scene.goes_on();
    }
}
