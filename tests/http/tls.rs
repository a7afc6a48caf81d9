//! HTTPS, with a certificate made for the tests (`certificates/`): for localhost, valid for a
//! hundred years, its key as public as this file.

use super::server::Server;
use crate::push::work::noise;
use crate::support::git;
use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;

const CERTIFICATE: &str = include_str!("certificates/certificate.pem");
const KEY: &str = include_str!("certificates/key.pem");

fn server(flags: &[&str]) -> Server {
    let prepare = |directory: &Path| {
        fs::write(directory.join("certificate.pem"), CERTIFICATE).unwrap();
        fs::write(directory.join("key.pem"), KEY).unwrap();
    };
    Server::prepared(
        prepare,
        &[&["--tls-cert=certificate.pem", "--tls-key=key.pem"], flags].concat(),
    )
}

fn curl(server: &Server, arguments: &[&str]) -> String {
    let mut command = Command::new("curl");
    command.args(["-sS", "--cacert"]).arg(server.directory().join("certificate.pem"));
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn git_pushes_and_clones_over_https() {
    let server = server(&[]);
    let work = server.directory().join("work");
    fs::create_dir(&work).unwrap();
    git::run(&work, &["init", "-q", "-b", "main"]);
    // More than the buffer of a client, so that it is streamed.
    let noise = noise(3 << 20, 5);
    fs::write(work.join("file"), noise).unwrap();
    git::run(&work, &["add", "."]);
    git::run(&work, &["commit", "-q", "-m", "one"]);
    let ca = format!("http.sslCAInfo={}/certificate.pem", server.directory().display());
    git::run(&work, &["-c", &ca, "push", &server.url("x.git"), "main"]);
    git::run(server.directory(), &["-c", &ca, "clone", "-q", &server.url("x.git"), "copy"]);
    assert!(server.directory().join("copy/file").exists());
}

#[test]
fn http_2_and_http_1_are_both_spoken() {
    let server = server(&["--anonymous=write"]);
    server.init("x.git");
    let url = server.url("x.git/info/refs?service=git-receive-pack");
    for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
        let text = curl(&server, &[flag, "-w", "\n%{http_version} %{http_code}", &url]);
        assert!(text.contains("# service=git-receive-pack"), "{text}");
        assert!(text.ends_with(&format!("\n{version} 200")), "{text}");
    }
    let probe = server.url("x.git/git-receive-pack");
    let media_type = "Content-Type: application/x-git-receive-pack-request";
    let arguments = ["--http2", "-w", "%{http_code}", "-d", "0000", "-H", media_type, &probe];
    assert_eq!(curl(&server, &arguments), "200");
}

#[test]
fn clients_that_speak_no_tls_are_dropped_and_hold_nobody_up() {
    let server = server(&["--header-timeout=1", "--connections-max=1"]);
    let url = server.url("none.git/info/refs?service=git-upload-pack");
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"", b"\x16\x03\x01"] {
        let mut other = TcpStream::connect(server.address()).unwrap();
        other.write_all(bytes).unwrap();
        assert_eq!(curl(&server, &["-o", "/dev/null", "-w", "%{http_code}", &url]), "404");
    }
}
