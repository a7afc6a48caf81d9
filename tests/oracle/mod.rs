//! The same push through stock `git receive-pack` and through packhouse: the same report, refs,
//! objects, reflogs and hooks.
//!
//! Every scenario runs four times: kept as a pack and unpacked loose, without hooks and with all
//! that any push has, which write down what they were given. Where packhouse differs on purpose, the scenario
//! names an entry of [`accepted`], and only what that entry covers may differ. After every push `git fsck`
//! finds our repository sound, or as it finds git's that the scenario has broken.

mod accepted;
mod certificates;
mod fsck;
mod fsck_random;
mod lost_race;
mod observe;
mod proc_receive;
mod reftables;
mod scenarios;
mod shallow;
mod transactions;
mod work_trees;

use accepted::Accepted;
use observe::Observation;
use std::path::Path;

/// One push, and the repository it goes to.
struct Scenario {
    name: String,
    /// Makes the repository; an empty bare one is there already.
    prepare: Prepare,
    /// The bytes sent, given the repository.
    request: MakeRequest,
    accepted: &'static [Accepted],
    /// Whether the answer is framed in bands.
    banded: bool,
    /// Whether standard error is looked at, too.
    diagnosed: bool,
    /// Whether `git fsck` must find nothing wrong afterwards.
    sound: bool,
}

type Prepare = Box<dyn Fn(&Path) + Send + Sync>;
type MakeRequest = Box<dyn Fn(&Path) -> Vec<u8> + Send + Sync>;

/// One of the four ways in which a scenario runs.
#[derive(Clone, Copy, Debug)]
struct Variant {
    unpack_limit: u32,
    hooks: bool,
    ref_format: &'static str,
}

const VARIANTS: [Variant; 4] = [
    Variant { unpack_limit: 1, hooks: false, ref_format: "files" },
    Variant { unpack_limit: 100, hooks: false, ref_format: "files" },
    Variant { unpack_limit: 1, hooks: true, ref_format: "files" },
    Variant { unpack_limit: 100, hooks: true, ref_format: "files" },
];

/// Refs are kept in another way; packs and loose objects are the same.
const REFTABLES: [Variant; 2] = [
    Variant { unpack_limit: 100, hooks: false, ref_format: "reftable" },
    Variant { unpack_limit: 100, hooks: true, ref_format: "reftable" },
];

#[test]
fn packhouse_and_stock_git_agree() {
    let mut scenarios = scenarios::all();
    assert!(scenarios.len() >= 60, "{} scenarios", scenarios.len());
    // For whoever works on one of them.
    if let Ok(words) = std::env::var("ORACLE_ONLY") {
        scenarios.retain(|scenario| scenario.name.contains(&words));
    }
    agree(&scenarios, &VARIANTS);
}

#[test]
fn packhouse_and_stock_git_agree_on_reftables() {
    let mut scenarios = reftables::all();
    assert!(scenarios.len() >= 60, "{} scenarios", scenarios.len());
    if let Ok(words) = std::env::var("ORACLE_ONLY") {
        scenarios.retain(|scenario| scenario.name.contains(&words));
    }
    agree(&scenarios, &REFTABLES);
}

#[test]
fn packhouse_and_stock_git_agree_on_fsck() {
    let scenarios = fsck::all();
    assert!(scenarios.len() >= 60, "{} scenarios", scenarios.len());
    // Hooks have no part in it.
    agree(&scenarios, &VARIANTS[..2]);
}

#[test]
fn packhouse_and_stock_git_agree_on_shallow_histories() {
    let mut scenarios = shallow::all();
    assert!(scenarios.len() >= 40, "{} scenarios", scenarios.len());
    if let Ok(words) = std::env::var("ORACLE_ONLY") {
        scenarios.retain(|scenario| scenario.name.contains(&words));
    }
    agree(&scenarios, &VARIANTS);
}

fn agree(scenarios: &[Scenario], variants: &[Variant]) {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let faults = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(scenario) = scenarios.get(at) else { break };
                    for variant in variants {
                        if let Some(fault) = compare(scenario, *variant) {
                            faults.lock().unwrap().push(fault);
                        }
                    }
                }
            });
        }
    });
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    assert!(faults.is_empty(), "{} differences\n{}", faults.len(), faults.join("\n"));
    println!(
        "{} scenarios, {} accepted differences (docs/PROTOCOL.md)",
        scenarios.len(),
        accepted::ALL.len()
    );
}

#[test]
fn every_accepted_difference_is_documented_and_used() {
    let document = include_str!("../../docs/PROTOCOL.md");
    for accepted in accepted::ALL {
        let name = accepted.name();
        assert!(document.contains(&format!("`{name}`")), "docs/PROTOCOL.md does not name {name}");
        let all = scenarios::all().into_iter().chain(fsck::all()).chain(shallow::all());
        let used = all.into_iter().any(|scenario| scenario.accepted.contains(accepted));
        assert!(used, "no scenario needs {name}");
    }
}

fn compare(scenario: &Scenario, variant: Variant) -> Option<String> {
    let git = observe::run(scenario, variant, &["git", "receive-pack"]);
    let ours = observe::run(scenario, variant, &[env!("CARGO_BIN_EXE_packhouse"), "receive-pack"]);
    // With a reftable it is git that runs the hook, and sets one variable more, to nothing.
    let forgive = |mut seen: Observation| {
        if variant.ref_format == "reftable" {
            seen.hooks = seen.hooks.replace("GIT_PREFIX=\n", "");
        }
        seen
    };
    // No accepted difference covers this.
    let unsound = observe::unsound(&git, &ours);
    let (git, ours) = (forgive(git), forgive(ours));
    let (git, ours) = scenario
        .accepted
        .iter()
        .fold((git, ours), |(git, ours), accepted| (accepted.forgive(git), accepted.forgive(ours)));
    let unsound = unsound.map(|faults| format!("git fsck\n{faults}"));
    unsound
        .or_else(|| difference(&git, &ours))
        .map(|text| format!("--- {} ({variant:?})\n{text}", scenario.name))
}

fn difference(git: &Observation, ours: &Observation) -> Option<String> {
    let mut text = String::new();
    for ((name, git), (_, ours)) in git.parts().into_iter().zip(ours.parts()) {
        if git != ours {
            text.push_str(&format!("{name}\n  git:  {git:?}\n  ours: {ours:?}\n"));
        }
    }
    (!text.is_empty()).then_some(text)
}
