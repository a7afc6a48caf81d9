//! What a run tells, and in which forms.

use super::generator::{NullServer, load, load_json};
use std::fs;

#[test]
fn help_shows_the_way_from_a_url_to_a_report() {
    let ended = load(&["--help"]);
    assert_eq!(ended.status, 0);
    for words in ["--report load.html", "Exit status:", "{repo}", "[[push]]", "null-server"] {
        assert!(ended.out.contains(words), "{words}");
    }
}

#[test]
fn a_page_stands_alone_and_is_well_formed() {
    let server = NullServer::with(&["--reject-every=7", "--server-timing"]);
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("load.html").display().to_string();
    let hdr = directory.path().join("load.hgrm").display().to_string();
    let url = server.repositories();
    let ended = load(&[&url, "-n2", "--count=100", "--report", &page, "--hdr", &hdr]);
    assert_eq!(ended.status, 1);
    let html = fs::read_to_string(&page).unwrap();
    assert_well_formed(&html);
    for word in ["src=", "href=", "@import", "url(", "<script"] {
        assert!(!html.contains(word), "{word}");
    }
    for words in ["rejected: hook declined", "server: commit", "<svg", "color-scheme", "p99.9"] {
        assert!(html.contains(words), "{words}");
    }
    let hgrm = fs::read_to_string(&hdr).unwrap();
    assert!(hgrm.contains("Percentile") && hgrm.contains("#[Mean"), "{hgrm}");
}

#[test]
fn times_by_step_are_told_where_the_server_tells_them() {
    let server = NullServer::with(&["--server-timing"]);
    let (status, run) = load_json(&[&server.repositories(), "-n1", "--count=10"]);
    assert_eq!(status, 0);
    let steps = run["sides"][0]["server_steps"].as_array().unwrap();
    let names: Vec<_> = steps.iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["read", "commit"], "in the server's order");
    let p50 = steps[1]["latency"]["p50"].as_f64().unwrap();
    assert!((0.00149..0.00151).contains(&p50), "{p50}");
}

#[test]
fn open_loop_charges_a_stall_to_every_push_that_was_due() {
    // Each push takes 100 ms and more, one pusher, twenty due each second: the last of them waits
    // for all before it.
    let server = NullServer::with(&["--delay=50"]);
    let arguments = ["-n1", "--rate=20", "--duration=2", "--warmup=0"];
    let url = server.repositories();
    let (_, run) = load_json(&[&[&*url], &arguments[..]].concat());
    let side = &run["sides"][0];
    let slowest = side["latency"]["max"].as_f64().unwrap();
    assert!(slowest > 0.7, "{slowest}");
    assert!(side["unserved"].as_u64().unwrap() >= 10, "{run}");
    let post = side["post"]["p50"].as_f64().unwrap();
    assert!(post < 0.5, "a single request is as fast as ever: {post}");
}

#[test]
fn two_servers_take_turns_and_are_told_apart() {
    let (quick, slow) = (NullServer::with(&[]), NullServer::with(&["--delay=10"]));
    let (status, run) = load_json(&[
        &quick.repositories(),
        "--compare",
        &slow.repositories(),
        "-n2",
        "--duration=2",
        "--round=0.5",
        "--warmup=0.2",
        "--verify",
    ]);
    assert_eq!(status, 0, "{run}");
    for side in [0, 1] {
        assert_eq!(run["sides"][side]["rounds"].as_array().unwrap().len(), 4, "{run}");
        assert_eq!(run["sides"][side]["seconds"], 2.0);
    }
    assert!(run["comparison"]["throughput"].as_f64().unwrap() < 0.7, "{run}");
    assert!(run["comparison"]["p50"].as_f64().unwrap() > 2.0, "{run}");
}

#[test]
fn a_server_can_be_compared_with_itself() {
    let server = NullServer::with(&[]);
    let url = server.repository("one.git");
    let arguments = ["-n2", "--duration=1", "--round=0.5", "--warmup=0.2", "--verify"];
    let (status, run) = load_json(&[&[&*url, "--compare", &url], &arguments[..]].concat());
    assert_eq!(status, 0, "{run}");
}

/// Every element is closed in the order in which it was opened; nothing but `<!DOCTYPE` is not XML.
fn assert_well_formed(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = html.strip_prefix("<!DOCTYPE html>").unwrap();
    while let Some(at) = rest.find('<') {
        assert!(!rest[..at].contains('>'), "a bracket in text: {}", &rest[..at]);
        let end = at + rest[at..].find('>').unwrap();
        let tag = &rest[at + 1..end];
        rest = &rest[end + 1..];
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}
