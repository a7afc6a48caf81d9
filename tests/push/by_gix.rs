//! What packhouse stores, read by an implementation that is neither ours nor git's.

use super::work::Work;
use crate::http::server::Server;
use gix_pack::data::decode::entry::ResolvedBase;
use sha1::Digest as _;
use std::collections::BTreeSet;
use std::path::PathBuf;

#[test]
fn gix_pack_reads_every_object_of_stored_packs() {
    let server = Server::with(&["--unpack-limit=1"]);
    let work = Work::new(&server.url("r.git"));
    let mut text = String::new();
    // The second push is thin: it has deltas on what the first one brought.
    for commits in [40, 5] {
        for n in 0..commits {
            text.push_str(&format!("line {n} of a file that grows, so that there are deltas\n"));
            work.commit("file", &text);
        }
        work.git(&["push", "-q", "origin", "main"]);
    }
    let objects = server.path("r.git").join("objects/pack");
    let files = std::fs::read_dir(objects).unwrap().map(|entry| entry.unwrap().path());
    let indexes: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|end| end == "idx")).collect();
    assert_eq!(indexes.len(), 2);
    let mut read = BTreeSet::new();
    let mut deltas = 0;
    for path in indexes {
        let kind = gix_hash::Kind::Sha1;
        let index = gix_pack::index::File::at(&path, kind).unwrap();
        let pack = gix_pack::data::File::at(path.with_extension("pack"), kind).unwrap();
        assert_eq!(index.pack_checksum(), pack.checksum());
        assert_eq!(index.num_objects(), pack.num_objects());
        for entry in index.iter() {
            let mut content = Vec::new();
            let found = pack.entry(entry.pack_offset).unwrap();
            deltas += u32::from(found.header.is_delta());
            let decoded = pack.decode_entry(
                found,
                &mut content,
                &mut Default::default(),
                &|base, _| {
                    let place = index.lookup(base).map(|at| index.pack_offset_at_index(at));
                    place.map(|at| pack.entry(at).map(ResolvedBase::InPack)).transpose()
                },
                &mut gix_pack::cache::Never,
            );
            let kind = decoded.unwrap().kind;
            let header = format!("{kind} {}\0", content.len());
            let id = sha1::Sha1::new().chain_update(header).chain_update(&content).finalize();
            assert_eq!(entry.oid.as_bytes(), &id[..]);
            read.insert(entry.oid.to_string());
        }
    }
    assert!(deltas > 10, "{deltas}");
    let all = work.git(&["rev-list", "--objects", "--no-object-names", "main"]);
    let all: BTreeSet<_> = all.lines().map(str::to_owned).collect();
    assert!(all.is_subset(&read));
}
