//! `packhouse serve` under load.

use super::generator::{Ended, command, load_json};
use crate::http::server::Server;
use crate::support::git;
use std::fs;

fn root(server: &Server) -> String {
    server.directory().join("repos").display().to_string()
}

#[test]
fn repositories_are_made_by_push_and_everything_is_there() {
    let server = Server::start();
    let url = server.url("load-{repo}.git");
    let root = root(&server);
    let (status, run) =
        load_json(&[&url, "-n4", "--count=40", "--verify", "--root", &root, "--threads=2"]);
    assert_eq!(status, 0, "{run}");
    let verification = &run["sides"][0]["verification"];
    for (key, count) in [("commits", 40), ("repositories", 4), ("fetched", 4), ("on_disk", 4)] {
        assert_eq!(verification[key], count, "{key}: {run}");
    }
}

#[test]
fn races_on_one_branch_are_lost_retried_and_counted() {
    let server = Server::start();
    let (status, run) = load_json(&[
        &server.url("one.git"),
        "-n4",
        "--layout=one-branch",
        "--branch=main",
        "--count=40",
        "--verify",
        "--root",
        &root(&server),
    ]);
    assert_eq!(status, 0, "{run}");
    assert!(run["sides"][0]["lost_races"].as_u64().unwrap() > 0, "{run}");
    let repository = server.directory().join("repos/one.git");
    assert_eq!(git::run(&repository, &["rev-list", "--count", "main"]), "40");
}

#[test]
fn a_lost_race_takes_its_further_refs_with_it() {
    let server = Server::start();
    let mix = server.directory().join("mix.toml");
    fs::write(&mix, "[[push]]\nrefs = 3\n").unwrap();
    let (status, run) = load_json(&[
        &server.url("one.git"),
        "-n4",
        "--layout=one-branch",
        "--branch=main",
        "--count=40",
        "--mix",
        &mix.display().to_string(),
        "--verify",
    ]);
    assert_eq!(status, 0, "{run}");
    assert_eq!(run["sides"][0]["verification"]["commits"], 40, "one for each push: {run}");
}

#[test]
fn a_lock_that_stays_is_a_failure_and_not_a_race_without_end() {
    let server = Server::start();
    let repository = git::init_bare(&server.directory().join("repos/one.git"));
    fs::write(repository.join("refs/heads/main.lock"), "").unwrap();
    let url = server.url("one.git");
    let arguments = ["-n1", "--layout=one-branch", "--branch=main", "--count=1"];
    let (status, run) = load_json(&[&[url.as_str()], &arguments[..]].concat());
    assert_eq!(status, 1, "{run}");
    let side = &run["sides"][0];
    assert_eq!((&side["pushes"], &side["failures"]), (&0.into(), &1.into()), "{run}");
}

#[test]
fn a_mix_of_everything_leaves_sound_repositories() {
    let server = Server::start();
    let mix = server.directory().join("mix.toml");
    fs::write(
        &mix,
        "[[push]]\nweight = 3\nsize = [100, '8k']\n[[push]]\nthin = true\nsize = '4k'\n\
         [[push]]\nrefs = 5\natomic = true\n[[push]]\ndelete = true\n\
         [[push]]\ntexture = 'random'\nblobs = 1\nsize = '200k'\n\
         [[fetch]]\nkind = 'clone'\n[[fetch]]\nkind = 'fetch'\n[[fetch]]\nkind = 'ls-remote'\n",
    )
    .unwrap();
    let mix = mix.display().to_string();
    let (status, run) = load_json(&[
        &server.url("mixed-{repo}.git"),
        "-n2",
        "--count=80",
        "--mix",
        &mix,
        "--verify",
        "--root",
        &root(&server),
    ]);
    assert_eq!(status, 0, "{run}");
    let side = &run["sides"][0];
    assert!(side["fetch"]["count"].as_u64().unwrap() > 0, "{run}");
    assert!(side["ref_updates"].as_u64() > side["pushes"].as_u64(), "{run}");
}

#[test]
fn what_is_deleted_behind_the_servers_back_is_lost() {
    let server = Server::start();
    let root = root(&server);
    let url = server.url("x.git");
    // A hook that undoes what was acknowledged: the next push, or the verification, sees it.
    let repository = server.init("x.git");
    let hook = repository.join("hooks/post-receive");
    fs::create_dir_all(hook.parent().unwrap()).unwrap();
    fs::write(&hook, "#!/bin/sh\nwhile read o n r; do git update-ref -d $r; done\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&hook, executable).unwrap();
    let (status, run) = load_json(&[&url, "-n1", "--count=3", "--verify", "--root", &root]);
    assert_eq!(status, 1, "{run}");
    assert!(!run["sides"][0]["verification"]["lost"].as_array().unwrap().is_empty());
}

#[test]
fn users_push_with_a_password_that_no_argument_tells() {
    let server = Server::with_users(&[("me", "secret")], &["--create-on-push=yes"]);
    let url = server.url("x-{repo}.git");
    let run = |password: &str| -> Ended {
        command(&[&url, "--user=me", "--count=4", "-n2", "--verify"])
            .env("PACKHOUSE_LOAD_PASSWORD", password)
            .output()
            .unwrap()
            .into()
    };
    let ended = run("secret");
    assert_eq!(ended.status, 0, "{}{}", ended.out, ended.complaint);
    assert!(ended.out.contains("fetched with git: 2"), "{}", ended.out);
    let ended = run("wrong");
    assert_eq!(ended.status, 2);
    assert!(ended.complaint.contains("401 Unauthorized: credentials"), "{}", ended.complaint);
}

#[test]
fn prepared_repositories_need_no_server_that_makes_them() {
    let server = Server::open();
    let root = root(&server);
    let url = server.url("p-{repo}.git");
    let arguments = [&*url, "-n2", "--count=6", "--verify", "--root", &root];
    let (status, run) = load_json(&[&arguments[..], &["--prepare", &root]].concat());
    assert_eq!(status, 0, "{run}");
    assert_eq!(run["sides"][0]["verification"]["on_disk"], 2);
}

#[test]
fn certificates_are_checked_unless_told_otherwise() {
    let prepare = |directory: &std::path::Path| {
        let certificate = include_str!("../http/certificates/certificate.pem");
        fs::write(directory.join("certificate.pem"), certificate).unwrap();
        let key = include_str!("../http/certificates/key.pem");
        fs::write(directory.join("key.pem"), key).unwrap();
    };
    let server = Server::prepared(prepare, &["--tls-cert=certificate.pem", "--tls-key=key.pem"]);
    let url = server.url("t-{repo}.git");
    let certificate = server.directory().join("certificate.pem").display().to_string();
    for trust in [&["--cacert", &*certificate][..], &["--insecure"]] {
        let (status, run) = load_json(&[&[&*url, "-n2", "--count=6", "--verify"], trust].concat());
        assert_eq!(status, 0, "{run}");
        assert_eq!(run["sides"][0]["verification"]["fetched"], 2, "{run}");
    }
    let ended = super::generator::load(&[&url, "-n2", "--count=6"]);
    assert_eq!(ended.status, 2, "{}", ended.out);
    assert!(ended.complaint.contains("TLS"), "{}", ended.complaint);
}
