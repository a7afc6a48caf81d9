//! Passwords of every scheme, tokens, slow answers to guesses, and files that change: as a client
//! meets them.

use super::raw::{Request, Response};
use super::server::Server;
use crate::support::git;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Hashes of "secret" by `htpasswd -B`, `openssl passwd -5`, `-6` and `-apr1`, and by argon2.
const USERS: &str = "\
bea:$2y$04$Xjars77x0BiPYHQ7wu1W8uED/vSQUcbHWBWgO6NtBf0uri5IunYHq
sha:$5$abcdefgh$gruCpC7VkOTspMQTTSAR8mtlO9Upms.fwqE5y16JVM.
sue:$6$abcdefgh$ltjgWl6579NluT/Vi1nwEvcil.G5Nbc4NiXZaNGStk8PSwGfQv72N2CKPPrVACtLtip/cZ/1GM/O6IND4WQhG.
abe:$apr1$r31abcde$SZEN.U5sWGGNcv9YsUrqI.
";

fn discovery() -> Request {
    Request::discovery("/x.git")
}

fn fetch(repository: &str) -> Request {
    Request::get(format!("/{repository}/info/refs?service=git-upload-pack"))
}

fn assert_challenged(response: &Response) {
    response.assert_refused(401);
    assert_eq!(response.header("www-authenticate"), "Basic realm=\"packhouse\"");
}

/// `packhouse token` with these words, in the server's directory.
fn token(directory: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_packhouse"));
    git::isolate(&mut command);
    command.arg("token").args(words).arg("--tokens=tokens").current_dir(directory);
    command.stdin(Stdio::null()).output().unwrap()
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}

fn with_tokens() -> Server {
    let server = Server::prepared(
        |directory| fs::write(directory.join("tokens"), "# nothing yet\n").unwrap(),
        &["--tokens=tokens", "--create-on-push=yes"],
    );
    server.init("x.git");
    server
}

#[test]
fn passwords_of_every_scheme_open_the_door() {
    let write = |directory: &Path| fs::write(directory.join("users"), USERS).unwrap();
    let server = Server::prepared(write, &["--htpasswd=users"]);
    server.init("x.git");
    assert!(server.log().contains("apr1"), "{}", server.log());
    for user in ["bea", "sha", "sue", "abe"] {
        assert_eq!(discovery().user(user, "secret").send(&server).status, 200, "{user}");
        assert_challenged(&discovery().user(user, "Secret").send(&server));
    }
}

#[test]
fn hashes_of_htpasswd_itself_open_the_door() {
    for flags in [&["-B", "-C", "4"][..], &["-m"], &["-2"], &["-5"]] {
        let made =
            Command::new("htpasswd").args(["-nb"]).args(flags).args(["ann", "Grün 7!"]).output();
        // Without the program, or with one that does not know the scheme, there is nothing to try.
        let Ok(made) = made else { return };
        if !made.status.success() {
            continue;
        }
        let write = |directory: &Path| fs::write(directory.join("users"), &made.stdout).unwrap();
        let server = Server::prepared(write, &["--htpasswd=users"]);
        server.init("x.git");
        assert_eq!(discovery().user("ann", "Grün 7!").send(&server).status, 200, "{flags:?}");
    }
}

#[test]
fn a_broken_password_file_keeps_the_old_one_and_the_log_says_so() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    let users = server.directory().join("users");
    fs::write(&users, "ann:plain\n").unwrap();
    let log = server.hang_up("going on with what was read before");
    assert!(log.contains("line 1: the password of user 'ann' is of scheme"), "{log}");
    assert_eq!(discovery().user("ann", "secret").send(&server).status, 200);
    let hash = bcrypt::hash("new", 4).unwrap();
    fs::write(&users, format!("ann:{hash}\n")).unwrap();
    server.hang_up("read anew");
    assert_eq!(discovery().user("ann", "new").send(&server).status, 200);
    assert_challenged(&discovery().user("ann", "secret").send(&server));
}

#[test]
fn a_token_is_shown_once_and_works_as_bearer_and_as_password() {
    let server = with_tokens();
    let directory = server.directory();
    let secret = text(&token(directory, &["create", "ann", "--id", "ci"]));
    assert!(secret.starts_with("pht_") && !secret.contains('\n'), "{secret}");
    let file = fs::read_to_string(directory.join("tokens")).unwrap();
    assert!(file.starts_with("# nothing yet\nci ann write 2") && !file.contains(&secret), "{file}");
    server.hang_up("token file");
    let bearer = format!("Bearer {secret}");
    assert_eq!(discovery().header("Authorization", &bearer).send(&server).status, 200);
    assert_eq!(discovery().user("ann", &secret).send(&server).status, 200);
    assert_eq!(discovery().user("x-token", &secret).send(&server).status, 200);
    assert_challenged(&discovery().send(&server));
    assert_challenged(&discovery().user("ann", "secret").send(&server));
    assert_challenged(&discovery().header("Authorization", "Bearer pht_x").send(&server));
    let list = text(&token(directory, &["list"]));
    assert!(list.starts_with("ci\tann\twrite\t2") && list.ends_with("\t**"), "{list}");
    assert!(!server.log().contains(&secret));

    text(&token(directory, &["revoke", "ci"]));
    server.hang_up("token file");
    assert_challenged(&discovery().user("ann", &secret).send(&server));
    assert!(!token(directory, &["revoke", "ci"]).status.success());
}

#[test]
fn a_token_goes_no_further_than_its_scope_its_repositories_and_its_end() {
    let server = with_tokens();
    server.init("web/site.git");
    let make =
        |words: &[&str]| text(&token(server.directory(), &[&["create", "ann"], words].concat()));
    let reads = make(&["--scope=read"]);
    let of_web = make(&["--repository=web/*"]);
    let creates = make(&["--scope=create"]);
    let over = make(&["--expires=2001-01-01"]);
    server.hang_up("token file");

    assert_eq!(fetch("x.git").user("ann", &reads).send(&server).status, 200);
    let refused = discovery().user("ann", &reads).send(&server);
    refused.assert_refused(403);
    assert!(refused.text().contains("is of scope read and may not push"), "{}", refused.text());

    let of_site = |name: &str| Request::discovery(name).user("ann", &of_web).send(&server).status;
    assert_eq!((of_site("/web/site.git"), of_site("/web/site")), (200, 200));
    for hidden in ["/x.git", "/none.git"] {
        Request::discovery(hidden).user("ann", &of_web).send(&server).assert_refused(404);
    }
    Request::discovery("/web/new.git").user("ann", &of_web).send(&server).assert_refused(404);
    let new = Request::discovery("/web/new.git").user("ann", &creates).send(&server);
    assert_eq!(new.status, 200);

    assert_challenged(&discovery().user("ann", &over).send(&server));
    server.wait_for_log("token has expired");
    let list = text(&token(server.directory(), &["list"]));
    assert_eq!(list.matches("(expired)").count(), 1, "{list}");
}

#[test]
fn the_token_file_is_private_from_the_start_and_a_broken_one_is_not_written_over() {
    use std::os::unix::fs::PermissionsExt as _;
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("tokens");
    text(&token(directory.path(), &["create", "ann"]));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(&path, "nonsense\n").unwrap();
    let output = token(directory.path(), &["create", "ann"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && error.contains("line 1: 1 words"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "nonsense\n");
}

#[test]
fn guesses_are_slowed_and_then_sent_away_and_others_are_not_concerned() {
    let server =
        Server::with_users(&[("ann", "secret"), ("bob", "other")], &["--trust-forwarded-for=yes"]);
    server.init("x.git");
    let guess = || discovery().user("ann", "wrong").header("X-Forwarded-For", "192.0.2.7");
    let begun = Instant::now();
    // As many at once as anybody likes: they get one turn after the other.
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let guesses: Vec<_> =
            (0..40).map(|_| scope.spawn(|| guess().send(&server).status)).collect();
        guesses.into_iter().map(|guess| guess.join().unwrap()).collect()
    });
    let more: Vec<u16> = std::thread::scope(|scope| {
        let guesses: Vec<_> =
            (0..12).map(|_| scope.spawn(|| guess().send(&server).status)).collect();
        guesses.into_iter().map(|guess| guess.join().unwrap()).collect()
    });
    assert!(statuses.iter().chain(&more).all(|status| [401, 429].contains(status)));
    assert!(more.contains(&429), "{statuses:?} {more:?}");
    assert!(begun.elapsed() > Duration::from_secs(2));
    let elsewhere = Instant::now();
    let other = discovery().user("ann", "secret").header("X-Forwarded-For", "192.0.2.8");
    assert_eq!(other.send(&server).status, 200);
    assert!(elsewhere.elapsed() < Duration::from_secs(2));
    // The good password is not locked out where the guesses come from.
    let deadline = Instant::now() + Duration::from_secs(30);
    let good = discovery().user("bob", "other").header("X-Forwarded-For", "192.0.2.7");
    while good.send(&server).status != 200 {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(200));
    }
}

#[test]
fn an_address_is_taken_from_a_proxy_only_where_that_was_said() {
    for (flags, address) in [
        (&["--trust-forwarded-for=yes"][..], "192.0.2.7"),
        (&["--trust-forwarded-for=no"], "127.0.0.1"),
        (&[], "127.0.0.1"),
    ] {
        let server = Server::with_users(&[("ann", "secret")], flags);
        let wrong = discovery().user("ann", "wrong");
        assert_challenged(&wrong.header("X-Forwarded-For", "8.8.8.8, 192.0.2.7").send(&server));
        let log = server.wait_for_log("wrong credentials");
        assert!(log.contains(&format!("address=\"{address}\"")), "{log}");
    }
}

#[test]
fn lfs_is_absent_and_never_a_reason_to_forget_a_good_password() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    for path in ["/x.git/info/lfs/locks/verify", "/x.git/info/lfs/objects/batch"] {
        let request = Request::new("POST", path).body("{}").user("ann", "secret");
        let response = request.send(&server);
        assert_eq!(response.status, 404);
        assert_eq!(response.header("content-type"), "application/vnd.git-lfs+json");
    }
}

#[test]
fn a_client_that_waits_for_leave_to_send_is_told_401_first() {
    let server = Server::with_users(&[("ann", "secret")], &[]);
    server.init("x.git");
    let mut connection = super::raw::Connection::open(&server);
    let head = format!(
        "POST /x.git/git-receive-pack HTTP/1.1\r\nHost: {}\r\nContent-Type: {}\r\nExpect: \
         100-continue\r\nContent-Length: 3000000\r\n\r\n",
        server.address(),
        super::raw::PUSH_TYPE
    );
    connection.write(head.as_bytes()).unwrap();
    assert_eq!(connection.response(false).status, 401);
}
