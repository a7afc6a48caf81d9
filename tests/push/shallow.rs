//! Shallow clones push to a real server.

use super::work::Work;
use crate::http::server::Server;
use crate::support::git;

/// A work tree with a line of commits, pushed to `main` of a repository.
fn line(server: &Server, repository: &str, commits: usize) -> Work {
    let work = Work::with_commit(server, repository);
    for number in 1..commits {
        work.commit("file", format!("{number}"));
    }
    work.git(&["push", "-q", "origin", "main"]);
    work
}

/// A clone of one commit that pushes to `url`.
fn shallow_clone(of: &str, url: &str) -> Work {
    let work = Work::new(url);
    work.git(&["fetch", "-q", "--depth=1", of, "main"]);
    work.git(&["checkout", "-q", "-b", "main", "FETCH_HEAD"]);
    work
}

#[test]
fn a_shallow_clone_pushes_back_and_the_history_stays_whole() {
    let server = Server::start();
    let full = line(&server, "x.git", 4);
    let url = server.url("x.git");
    let shallow = shallow_clone(&url, &url);
    // The server goes on, so that the clone's border is no ref's value any more.
    full.commit("file", "on\n");
    full.git(&["push", "-q", "origin", "main"]);
    shallow.commit("side", "side\n");
    shallow.git(&["push", "-q", "origin", "main:refs/heads/side"]);
    let repository = server.path("x.git");
    assert_eq!(git::run(&repository, &["rev-list", "--count", "side"]), "5");
    assert!(!repository.join("shallow").exists());
    git::assert_sound(&repository);
}

#[test]
fn a_foreign_border_is_refused_by_a_repository_that_the_push_would_make() {
    let server = Server::start();
    line(&server, "x.git", 3);
    let shallow = shallow_clone(&server.url("x.git"), &server.url("new.git"));
    let text = shallow.failing(&["push", "-q", "origin", "main"]);
    assert!(text.contains("(shallow update not allowed)"), "{text}");
    assert!(!server.path("new.git").exists());
}

#[test]
fn borders_that_come_at_the_same_time_are_all_kept_and_told_to_the_next() {
    let server = Server::start();
    let target = server.init("t.git");
    git::run(&target, &["config", "receive.shallowUpdate", "true"]);
    let clones: Vec<Work> = (0..6)
        .map(|number| {
            let name = format!("x{number}.git");
            let full = line(&server, &name, 3);
            full.commit("name", &name);
            full.git(&["push", "-q", "origin", "main"]);
            shallow_clone(&server.url(&name), &server.url("t.git"))
        })
        .collect();
    std::thread::scope(|scope| {
        for (number, clone) in clones.iter().enumerate() {
            let refspec = format!("main:refs/heads/b{number}");
            scope.spawn(move || clone.git(&["push", "-q", "origin", &refspec]));
        }
    });
    let lines = std::fs::read_to_string(target.join("shallow")).unwrap();
    assert_eq!(lines.lines().count(), clones.len());
    assert_eq!(git::refs(&target).lines().count(), clones.len());
    git::assert_sound(&target);
    // Whoever has the whole history, or only the border, builds on it.
    let full = Work::new(&server.url("t.git"));
    full.git(&["fetch", "-q", &server.url("x0.git"), "main"]);
    full.git(&["checkout", "-q", "-b", "main", "FETCH_HEAD"]);
    full.commit("more", "more\n");
    full.git(&["push", "-q", "origin", "main:refs/heads/b0"]);
    clones[1].commit("more", "more\n");
    clones[1].git(&["push", "-q", "origin", "main:refs/heads/b1"]);
    for name in ["b0", "b1"] {
        assert_eq!(git::run(&target, &["rev-list", "--count", name]), "2");
    }
    git::assert_sound(&target);
}
