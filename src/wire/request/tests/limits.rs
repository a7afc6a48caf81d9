//! Each limit at its value and one past it.

use super::*;

fn run_with(limits: &Limits, bytes: &[u8]) -> Result<(Request, usize), RequestError> {
    run(RequestParser::new(&offered(HashKind::Sha1), limits), [bytes]).0
}

fn exceeded(name: &'static str, value: u64, unit: &'static str) -> RequestFault {
    RequestFault::LimitExceeded(Limit { name, value, unit })
}

#[test]
fn commands_are_counted() {
    let limits = Limits { commands_max: 3, ..Limits::default() };
    let line = command(OLD, NEW, "r");
    assert!(run_with(&limits, &packets(&[&line, &line, &line, b""])).is_ok());
    let error = run_with(&limits, &packets(&[&line, &line, &line, &line, b""])).unwrap_err();
    assert_eq!(error.fault, exceeded("commands_max", 3, "commands"));
    assert_eq!(error.offset, u64::try_from(3 * (line.len() + 4)).unwrap());
    assert_eq!(
        error.to_string(),
        "push request goes past the limit 'commands_max' of 3 commands: push fewer refs at once"
    );
}

#[test]
fn bytes_of_commands_and_shallow_lines_are_counted_together() {
    let list = packets(&[
        format!("shallow {OLD}\n").as_bytes(),
        &command(OLD, NEW, "r\0quiet"),
        &command(OLD, NEW, "s"),
    ]);
    let bytes = [&list[..], b"0000"].concat();
    let size = u64::try_from(list.len()).unwrap();
    let at = Limits { command_bytes_max: size, ..Limits::default() };
    assert!(run_with(&at, &bytes).is_ok());
    let below = Limits { command_bytes_max: size - 1, ..Limits::default() };
    assert_eq!(
        run_with(&below, &bytes).unwrap_err().fault,
        exceeded("command_bytes_max", size - 1, "bytes")
    );
}

#[test]
fn bytes_of_push_options_are_counted_by_themselves() {
    let commands = packets(&[&command(OLD, NEW, "r\0push-options"), b""]);
    // Two packets of 4 and 9 bytes: empty options cost their digits.
    let bytes = [&commands[..], b"00040009abcde0000"].concat();
    let at = Limits { push_option_bytes_max: 13, ..Limits::default() };
    assert!(run_with(&at, &bytes).is_ok());
    let below = Limits { push_option_bytes_max: 12, ..Limits::default() };
    let (outcome, capabilities) =
        run(RequestParser::new(&offered(HashKind::Sha1), &below), [&bytes[..]]);
    assert_eq!(outcome.unwrap_err().fault, exceeded("push_option_bytes_max", 12, "bytes"));
    assert!(capabilities.is_some(), "the fault can be told to the client in its own way");
}

#[test]
fn an_endless_list_stops_at_the_limit() {
    let limits = Limits { command_bytes_max: 1 << 20, ..Limits::default() };
    let mut parser = RequestParser::new(&offered(HashKind::Sha1), &limits);
    let line = packets(&[&command(OLD, NEW, "r")]).repeat(1 << 10);
    let mut fed = 0_usize;
    let error = loop {
        match parser.feed(&line) {
            Ok(_) => fed += line.len(),
            Err(error) => break error,
        }
        assert!(fed <= 1 << 20);
    };
    assert_eq!(error.fault, exceeded("command_bytes_max", 1 << 20, "bytes"));
}

#[test]
fn endless_empty_options_stop_at_the_limit() {
    let mut bytes = packets(&[&command(OLD, NEW, "r\0push-options"), b""]);
    bytes.extend(b"0004".repeat(1 << 19));
    assert_eq!(fault(&bytes), exceeded("push_option_bytes_max", 1 << 20, "bytes"));
}
