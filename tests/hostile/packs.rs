//! Packs that lie or are damaged.

use super::on_both_sides_of_the_unpack_limit;
use crate::support::git;
use crate::support::objects::{ZERO, deflate, entry, entry_header, pack, pack_claiming};
use crate::support::request::Request;

#[test]
fn one_that_is_cut_short_is_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let pack = scene.second.pack();
        for end in [0, 3, 11, 12, 13, 40, pack.len() - 21, pack.len() - 20, pack.len() - 1] {
            scene.refuse_pack(&pack[..end]);
        }
    });
}

#[test]
fn a_wrong_trailer_is_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let mut pack = scene.second.pack();
        *pack.last_mut().unwrap() ^= 1;
        scene.refuse_pack(pack);
    });
}

#[test]
fn bytes_behind_it_are_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let mut pack = scene.second.pack();
        pack.extend_from_slice(b"GARBAGE");
        scene.refuse_pack(pack);
    });
}

#[test]
fn counts_that_lie_are_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let two = &scene.second;
        let entries = [entry(&two.blob), entry(&two.tree), entry(&two.commit)];
        for count in [2, 4, 5, 1 << 31, u32::MAX] {
            scene.refuse_pack(pack_claiming(&entries, count, 2));
        }
    });
}

#[test]
fn sizes_that_lie_are_refused_and_cost_no_memory() {
    on_both_sides_of_the_unpack_limit(|scene| {
        for size in [0, 1, 3, 10, 1 << 40, usize::MAX >> 4] {
            for kind in [1, 2, 3, 4] {
                let mut bad = entry_header(kind, size);
                bad.extend_from_slice(&deflate(b"ab"));
                scene.refuse_pack(pack(&[bad]));
            }
        }
        let mut bad = entry_header(3, 10);
        bad.extend_from_slice(&deflate(&vec![b'x'; 1 << 20]));
        scene.refuse_pack(pack(&[bad]));
    });
}

#[test]
fn unknown_versions_and_entry_types_are_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        for version in [0, 1, 4, u32::MAX] {
            scene.refuse_pack(pack_claiming(&[], 0, version));
        }
        for kind in [0, 5] {
            let mut bad = entry_header(kind, 2);
            bad.extend_from_slice(&deflate(b"ab"));
            scene.refuse_pack(pack(&[bad]));
        }
    });
}

#[test]
fn a_create_with_no_pack_at_all_is_refused() {
    on_both_sides_of_the_unpack_limit(|scene| {
        scene.refuse_pack(b"".as_slice());
    });
}

#[test]
fn the_same_pack_may_come_again() {
    on_both_sides_of_the_unpack_limit(|scene| {
        for name in ["refs/heads/one", "refs/heads/two"] {
            let request = Request::new()
                .command(ZERO, &scene.second.id(), name)
                .pack(scene.second.pack())
                .bytes();
            scene.local.push_ok(&scene.repository, &request);
        }
    });
}

#[test]
fn a_damaged_copy_in_the_store_is_no_collision() {
    on_both_sides_of_the_unpack_limit(|scene| {
        let id = scene.second.blob.id();
        let path = scene.repository.join("objects").join(&id[..2]).join(&id[2..]);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, b"damaged").unwrap();
        let request = Request::new()
            .command(ZERO, &scene.second.id(), "refs/heads/x")
            .pack(scene.second.pack())
            .bytes();
        scene.local.push_ok(&scene.repository, &request);
        if scene.keeps_packs {
            // The whole copy lies in the pack now; the damaged file is nobody's.
            std::fs::remove_file(&path).unwrap();
        }
        assert_eq!(git::run(&scene.repository, &["cat-file", "-t", &id]), "blob");
    });
}
