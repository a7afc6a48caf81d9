//! Any split of any bytes gives the same answer.

use super::*;
use crate::wire::testing::pieces;

/// What a valid request is made of.
#[derive(Clone, Debug)]
struct Parts {
    hash: HashKind,
    shallow: Vec<ObjectId>,
    commands: Vec<(ObjectId, ObjectId, Vec<u8>, bool)>,
    flags: [bool; 4],
    report_status: ReportStatusVersion,
    agent: Option<String>,
    push_options: Option<Vec<Vec<u8>>>,
    is_signed: bool,
}

fn any_id(hash: HashKind) -> impl Strategy<Value = ObjectId> {
    prop_oneof![
        1 => Just(ObjectId::null(hash)),
        3 => any::<[u8; 32]>().prop_map(move |bytes| match hash {
            HashKind::Sha256 => ObjectId::try_from(&bytes[..]).unwrap(),
            _ => ObjectId::try_from(&bytes[..20]).unwrap(),
        }),
    ]
}

fn bytes_without(separators: &'static [u8], max: usize) -> impl Strategy<Value = Vec<u8>> {
    let byte = any::<u8>().prop_filter("a separator", |byte| !separators.contains(byte));
    prop::collection::vec(byte, 0..max)
}

fn any_parts() -> impl Strategy<Value = Parts> {
    prop_oneof![Just(HashKind::Sha1), Just(HashKind::Sha256)].prop_flat_map(|hash| {
        let command = (any_id(hash), any_id(hash), bytes_without(b"\0\n", 40), any::<bool>());
        (
            prop::collection::vec(any_id(hash), 0..3),
            prop::collection::vec(command, 1..5),
            any::<[bool; 4]>(),
            prop_oneof![
                Just(ReportStatusVersion::None),
                Just(ReportStatusVersion::V1),
                Just(ReportStatusVersion::V2),
            ],
            prop::option::of("[a-z/=.0-9]{1,12}"),
            prop::option::of(prop::collection::vec(bytes_without(b"\0\n", 20), 0..4)),
            any::<bool>(),
        )
            .prop_map(
                move |(shallow, commands, flags, report_status, agent, push_options, is_signed)| {
                    Parts {
                        hash,
                        shallow,
                        commands,
                        flags,
                        report_status,
                        agent,
                        push_options,
                        is_signed,
                    }
                },
            )
    })
}

impl Parts {
    fn parser(&self) -> RequestParser {
        RequestParser::new(&offered(self.hash), &Limits::default())
    }

    fn capability_list(&self) -> String {
        let mut list = format!(" object-format={}", self.hash);
        let words = ["side-band-64k", "quiet", "atomic", "unknown-word=1"];
        for (word, _) in words.iter().zip(self.flags).filter(|(_, set)| *set) {
            list = format!("{list} {word}");
        }
        list.push_str(match self.report_status {
            ReportStatusVersion::None => "",
            ReportStatusVersion::V1 => " report-status",
            ReportStatusVersion::V2 => " report-status-v2 report-status",
        });
        if let Some(agent) = &self.agent {
            list = format!("{list} agent={agent}");
        }
        if self.push_options.is_some() {
            list.push_str(" push-options");
        }
        list
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for id in &self.shallow {
            encode_data(&mut out, &[format!("shallow {id}").as_bytes()]).unwrap();
        }
        let list = self.capability_list();
        if self.is_signed {
            encode_data(&mut out, &[b"push-cert\0", list.as_bytes()]).unwrap();
            for line in self.certificate().split_inclusive(|byte| *byte == b'\n') {
                encode_data(&mut out, &[line]).unwrap();
            }
            encode_data(&mut out, &[b"push-cert-end\n"]).unwrap();
        }
        for (index, (old, new, name, line_feed)) in self.commands.iter().enumerate() {
            if self.is_signed {
                break;
            }
            let ids = format!("{old} {new} ");
            let mut parts = vec![ids.as_bytes(), name];
            if index == 0 {
                parts.extend([&b"\0"[..], list.as_bytes()]);
            }
            if *line_feed {
                parts.push(b"\n");
            }
            encode_data(&mut out, &parts).unwrap();
        }
        encode_flush(&mut out);
        if let Some(options) = &self.push_options {
            for option in options {
                encode_data(&mut out, &[option]).unwrap();
            }
            encode_flush(&mut out);
        }
        out
    }

    fn certificate(&self) -> Vec<u8> {
        let mut text = b"certificate version 0.1\nnonce 1-a\n".to_vec();
        for option in self.push_options.iter().flatten() {
            text.extend([b"push-option ", &option[..], b"\n"].concat());
        }
        text.push(b'\n');
        for (old, new, name, _) in &self.commands {
            text.extend(format!("{old} {new} ").into_bytes());
            text.extend([name, &b"\n"[..]].concat());
        }
        text.extend(b"-----BEGIN SSH SIGNATURE-----\n");
        text
    }

    fn expected(&self) -> PushRequest {
        let [side_band_64k, quiet, atomic, _] = self.flags;
        PushRequest {
            shallow: self.shallow.clone(),
            commands: self
                .commands
                .iter()
                .map(|(old, new, name, _)| Command::new(*old, *new, name.clone()))
                .collect(),
            certificate: self
                .is_signed
                .then(|| PushCertificate::parse(self.certificate()).unwrap()),
            capabilities: ClientCapabilities {
                report_status: self.report_status,
                side_band_64k,
                quiet,
                atomic,
                push_options: self.push_options.is_some(),
                object_format: self.hash,
                session_id: None,
                agent: self.agent.clone().map(Into::into),
            },
            push_options: self
                .push_options
                .iter()
                .flatten()
                .map(|option| option.clone().into())
                .collect(),
            expects_pack: self.commands.iter().any(|(_, new, ..)| !new.is_null()),
        }
    }
}

#[derive(Clone, Debug)]
enum Mutation {
    Delete(usize),
    Insert(usize, u8),
    Replace(usize, u8),
    Splice(usize, Vec<u8>),
    Truncate(usize),
}

fn any_mutation() -> impl Strategy<Value = Mutation> {
    let byte = || prop_oneof![any::<u8>(), prop::sample::select(b"0123456789af \0\n".to_vec())];
    let snippet = prop::sample::select(vec![
        b"0000".to_vec(),
        b"0001".to_vec(),
        b"0003".to_vec(),
        b"0004".to_vec(),
        b"fff1".to_vec(),
        b"000dpush-cert".to_vec(),
        b"000cshallow ".to_vec(),
    ]);
    prop_oneof![
        any::<usize>().prop_map(Mutation::Delete),
        (any::<usize>(), byte()).prop_map(|(at, byte)| Mutation::Insert(at, byte)),
        (any::<usize>(), byte()).prop_map(|(at, byte)| Mutation::Replace(at, byte)),
        (any::<usize>(), snippet).prop_map(|(at, bytes)| Mutation::Splice(at, bytes)),
        any::<usize>().prop_map(Mutation::Truncate),
    ]
}

fn mutate(bytes: &mut Vec<u8>, mutation: Mutation) {
    let length = bytes.len();
    let index = |at: usize| at % length.max(1);
    match mutation {
        Mutation::Insert(at, byte) => bytes.insert(index(at), byte),
        Mutation::Splice(at, snippet) => {
            bytes.splice(index(at)..index(at), snippet);
        }
        _ if length == 0 => {}
        Mutation::Delete(at) => {
            bytes.remove(index(at));
        }
        Mutation::Replace(at, byte) => bytes[index(at)] = byte,
        Mutation::Truncate(at) => bytes.truncate(index(at)),
    }
}

proptest! {
    #[test]
    fn a_valid_request_is_read_back_under_any_split_and_the_pack_is_left(
        parts in any_parts(),
        pack in prop::collection::vec(any::<u8>(), 0..20),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let request = parts.encode();
        let bytes = [&request[..], &pack].concat();
        let expected = (
            Ok((Request::Push(parts.expected()), request.len())),
            Some(parts.expected().capabilities),
        );
        prop_assert_eq!(&run(parts.parser(), [&bytes[..]]), &expected);
        prop_assert_eq!(&run(parts.parser(), bytes.chunks(1)), &expected);
        prop_assert_eq!(&run(parts.parser(), pieces(&bytes, &cuts)), &expected);
    }

    #[test]
    fn a_damaged_request_gives_the_same_answer_under_any_split(
        parts in any_parts(),
        mutations in prop::collection::vec(any_mutation(), 1..4),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let mut bytes = parts.encode();
        for mutation in mutations {
            mutate(&mut bytes, mutation);
        }
        let whole = run(parts.parser(), [&bytes[..]]);
        prop_assert_eq!(&run(parts.parser(), bytes.chunks(1)), &whole);
        prop_assert_eq!(&run(parts.parser(), pieces(&bytes, &cuts)), &whole);
        match &whole.0 {
            Ok((_, consumed)) => prop_assert!(*consumed <= bytes.len()),
            Err(error) => prop_assert!(error.offset <= bytes.len() as u64),
        }
    }

    #[test]
    fn any_bytes_give_an_answer_and_any_split_the_same(
        bytes in prop::collection::vec(any::<u8>(), 0..100),
        cuts in prop::collection::vec(any::<usize>(), 0..10),
    ) {
        let whole = run(parser(), [&bytes[..]]);
        prop_assert_eq!(&run(parser(), bytes.chunks(1)), &whole);
        prop_assert_eq!(&run(parser(), pieces(&bytes, &cuts)), &whole);
    }

    #[test]
    fn a_byte_that_is_no_digit_is_refused_at_every_place_of_an_id(
        position in 0_usize..80,
        byte in any::<u8>().prop_filter("a digit", |byte| !byte.is_ascii_hexdigit()),
    ) {
        let mut line = command(OLD, NEW, "r");
        line[position + usize::from(position >= 40)] = byte;
        let fault = fault(&packets(&[&line, b""]));
        prop_assert!(matches!(fault, RequestFault::BadCommand(_)), "{}", fault);
    }
}
