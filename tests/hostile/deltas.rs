//! Deltas that lie, lead nowhere, or lead very far.

use super::{on_both_sides_of_the_unpack_limit, scene};
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::local::Local;
use crate::support::objects::{
    Object, Snapshot, ZERO, blob, commit, deflate, entry, entry_header, pack, ref_delta, thin_pack,
    tree, unhex, varint,
};
use crate::support::request::Request;
use packhouse::model::Limits;
use packhouse::repo::{Disk, FlushPolicy};

#[test]
fn a_thin_base_that_is_nowhere_is_refused_by_name() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let (one, two) = (&scene.first, &scene.second);
        let lost = "2".repeat(40);
        let delta = ref_delta(&lost, &one.blob.data, &two.blob.data);
        let answer = scene.refuse_pack(pack(&[delta, entry(&two.tree), entry(&two.commit)]));
        assert!(answer.report[0].contains(&lost), "{answer:?}");
    });
}

#[test]
fn deltas_that_name_each_other_are_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let (a, b) = (blob("a".repeat(100)), blob("b".repeat(100)));
        let first = ref_delta(&b.id(), &b.data, &a.data);
        let second = ref_delta(&a.id(), &a.data, &b.data);
        scene.refuse_pack(pack(&[first, second]));
    });
}

#[test]
fn deltas_that_lie_about_their_sizes_are_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let base = &scene.first.blob;
        let size = varint(base.data.len());
        let bad: [Vec<u8>; 7] = [
            // A base of another size.
            vec![5, 1, 1, b'x'],
            // A copy past the end of the base.
            [&size[..], &[10, 0x93, 0xff, 0xff, 10]].concat(),
            // More than announced.
            [&size[..], &[1, 2, b'x', b'y']].concat(),
            // Less than announced.
            [&size[..], &[9, 1, b'x']].concat(),
            // The reserved instruction.
            [&size[..], &[1, 0]].concat(),
            // An insertion that ends early.
            [&size[..], &[5, 5, b'x']].concat(),
            // A result that nobody could hold.
            [&size[..], &[0xff; 8], &[1, 1, b'x']].concat(),
        ];
        for delta in bad {
            let mut bytes = entry_header(7, delta.len());
            bytes.extend_from_slice(&unhex(&base.id()));
            bytes.extend_from_slice(&deflate(&delta));
            scene.refuse_pack(pack(&[bytes]));
        }
    });
}

#[test]
fn an_offset_before_the_pack_or_to_the_delta_itself_is_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let distances: [&[u8]; 4] = [&[0], &[127], &[0xff, 0xff, 0xff, 0xff, 0x7f], &[0xff; 12]];
        for distance in distances {
            let mut bytes = entry_header(6, 4);
            bytes.extend_from_slice(distance);
            bytes.extend_from_slice(&deflate(&[1, 1, 1, b'x']));
            scene.refuse_pack(pack(&[bytes]));
        }
    });
}

#[test]
fn thousands_of_deltas_deep_in_the_worst_order_is_no_recursion() {
    let scene = scene(1);
    let blobs: Vec<Object> = (0..3000).map(|n| blob(format!("{}{n}\n", "x".repeat(40)))).collect();
    // Each delta stands before the base it names.
    let mut entries: Vec<Vec<u8>> = blobs
        .windows(2)
        .rev()
        .map(|pair| ref_delta(&pair[0].id(), &pair[0].data, &pair[1].data))
        .collect();
    let tree = tree(&[("100644", "f", &blobs[2999].id())]);
    let commit = commit(&tree.id(), &[], "deep");
    entries.extend([entry(&blobs[0]), entry(&tree), entry(&commit)]);
    let request =
        Request::new().command(ZERO, &commit.id(), "refs/heads/deep").pack(pack(&entries)).bytes();
    scene.local.push_ok(&scene.repository, &request);
    git::assert_sound(&scene.repository);
}

#[test]
fn a_chain_deeper_than_the_limit_is_refused_with_its_name() {
    let scratch = tempfile::tempdir().unwrap();
    let repository = git::init_bare(&scratch.path().join("r.git"));
    let limits = Limits { delta_depth_max: 4, ..Limits::default() };
    let local = Local::with_limits(Disk::new(FlushPolicy::NONE), limits);
    let blobs: Vec<Object> = (0..6).map(|n| blob("x".repeat(50 + n))).collect();
    for (depth, fits) in [(4, true), (5, false)] {
        let mut entries = vec![entry(&blobs[0])];
        for pair in blobs[..=depth].windows(2) {
            entries.push(ref_delta(&pair[0].id(), &pair[0].data, &pair[1].data));
        }
        let request = Request::new()
            .command(ZERO, &blobs[depth].id(), format!("refs/tags/d{depth}"))
            .pack(pack(&entries))
            .bytes();
        let (outcome, heard) = local.push(&repository, &request);
        let answer = Answer::from_bands(&heard.bytes);
        assert_eq!(outcome.result.is_ok(), fits, "{answer:?}");
        let text = &answer.report[0];
        assert!(fits || text.contains("delta_depth_max") && text.contains('4'), "{answer:?}");
    }
}

#[test]
fn a_thin_pack_is_completed_wherever_its_base_lies() {
    for limit in [1, 100] {
        for packed in [false, true] {
            let scene = scene(limit);
            if packed {
                git::run(&scene.repository, &["repack", "-adq"]);
            }
            let request = Request::new()
                .command(&scene.first.id(), &scene.second.id(), "refs/heads/main")
                .pack(thin_pack(&scene.first, &scene.second))
                .bytes();
            scene.local.push_ok(&scene.repository, &request);
            git::assert_sound(&scene.repository);
        }
    }
}

#[test]
fn a_base_that_another_push_brought_a_moment_ago_is_found() {
    let scene = scene(1);
    let (one, two) = (&scene.first, &scene.second);
    let request = Request::new().command(ZERO, &two.id(), "refs/heads/x").pack(two.pack());
    scene.local.push_ok(&scene.repository, &request.bytes());
    let third = Snapshot::new(&format!("{}third\n", "hello\n".repeat(50)), &[&two.id()]);
    let request = Request::new()
        .command(&one.id(), &third.id(), "refs/heads/main")
        .pack(thin_pack(two, &third))
        .bytes();
    scene.local.push_ok(&scene.repository, &request);
    git::assert_sound(&scene.repository);
}
