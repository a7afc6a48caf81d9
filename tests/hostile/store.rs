//! What lies in the store must not be taken for more than it is.

use super::scene;
use crate::support::git;
use crate::support::objects::{Snapshot, ZERO, commit, entry, pack, tag};
use crate::support::request::Request;

#[test]
fn an_object_whose_links_lead_nowhere_proves_nothing() {
    // A commit lies in the store, unreachable, its parent missing. No push may make it reachable,
    // be it named itself or as a parent.
    let scene = scene(100);
    let stray = commit(&scene.first.tree.id(), &[&"1".repeat(40)], "stray");
    scene.store(&[&stray]);
    let child = Snapshot::new("child\n", &[&stray.id()]);
    let answer = scene.answer(
        &Request::new()
            .command(ZERO, &stray.id(), "refs/heads/stray")
            .command(ZERO, &child.id(), "refs/heads/child")
            .command(ZERO, &scene.first.id(), "refs/heads/good")
            .pack(child.pack()),
    );
    assert_eq!(answer.report[0], "unpack ok");
    for name in ["refs/heads/stray", "refs/heads/child"] {
        assert_eq!(answer.of(name), format!("ng {name} missing necessary objects"));
    }
    assert_eq!(answer.of("refs/heads/good"), "ok refs/heads/good");
}

#[test]
fn a_refused_push_to_a_hidden_ref_leaves_no_object() {
    let scene = scene(1);
    git::run(&scene.repository, &["config", "transfer.hideRefs", "refs/hidden"]);
    let files = git::object_files(&scene.repository);
    let answer = scene.answer(
        &Request::new()
            .command(ZERO, &scene.second.id(), "refs/hidden/x")
            .pack(scene.second.pack()),
    );
    assert_eq!(answer.of("refs/hidden/x"), "ng refs/hidden/x deny updating a hidden ref");
    assert_eq!(git::object_files(&scene.repository), files);
}

#[test]
fn what_only_a_hidden_ref_holds_proves_no_push() {
    let scene = scene(100);
    let secret = Snapshot::new("secret\n", &[&"3".repeat(40)]);
    scene.store(&[&secret.blob, &secret.tree, &secret.commit]);
    // A visible ref of this value would be taken for proof that its history is there.
    std::fs::create_dir_all(scene.repository.join("refs/hidden")).unwrap();
    std::fs::write(scene.repository.join("refs/hidden/s"), format!("{}\n", secret.id())).unwrap();
    let child = Snapshot::new("child\n", &[&secret.id()]);
    let request = Request::new().command(ZERO, &child.id(), "refs/heads/child").pack(child.pack());
    git::run(&scene.repository, &["config", "transfer.hideRefs", "refs/hidden"]);
    let answer = scene.answer(&request);
    assert_eq!(answer.of("refs/heads/child"), "ng refs/heads/child missing necessary objects");
    git::run(&scene.repository, &["config", "--unset", "transfer.hideRefs"]);
    assert_eq!(scene.answer(&request).of("refs/heads/child"), "ok refs/heads/child");
}

#[test]
fn a_shallow_border_that_is_here_with_its_history_makes_nothing_shallow() {
    let scene = scene(100);
    scene.goes_on();
    // The client has the second commit alone, does not know that the server has it, and builds on
    // it: its pack brings the border again.
    let third = Snapshot::new("third\n", &[&scene.second.id()]);
    let entries = [&scene.second.blob, &scene.second.tree, &scene.second.commit]
        .into_iter()
        .chain([&third.blob, &third.tree, &third.commit])
        .map(entry)
        .collect::<Vec<_>>();
    let answer = scene.answer(
        &Request::new()
            .shallow(&scene.second.id())
            .command(ZERO, &third.id(), "refs/heads/third")
            .pack(pack(&entries)),
    );
    assert_eq!(answer.of("refs/heads/third"), "ok refs/heads/third");
    assert!(!scene.repository.join("shallow").exists());
    git::assert_sound(&scene.repository);
}

#[test]
fn a_shallow_border_that_is_new_is_refused() {
    let scene = scene(100);
    let border = Snapshot::new("border\n", &[&"4".repeat(40)]);
    let answer = scene.answer(
        &Request::new()
            .shallow(&border.id())
            .command(ZERO, &border.id(), "refs/heads/border")
            .pack(border.pack()),
    );
    assert_eq!(answer.of("refs/heads/border"), "ng refs/heads/border shallow update not allowed");
    assert!(!git::refs(&scene.repository).contains("border"));
}

#[test]
fn a_shallow_border_refuses_the_refs_that_lead_to_it_and_no_others() {
    let scene = scene(100);
    let border = Snapshot::new("border\n", &[&"4".repeat(40)]);
    let above = Snapshot::new("above\n", &[&border.id()]);
    let tag = tag(&above.id(), "commit", "v1");
    let apart = Snapshot::new("apart\n", &[&scene.first.id()]);
    let mut entries: Vec<_> = [&border, &above, &apart]
        .iter()
        .flat_map(|snapshot| [&snapshot.blob, &snapshot.tree, &snapshot.commit])
        .map(entry)
        .collect();
    entries.push(entry(&tag));
    let answer = scene.answer(
        &Request::new()
            .shallow(&border.id())
            .command(ZERO, &above.id(), "refs/heads/above")
            .command(ZERO, &tag.id(), "refs/tags/v1")
            .command(ZERO, &apart.id(), "refs/heads/apart")
            .pack(pack(&entries)),
    );
    for name in ["refs/heads/above", "refs/tags/v1"] {
        assert_eq!(answer.of(name), format!("ng {name} shallow update not allowed"));
    }
    assert_eq!(answer.of("refs/heads/apart"), "ok refs/heads/apart");
    assert!(!scene.repository.join("shallow").exists());
    git::assert_sound(&scene.repository);
}
