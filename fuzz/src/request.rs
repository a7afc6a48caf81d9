//! Requests: the same for every split, and so are errors, their offsets and where the pack begins.

use packhouse::model::{HashKind, Limits};
use packhouse::wire::{Feed, Request, RequestError, RequestParser, ServerCapabilities};

pub fn run(bytes: &[u8]) {
    let low = Limits { commands_max: 2, push_option_bytes_max: 40, ..Limits::default() };
    for hash in [HashKind::Sha1, HashKind::Sha256] {
        for limits in [&Limits::default(), &low] {
            for push_options in [false, true] {
                let offered = ServerCapabilities {
                    push_options,
                    ..ServerCapabilities::new(hash, "packhouse")
                };
                let splits = super::splits(bytes);
                let expected = parse(&offered, limits, &splits[0]);
                for split in &splits[1..] {
                    assert_eq!(parse(&offered, limits, split), expected);
                }
                if let Ok((request, consumed)) = &expected {
                    assert!(*consumed <= bytes.len());
                    check(request, limits, *consumed);
                }
            }
        }
    }
}

fn check(request: &Request, limits: &Limits, consumed: usize) {
    let Request::Push(push) = request else { return };
    assert!(!push.commands.is_empty());
    assert!(push.commands.len() as u64 <= limits.commands_max);
    // Two ids in hex digits, two blanks and a line feed, or four digits of a length, are not free.
    assert!(push.commands.len() * 83 <= consumed);
    if let Some(certificate) = &push.certificate {
        assert!(certificate.text().len() <= consumed && !certificate.text().contains(&0));
        let parts = [certificate.payload(), certificate.signature()].concat();
        assert_eq!(&parts[..], certificate.text());
        let options = certificate.push_options().chain(certificate.nonce());
        options.for_each(|value| assert!(!value.contains(&b'\n')));
    }
    for option in &push.push_options {
        assert!(!option.contains(&0) && !option.contains(&b'\n'));
    }
}

type Parsed = Result<(Request, usize), RequestError>;

fn parse(offered: &ServerCapabilities, limits: &Limits, pieces: &[&[u8]]) -> Parsed {
    let mut parser = RequestParser::new(offered, limits);
    let mut total = 0;
    for piece in pieces {
        match parser.feed(piece) {
            Ok(Feed::NeedMore) => total += piece.len(),
            Ok(Feed::Complete { consumed }) => {
                total += consumed;
                break;
            }
            Err(error) => {
                assert_eq!(parser.feed(b"0000"), Err(error.clone()));
                return Err(error);
            }
        }
    }
    parser.finish().map(|request| (request, total))
}
