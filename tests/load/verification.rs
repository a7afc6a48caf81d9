//! That a server which loses what it acknowledged is found out, and one that does not is not.

use super::generator::{NullServer, load, load_json};

#[test]
fn a_sound_server_passes() {
    let server = NullServer::with(&[]);
    let (status, run) = load_json(&[&server.repositories(), "-n4", "--count=400", "--verify"]);
    assert_eq!(status, 0, "{run}");
    let side = &run["sides"][0];
    assert_eq!(side["pushes"], 400);
    assert_eq!(side["verification"]["commits"], 400);
    assert_eq!(side["verification"]["lost"].as_array().unwrap().len(), 0);
}

#[test]
fn one_lost_push_in_a_hundred_is_found() {
    let server = NullServer::with(&["--lose-every=100"]);
    let (status, run) = load_json(&[&server.repositories(), "-n4", "--count=400", "--verify"]);
    assert_eq!(status, 1);
    let lost = run["sides"][0]["verification"]["lost"].as_array().unwrap();
    // Each of the four by its commit; the last of a pusher by its ref, too.
    let commits = lost.iter().filter(|line| line.as_str().unwrap().contains("behind no ref"));
    assert_eq!(commits.count(), 4, "{lost:?}");
}

#[test]
fn a_loss_is_noticed_without_verify_by_the_next_push() {
    let server = NullServer::with(&["--lose-every=50"]);
    let ended = load(&[&server.repositories(), "-n1", "--count=120"]);
    assert_eq!(ended.status, 1);
    assert!(ended.out.contains("2 × an acknowledged push was not shown"), "{}", ended.out);
    assert!(ended.out.contains("ACKNOWLEDGED TOO EARLY, or lost: 2"), "{}", ended.out);
}

#[test]
fn a_server_that_says_ok_before_it_is_true_is_found() {
    let server = NullServer::with(&["--late=30"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=40", "--verify"]);
    assert_eq!(status, 1);
    assert!(!run["sides"][0]["verification"]["early"].as_array().unwrap().is_empty(), "{run}");

    let never = NullServer::with(&["--late=1000000"]);
    let (status, run) = load_json(&[&never.repositories(), "-n2", "--count=40", "--verify"]);
    assert_eq!(status, 1);
    let lost = run["sides"][0]["verification"]["lost"].as_array().unwrap();
    assert!(lost.len() >= 40, "{}", lost.len());
}

#[test]
fn a_loss_on_a_branch_of_all_is_found() {
    let server = NullServer::with(&["--lose-every=100"]);
    let url = server.repository("one.git");
    let arguments = [&*url, "-n4", "--layout=one-branch", "--count=300", "--verify"];
    let (status, run) = load_json(&arguments);
    assert_eq!(status, 1);
    assert!(!run["sides"][0]["verification"]["lost"].as_array().unwrap().is_empty(), "{run}");
}

#[test]
fn a_loss_without_discovery_is_found_afterwards() {
    let server = NullServer::with(&["--lose-every=100"]);
    let url = server.repositories();
    let (status, run) = load_json(&[&url, "-n2", "--count=100", "--no-discovery", "--verify"]);
    assert_eq!(status, 1, "{run}");
}

#[test]
fn a_push_without_an_answer_is_no_loss() {
    let server = NullServer::with(&["--hang-up-every=20"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=100", "--verify"]);
    assert_eq!(status, 1, "it has failed all the same");
    let side = &run["sides"][0];
    assert_eq!(side["failures"], 5, "{run}");
    assert_eq!(side["verification"]["lost"].as_array().unwrap().len(), 0, "{run}");
    assert_eq!(side["verification"]["early"].as_array().unwrap().len(), 0, "{run}");
}
