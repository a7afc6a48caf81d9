//! The hash that a client speaks against the one that the repository has.

use super::*;

fn in_sha256(lines: &[&[u8]]) -> Result<(Request, usize), RequestError> {
    let parser = RequestParser::new(&offered(HashKind::Sha256), &Limits::default());
    run(parser, [&packets(lines)[..]]).0
}

fn unsupported(name: &str) -> RequestFault {
    RequestFault::UnsupportedObjectFormat(UnsupportedObjectFormat { name: name.into() })
}

#[test]
fn a_client_that_names_the_repositorys_hash_is_served() {
    let id = "3".repeat(64);
    let line = command(&id, &"0".repeat(64), "r\0object-format=sha256");
    let (request, _) = in_sha256(&[&line, b""]).unwrap();
    let Request::Push(push) = request else { panic!("{request:?}") };
    assert_eq!(push.commands[0].old.kind(), HashKind::Sha256);
    assert!(!push.expects_pack, "64 zeroes are null");
}

#[test]
fn a_client_that_names_none_speaks_sha1() {
    let id = "3".repeat(64);
    for rest in ["r\0report-status", "r"] {
        let error = in_sha256(&[&command(&id, &id, rest), b""]).unwrap_err();
        assert_eq!(error.fault, unsupported("sha1"));
        assert_eq!(error.to_string(), "unsupported object format 'sha1'");
    }
    let error = in_sha256(&[&command(OLD, NEW, "r\0report-status"), b""]).unwrap_err();
    assert_eq!(error.fault, unsupported("sha1"), "rather than about its ids");
}

#[test]
fn another_hash_is_refused_by_name() {
    for name in ["sha256", "sha512", ""] {
        let line = command(OLD, NEW, &format!("r\0object-format={name} quiet"));
        assert_eq!(fault(&packets(&[&line, b""])), unsupported(name));
    }
    let second = packets(&[
        &command(OLD, NEW, "r\0object-format=sha1"),
        &command(OLD, NEW, "s\0object-format=sha256"),
    ]);
    assert_eq!(fault(&second), unsupported("sha256"));
}

#[test]
fn short_ids_are_foreign_in_a_sha256_repository() {
    let line = command(OLD, NEW, "r\0object-format=sha256");
    let error = in_sha256(&[&line, b""]).unwrap_err();
    assert!(error.to_string().contains("expected object ids of 64 hex digits (sha256)"), "{error}");
}
