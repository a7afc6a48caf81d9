//! Links: every id that is told stands in the object, and what goes wrong ends it.
//!
//! The first byte says which kind of object the rest is.

use packhouse::links::{NewObjects, holds_all_links, links, tree};
use packhouse::model::{HashKind, ObjectKind};

const KINDS: [ObjectKind; 4] =
    [ObjectKind::Commit, ObjectKind::Tree, ObjectKind::Tag, ObjectKind::Blob];

pub fn run(bytes: &[u8]) {
    let Some((&first, data)) = bytes.split_first() else { return };
    let kind = KINDS[usize::from(first) % KINDS.len()];
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        check(kind, data, hash);
    }
}

fn check(kind: ObjectKind, data: &[u8], hash: HashKind) {
    let mut found = NewObjects::new();
    let mut count = 0;
    let mut iterator = links(kind, data, hash);
    while let Some(link) = iterator.next() {
        count += 1;
        // A raw id, two blanks or NULs and a mode; the others are longer.
        assert!(count * (hash.len_in_bytes() + 2) <= data.len() + 64);
        let Ok(link) = link else {
            assert!(iterator.next().is_none(), "there is nothing after an error");
            break;
        };
        assert_eq!(link.id.kind(), hash);
        let occurs = if kind == ObjectKind::Tree {
            data.windows(hash.len_in_bytes()).any(|window| window == link.id.as_slice())
        } else {
            let digits = link.id.to_string().into_bytes();
            data.windows(digits.len()).any(|window| window.eq_ignore_ascii_case(&digits))
        };
        assert!(occurs, "{} is nowhere in the object", link.id);
        found.name(&link.id, link.kind);
    }
    assert!(found.boundary().count() <= count);
    if kind != ObjectKind::Tree {
        // The beginning of a whole object has all links only if the whole has no more of them.
        for end in 0..data.len().min(256) {
            if holds_all_links(&data[..end]) {
                let ids = |data| links(kind, data, hash).filter_map(Result::ok).count();
                assert_eq!(ids(&data[..end]), ids(data));
                break;
            }
        }
        return;
    }
    let mut entries = tree(data, hash);
    while let Some(Ok(entry)) = entries.next() {
        assert!(!entry.name.is_empty() && !entry.name.contains(&0));
        assert!(data.ends_with(entries.rest()));
    }
}
