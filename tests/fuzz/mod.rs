//! The fuzz targets on their corpora, and on mutations of them: what `cargo fuzz` does for hours
//! with a nightly compiler, for a moment and with the compiler that is there.

#[path = "../../fuzz/src/lib.rs"]
mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Mutations of each file of a corpus, unless the time is over before.
const MUTATIONS: u64 = 200;

/// How long one target may take; they run beside one another.
const TIME_MAX: Duration = Duration::from_secs(1);

#[test]
fn every_target_has_a_corpus_and_holds_on_it() {
    for (name, run) in targets::TARGETS {
        let corpus = corpus(name);
        assert!(corpus.len() >= 3, "the corpus of {name} has {} files", corpus.len());
        for (path, bytes) in corpus {
            hold(name, &path, run, &bytes);
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    for entry in fs::read_dir(corpora()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(targets::TARGETS.iter().any(|(target, _)| *target == name), "no target {name}");
    }
}

#[test]
fn the_index_of_the_corpus_belongs_to_its_pack() {
    let pack = targets::idx::PACK;
    let index = fs::read(corpora().join("idx/of-the-pack")).unwrap();
    let checksum = &pack[pack.len() - 20..];
    assert_eq!(&index[index.len() - 40..index.len() - 20], checksum);
}

macro_rules! mutations {
    ($($name:ident: $target:ident,)*) => {$(
        #[test]
        fn $name() {
            mutate(stringify!($target), targets::$target::run);
        }
    )*};
}

mutations! {
    mutated_deltas_hold: delta,
    mutated_indexes_hold: idx,
    mutated_objects_are_judged: fsck,
    mutated_objects_hold: links,
    mutated_packs_hold: pack_parser,
    mutated_packets_hold: pkt_line,
    mutated_requests_hold: request,
}

fn mutate(name: &str, run: fn(&[u8])) {
    let begun = Instant::now();
    let corpus = corpus(name);
    // Round by round, so that each file has its share if the time is over early.
    for round in 0..MUTATIONS {
        for (number, (path, bytes)) in corpus.iter().enumerate() {
            if begun.elapsed() > TIME_MAX {
                return;
            }
            let mut random = Random(round * 1000 + number as u64 + 1);
            let other = &corpus[random.below(corpus.len())].1;
            hold(name, path, run, &mutation(bytes, other, &mut random));
        }
    }
}

/// Runs a target, and says which bytes broke it.
fn hold(name: &str, path: &Path, run: fn(&[u8]), bytes: &[u8]) {
    let held = catch_unwind(AssertUnwindSafe(|| run(bytes)));
    let file = path.file_name().unwrap().display();
    let shown = bytes.escape_ascii();
    assert!(held.is_ok(), "{name} does not hold on these bytes, made from '{file}': \"{shown}\"");
}

fn mutation(bytes: &[u8], other: &[u8], random: &mut Random) -> Vec<u8> {
    let mut mutated = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(mutated.len() + 1);
        let end = (at + random.below(9)).min(mutated.len());
        match random.below(6) {
            0 => mutated.truncate(at),
            1 => drop(mutated.drain(at..end)),
            2 => mutated
                .splice(at..at, [0, 0xff, 0x7f, 0x80][..=random.below(4)].to_vec())
                .for_each(drop),
            3 => {
                let from = random.below(other.len() + 1);
                let to = (from + random.below(40)).min(other.len());
                mutated.splice(at..end, other[from..to].iter().copied()).for_each(drop);
            }
            _ if at < mutated.len() => match random.below(3) {
                0 => mutated[at] ^= 1 << random.below(8),
                1 => mutated[at] = mutated[at].wrapping_add(1),
                _ => mutated[at] = random.below(256) as u8,
            },
            _ => {}
        }
    }
    mutated
}

/// Numbers that are the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // The steps of splitmix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % bound
    }
}

fn corpora() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(corpora().join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}
