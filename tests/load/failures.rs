//! Each way in which a server can fail a pusher: a clear text, a status, and an end.

use super::generator::{Ended, NullServer, command, load, load_json};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Runs it, and asserts that it ends with status 2 and these words, soon.
fn cannot_run(arguments: &[&str], words: &str) {
    let begun = Instant::now();
    let ended = load(arguments);
    assert!(ended.complaint.contains(words), "{words}: {}{}", ended.complaint, ended.out);
    assert_eq!(ended.status, 2, "{}", ended.complaint);
    assert!(begun.elapsed() < Duration::from_secs(20));
}

#[test]
fn nobody_listens() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cannot_run(&[&format!("http://{address}/x.git")], "cannot connect: Connection refused");
}

#[test]
fn somebody_listens_and_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    cannot_run(&[&url, "--timeout=0.3"], "no answer within 0.3 s (--timeout)");
}

#[test]
fn what_answers_is_no_git_server() {
    for (answer, words) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "no advertisement"),
        ("HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\n\r\n", "redirects are not"),
        ("SSH-2.0-x\r\n", "the connection broke"),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/x.git", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = stream;
                drop(stream.read(&mut [0; 4096]));
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        cannot_run(&[&url, "--timeout=5"], words);
    }
}

#[test]
fn refusals_of_every_request_end_before_the_first_push() {
    for (status, words) in [
        ("401", "401 Unauthorized: credentials are missing or wrong"),
        ("403", "403 Forbidden"),
        ("404", "404 Not Found: no such repository"),
        ("429", "429 Too Many Requests: the server limits the rate"),
        ("503", "503 Service Unavailable"),
    ] {
        let server = NullServer::with(&["--status", status]);
        cannot_run(&[&server.repositories()], words);
    }
}

#[test]
fn tls_faults_are_told() {
    let server = NullServer::with(&[]);
    let url = server.repository("x.git").replace("http://", "https://");
    cannot_run(&[&url, "--insecure", "--timeout=5"], "TLS: ");
}

#[test]
fn pushes_that_all_fail_end_the_run_early() {
    let server = NullServer::with(&["--reject-every=1"]);
    let begun = Instant::now();
    let ended = load(&[&server.repositories(), "--duration=60"]);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(ended.status, 1);
    assert!(ended.out.contains("every push failed from the start: rejected: hook declined"));
}

#[test]
fn errors_are_counted_by_text() {
    let server = NullServer::with(&["--reject-every=10"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=200"]);
    assert_eq!(status, 1);
    let errors = run["sides"][0]["errors"].as_array().unwrap();
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert_eq!(errors[0]["text"], "rejected: hook declined");
    assert_eq!(errors[0]["count"], 20);
    assert_eq!(run["sides"][0]["pushes"], 180);
}

#[test]
fn a_server_that_goes_away_ends_the_run() {
    let server = NullServer::with(&[]);
    let url = server.repositories();
    let child = command(&[&url, "--duration=60", "--ahead=1M", "--give-up=1", "--timeout=2"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    drop(server);
    let begun = Instant::now();
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert_eq!(ended.status, 1);
    assert!(ended.out.contains("no push has succeeded for 1 s"), "{}", ended.out);
    assert!(ended.out.contains("cannot connect"), "{}", ended.out);
    assert!(ended.out.contains("pushes/s"), "what there was is told: {}", ended.out);
}

#[test]
fn a_slow_server_runs_into_the_timeout() {
    let server = NullServer::with(&["--delay=150"]);
    let (status, run) = load_json(&[&server.repositories(), "-n2", "--count=2", "--timeout=5"]);
    assert_eq!(status, 0, "{run}");
    let push = run["sides"][0]["latency"]["p50"].as_f64().unwrap();
    assert!((0.3..2.0).contains(&push), "two answers of 150 ms: {push}");
    cannot_run(&[&server.repositories(), "--timeout=0.05"], "no answer within 0.05 s");
}

#[test]
fn interrupted_once_it_tells_what_there_was() {
    let server = NullServer::with(&[]);
    let url = server.repositories();
    let child = command(&[&url, "--duration=60", "--ahead=1M", "--warmup=0", "--verify"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_secs(2));
    let begun = Instant::now();
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert!(begun.elapsed() < Duration::from_secs(15));
    assert_eq!(ended.status, 130, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("interrupted"), "{}", ended.out);
    assert!(!ended.out.contains(" 0.0 pushes/s"), "{}", ended.out);
    assert!(!ended.out.contains("verified:"), "no verdict on nothing: {}", ended.out);
    assert!(ended.complaint.contains("not verified: interrupted"), "{}", ended.complaint);
}

#[test]
fn a_host_that_is_not_this_machine_needs_a_yes() {
    cannot_run(&["http://192.0.2.1/x.git"], "is not this machine: say --yes");
}

#[test]
fn a_command_line_without_sense_is_status_129() {
    for arguments in [&[][..], &["nonsense"], &["http://127.0.0.1/x", "--pushers=0"]] {
        assert_eq!(load(arguments).status, 129, "{arguments:?}");
    }
}

#[test]
fn a_report_that_has_no_place_is_told_before_the_run() {
    let server = NullServer::with(&[]);
    for flag in ["--report", "--hdr"] {
        let ended = load(&[&server.repositories(), "--count=4", flag, "/nonexistent/x.html"]);
        assert_eq!(ended.status, 2, "{}", ended.complaint);
        let words = "cannot write '/nonexistent/x.html' after the run: No such file";
        assert!(ended.complaint.contains(words), "{}", ended.complaint);
        assert_eq!(ended.out, "");
    }
}

#[test]
fn what_a_server_says_moves_no_cursor() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/x.git", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            drop(stream.read(&mut [0; 4096]));
            let answer = "HTTP/1.1 503 No\r\nContent-Length: 8\r\n\r\ngo\x1b[2J\rx";
            drop(stream.write_all(answer.as_bytes()));
        }
    });
    let ended = load(&[&url]);
    assert!(ended.complaint.contains("go\u{fffd}[2J\u{fffd}x"), "{:?}", ended.complaint);
    assert!(!ended.complaint.contains('\x1b'), "{:?}", ended.complaint);
}

#[test]
fn numbers_that_no_clock_can_hold_are_status_129() {
    for flag in ["--rate=1e-30", "--warmup=1e19", "--timeout=1e300", "--round=-1"] {
        let ended = load(&["http://127.0.0.1:1/x.git", flag]);
        let name = flag.split('=').next().unwrap();
        assert_eq!(ended.status, 129, "{flag}: {}", ended.complaint);
        assert!(ended.complaint.contains(name), "{flag}: {}", ended.complaint);
    }
}
