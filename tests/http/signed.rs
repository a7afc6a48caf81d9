//! Signed pushes over HTTP, where the nonce of one request comes back in another.

use super::raw::Request;
use super::server::Server;
use crate::support::answer::Answer;
use crate::support::git;
use crate::support::objects::{ZERO, two_commits};
use crate::support::request::Request as Push;
use crate::support::signing::{
    self, GOOD, OPENPGP, ask_for_signatures, gpg_says, telling_hook, told, value,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// A server with a repository `x.git` that asks for signatures.
fn server() -> (Server, PathBuf) {
    let server = Server::open();
    let repository = server.init("x.git");
    ask_for_signatures(&repository);
    gpg_says(&repository, GOOD);
    telling_hook(&repository, "pre-receive", "");
    telling_hook(&repository, "post-receive", "");
    (server, repository)
}

/// The nonce that is advertised.
fn nonce(server: &Server) -> String {
    let body = Request::discovery("/x.git").send(server).body;
    nonce_in(&String::from_utf8_lossy(&body))
}

fn nonce_in(advertisement: &str) -> String {
    let (_, rest) = advertisement.split_once(" push-cert=").unwrap();
    rest.split(' ').next().unwrap().to_owned()
}

/// Pushes with a nonce; gives what hooks were told.
fn push(server: &Server, repository: &Path, name: &str, nonce: &str) -> Vec<String> {
    let (first, _) = two_commits();
    let push = Push::new()
        .command(ZERO, &first.id(), name)
        .signed(&format!("pusher a\nnonce {nonce}\n"), OPENPGP)
        .pack(first.pack());
    let response = Request::push("/x.git", push.bytes()).send(server);
    assert_eq!(response.status, 200);
    Answer::from_bands(&response.body).assert_all_ok();
    let (variables, _) = told(repository, "pre-receive").unwrap();
    assert_eq!(told(repository, "post-receive").unwrap().0, variables);
    assert_eq!(value(&variables, "_STATUS").unwrap(), "G");
    variables
}

fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

#[test]
fn a_nonce_is_good_for_as_long_as_the_repository_says() {
    let (server, repository) = server();
    let nonce = nonce(&server);
    let stamp: u64 = nonce.split('-').next().unwrap().parse().unwrap();
    assert!(now().abs_diff(stamp) < 60);
    while now() <= stamp + 1 {
        std::thread::sleep(Duration::from_millis(50));
    }
    let variables = push(&server, &repository, "refs/heads/a", &nonce);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "SLOP");
    let slop: u64 = value(&variables, "_NONCE_SLOP").unwrap().parse().unwrap();
    assert!((2..60).contains(&slop), "{slop}");
    // That is the nonce that it would have been now.
    let told = value(&variables, "_NONCE").unwrap();
    assert!(told.starts_with(&format!("{}-", stamp + slop)), "{told}");

    git::run(&repository, &["config", "receive.certNonceSlop", "60"]);
    let variables = push(&server, &repository, "refs/heads/b", &nonce);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
    assert_eq!(value(&variables, "_NONCE").unwrap(), nonce);
    assert_eq!(value(&variables, "_NONCE_SLOP"), None);

    let forged = nonce.replace(&stamp.to_string(), &(stamp + 1).to_string());
    let variables = push(&server, &repository, "refs/heads/c", &forged);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "BAD");
}

#[test]
fn servers_that_share_the_seed_know_each_others_nonces_and_those_of_git() {
    let (server, repository) = server();
    git::run(&repository, &["config", "receive.certNonceSlop", "60"]);
    let other = Server::open();
    let beside = other.init("x.git");
    ask_for_signatures(&beside);
    let variables = push(&server, &repository, "refs/heads/a", &nonce(&other));
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
    // As http-backend calls it.
    let arguments = ["receive-pack", "--stateless-rpc", "--advertise-refs", "."];
    let of_git = nonce_in(&git::run(&repository, &arguments).replace('\0', " "));
    let variables = push(&server, &repository, "refs/heads/b", &of_git);
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
    assert_eq!(value(&variables, "_NONCE").unwrap(), of_git);
}

#[test]
fn a_repository_without_a_seed_advertises_nothing_and_tells_nothing_of_a_nonce() {
    let (server, repository) = server();
    git::run(&repository, &["config", "--unset", "receive.certNonceSeed"]);
    let body = Request::discovery("/x.git").send(&server).body;
    assert!(!String::from_utf8_lossy(&body).contains("push-cert"));
    let variables = push(&server, &repository, "refs/heads/a", "1-a");
    assert!(variables.iter().all(|line| !line.contains("NONCE")), "{variables:?}");
}

#[test]
fn stock_git_pushes_signed_over_http() {
    let (server, repository) = server();
    git::run(&repository, &["config", "receive.certNonceSlop", "60"]);
    let scratch = tempfile::tempdir().unwrap();
    let Some(key) = signing::ssh_key(scratch.path(), "key") else { return };
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(repository.join("signers"), format!("somebody {public}")).unwrap();
    git::run(&repository, &["config", "gpg.ssh.allowedSignersFile", "signers"]);
    git::run(scratch.path(), &["init", "-q", "-b", "main", "work"]);
    let work = scratch.path().join("work");
    git::run(&work, &["commit", "-q", "--allow-empty", "-m", "x"]);
    let signing_key = format!("user.signingKey={}", key.display());
    let url = server.url("x.git");
    let signed = ["-c", "gpg.format=ssh", "-c", &signing_key, "push", "-q", "--signed", &url];
    git::run(&work, &[&signed[..], &["HEAD"]].concat());
    let (variables, _) = told(&repository, "post-receive").unwrap();
    assert_eq!(value(&variables, "_STATUS").unwrap(), "G");
    assert_eq!(value(&variables, "_SIGNER").unwrap(), "somebody");
    assert_eq!(value(&variables, "_NONCE_STATUS").unwrap(), "OK");
}
