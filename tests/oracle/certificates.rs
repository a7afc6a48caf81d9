//! Signed pushes: what hooks are told of the signature and the nonce.
//!
//! The programs that check signatures are scripts here, the same for both receivers; the real ones
//! are run in `tests/stdio/signed.rs`.

use super::Scenario;
use super::accepted::Accepted::{CertificateAlone, CertificateQuarantined, Diagnostics};
use super::observe::write_hook;
use super::scenarios::{configure, first, ordinary, scenario, second, seeded};
use crate::support::objects::{Snapshot, ZERO};
use crate::support::request::{CAPABILITIES, Request, pkt};
use crate::support::signing::{GOOD, OPENPGP, SEED, SSH, X509, gpg_says, program};
use std::path::Path;

/// The second in which [`NONCE`] was made.
pub const STAMP: &str = "1700000000";

/// What a receiver with the seed advertised then for a repository that it knew as `r.git`.
const NONCE: &str = "1700000000-4890294bc4872bd2adb7991408ed5ed360bbbde6";

pub fn all() -> Vec<Scenario> {
    [nonces(), verdicts(), ssh(), programs(), options(), surroundings(), no_certificates()]
        .into_iter()
        .flatten()
        .collect()
}

/// A repository with a program that finds every OpenPGP signature good.
fn checked(repository: &Path) {
    seeded(repository);
    gpg_says(repository, GOOD);
}

fn asking(repository: &Path) {
    checked(repository);
    configure(repository, "receive.certNonceSeed", SEED);
}

fn signed(headers: &str) -> Vec<u8> {
    ordinary().signed(headers, OPENPGP).bytes()
}

fn nonces() -> Vec<Scenario> {
    let with = |nonce: &str| {
        let headers = format!("pusher C O Mitter 1700000000 +0000\npushee r.git\n{nonce}");
        move |_: &Path| signed(&headers)
    };
    let ours = format!("nonce {NONCE}\n");
    let forged = ours.replace("1700000000-", "1700000001-");
    let asking_with_slop = |slop: &'static str| {
        move |repository: &Path| {
            asking(repository);
            configure(repository, "receive.certNonceSlop", slop);
        }
    };
    let mut scenarios = vec![
        scenario("a certificate that nobody asked for", checked, with("")),
        scenario("a nonce that nobody asked for", checked, with(&ours)),
        scenario("a certificate without a nonce", asking, with("")),
        scenario("a nonce that has aged", asking, with(&ours)),
        scenario("a nonce that may age", asking_with_slop("4000000000"), with(&ours)),
        scenario("a nonce that may age, but not so much", asking_with_slop("10"), with(&ours)),
        scenario("a nonce with other digits", asking_with_slop("4000000000"), with(&forged)),
        scenario("a seed of nothing", with_empty_seed, with(&ours)),
        scenario("two nonces", asking, with(&format!("nonce x\n{ours}"))),
        scenario("a nonce beyond the headers", asking, with(&format!("x y\n{ours}"))),
    ];
    for bad in ["", "x", "0-0", "01700000000-0", "1700000000", "1700000000-", "-1-0", "+1-0"] {
        let nonce = format!("nonce {bad}\n");
        scenarios.push(scenario(format!("the nonce '{bad}'"), asking, with(&nonce)));
    }
    scenarios
}

fn with_empty_seed(repository: &Path) {
    checked(repository);
    configure(repository, "receive.certNonceSeed", "");
}

fn verdicts() -> Vec<Scenario> {
    let line = |words: &str| format!("[GNUPG:] {words}\n");
    let cases = [
        ("bad", line("BADSIG K S T")),
        ("unchecked", line("ERRSIG K 1 10 00 1700000000 9") + &line("NO_PUBKEY K")),
        ("expired", line("EXPSIG K S T")),
        ("of an expired key", line("EXPKEYSIG K S T")),
        ("of a revoked key", line("REVKEYSIG K S T")),
        ("nothing", String::new()),
        ("no data", line("NODATA 4")),
        ("good twice", GOOD.repeat(2)),
        ("good and bad", GOOD.to_owned() + &line("BADSIG K S")),
        ("good, of no trust", line("GOODSIG K S") + &line("TRUST_NEVER")),
        ("good, of unknown trust", line("GOODSIG K S") + &line("TRUST_SOME 0")),
        ("without a signer", line("NEWSIG") + &line("GOODSIG K ")),
        ("of a signer with many words", line("GOODSIG K [GNUPG:] BADSIG x \u{e9} $HOME 'y'")),
        ("behind other words", "gpg: x\n\n".to_owned() + GOOD),
    ];
    cases
        .into_iter()
        .map(|(name, said)| {
            let prepare = move |repository: &Path| {
                asking(repository);
                gpg_says(repository, &said);
            };
            scenario(format!("a signature that is {name}"), prepare, |_| signed(""))
        })
        .collect()
}

/// A repository whose SSH signatures are checked by a script, which finds what was signed in a file:
/// of a program that does not read it git may die.
fn ssh_by(script: &'static str) -> impl Fn(&Path) {
    move |repository| {
        seeded(repository);
        let read = "test $2 = find-principals || cat >payload\n";
        let program = program(repository, "fake-ssh", &format!("{read}{script}"));
        configure(repository, "gpg.ssh.program", &program);
        configure(repository, "gpg.ssh.allowedSignersFile", "signers");
    }
}

fn ssh() -> Vec<Scenario> {
    let push = |_: &Path| ordinary().signed("", SSH).bytes();
    // Says what it was asked where a hook's words go, without the name of the file.
    let cases = [
        (
            "the second of two principals",
            "echo \"$@\" | sed 's/ -s [^ ]*//;s/  */ /g;s/ $//' >>asked\n\
             case $2 in find-principals) printf 'one two\\n\\nthree\\r\\n' ;; *)\n\
             test \"$8\" = three && test -s payload || exit 1\n\
             echo 'Good \"git\" signature for three with ED25519 key SHA256:abc' ;; esac",
        ),
        (
            "no principal",
            "echo \"$@\" | sed 's/ -s [^ ]*//;s/  */ /g;s/ $//' >>asked\n\
             test $2 = check-novalidate || exit 1\n\
             echo 'Good \"git\" signature with ED25519 key SHA256:abc'",
        ),
        ("no good word", "test $2 = verify || { echo x; exit 0; }\necho Bad; exit 1"),
        ("a good word and a bad end", "echo 'Good \"git\" signature for x with key y'; exit 1"),
        ("a word of the older programs", "echo usage: >&2; exit 1"),
        ("nothing at all", "exit 0"),
        ("another name space", "echo 'Good \"file\" signature for x with RSA key y'"),
    ];
    let mut scenarios: Vec<Scenario> = cases
        .into_iter()
        .map(|(name, script)| {
            let prepare = move |repository: &Path| {
                ssh_by(script)(repository);
                // What the program was asked is told with the rest.
                write_hook(repository, "post-update", "#!/bin/sh\ncat asked >>hook.log\n");
            };
            scenario(format!("a signature by ssh: {name}"), prepare, push)
        })
        .collect();
    for file in ["there", "absent"] {
        let prepare = move |repository: &Path| {
            ssh_by("echo \"$@\" | sed 's/ -s [^ ]*//;s/  */ /g;s/ $//' >>asked\necho a")(
                repository,
            );
            configure(repository, "gpg.ssh.revocationFile", file);
            std::fs::write(repository.join("there"), "").unwrap();
            write_hook(repository, "post-update", "#!/bin/sh\ncat asked >>hook.log\n");
        };
        scenarios.push(scenario(format!("revocations that are {file}"), prepare, push));
    }
    scenarios
}

fn programs() -> Vec<Scenario> {
    let nowhere = |key: &'static str| {
        move |repository: &Path| {
            seeded(repository);
            configure(repository, "gpg.ssh.allowedSignersFile", "signers");
            configure(repository, key, "./no-such-program");
        }
    };
    let push =
        |signature: &'static str| move |_: &Path| ordinary().signed("nonce x\n", signature).bytes();
    vec![
        scenario("no program for OpenPGP", nowhere("gpg.openpgp.program"), push(OPENPGP)),
        scenario("no program for X.509", nowhere("gpg.x509.program"), push(X509)),
        scenario("no program for SSH", nowhere("gpg.ssh.program"), push(SSH)),
        scenario("no file of signers", seeded, push(SSH)),
        scenario(
            "a signature of X.509",
            |repository| {
                let fake = format!("cat <<'E'\n{GOOD}E");
                seeded(repository);
                let program = program(repository, "fake-gpgsm", &fake);
                configure(repository, "gpg.x509.program", &program);
                configure(repository, "gpg.program", "./no-such-program");
                configure(repository, "gpg.format", "ssh");
                configure(repository, "gpg.minTrustLevel", "ultimate");
            },
            push(X509),
        ),
        scenario(
            "the last of two names of a program",
            |repository| {
                asking(repository);
                configure(repository, "gpg.openpgp.program", "./no-such-program");
            },
            push(OPENPGP),
        ),
    ]
}

fn options() -> Vec<Scenario> {
    let offering = |repository: &Path| {
        checked(repository);
        configure(repository, "receive.advertisePushOptions", "true");
    };
    let cases: [(&str, &str, &[&str]); 5] = [
        ("the same push options", "push-option a b\npush-option \n", &["a b", ""]),
        ("other push options", "push-option a\n", &["b"]),
        ("a push option that was not sent", "push-option a\n", &[]),
        ("a push option that was not signed", "", &["a"]),
        ("push options in another order", "push-option a\npush-option b\n", &["b", "a"]),
    ];
    let mut scenarios: Vec<Scenario> = cases
        .into_iter()
        .map(|(name, headers, options)| {
            scenario(format!("a certificate with {name}"), offering, move |_| {
                ordinary()
                    .capabilities(&format!("{CAPABILITIES} push-options"))
                    .options(options)
                    .signed(headers, OPENPGP)
                    .bytes()
            })
        })
        .collect();
    scenarios.push(scenario("signed push options that nobody reads", checked, |_| {
        signed("push-option a\n")
    }));
    // All but the first are refused.
    let accept = |(at, scenario): (usize, Scenario)| {
        if at == 0 { scenario } else { scenario.accepting(&[CertificateQuarantined]) }
    };
    scenarios.into_iter().enumerate().map(accept).collect()
}

fn surroundings() -> Vec<Scenario> {
    vec![
        scenario("a certificate of several commands", checked, |_| {
            Request::new()
                .command(&first().id(), &second().id(), "refs/heads/main")
                .command(ZERO, &second().id(), "refs/heads/b")
                .command(ZERO, &"1".repeat(40), "refs/heads/c")
                .signed("", OPENPGP)
                .pack(second().pack())
                .bytes()
        })
        .accepting(&[Diagnostics]),
        scenario(
            "a certificate that pre-receive reads",
            |repository| {
                checked(repository);
                let text = "#!/bin/sh\ncat >/dev/null\ngit cat-file blob $GIT_PUSH_CERT\n";
                write_hook(repository, "pre-receive", text);
            },
            |_| signed(""),
        ),
        scenario(
            "a certificate that pre-receive refuses",
            |repository| {
                checked(repository);
                write_hook(repository, "pre-receive", "#!/bin/sh\ncat >/dev/null\nexit 1\n");
            },
            |_| signed(""),
        )
        .accepting(&[CertificateQuarantined]),
        scenario("a certificate of deletions", deleting, |_| {
            Request::new()
                .command(&first().id(), ZERO, "refs/heads/main")
                .signed("", OPENPGP)
                .bytes()
        })
        .accepting(&[CertificateQuarantined]),
        scenario("a certificate of another history", checked, |_| {
            let other = Snapshot::new("other\n", &[]);
            Request::new()
                .command(ZERO, &other.id(), "refs/heads/other")
                .signed("", OPENPGP)
                .pack(other.pack())
                .bytes()
        }),
        scenario("a certificate over a plain channel", checked, |_| {
            ordinary().capabilities("report-status").signed("", OPENPGP).bytes()
        })
        .plain(),
    ]
}

fn deleting(repository: &Path) {
    checked(repository);
    configure(repository, "receive.denyDeleteCurrent", "ignore");
}

/// What git takes for a certificate and should not.
fn no_certificates() -> Vec<Scenario> {
    let replaced = |from: &'static [u8], to: &'static [u8]| {
        move |_: &Path| {
            let bytes = signed("");
            let at = bytes.windows(from.len()).position(|window| window == from).unwrap();
            [&bytes[..at], to, &bytes[at + from.len()..]].concat()
        }
    };
    let end: &[u8] = b"0012push-cert-end\n";
    vec![
        scenario("a certificate without an end", checked, replaced(end, b"")),
        scenario("an empty certificate beside commands", checked, |_| {
            let certificate =
                [pkt(b"push-cert\0report-status side-band-64k"), pkt(b"push-cert-end\n")];
            [certificate.concat(), ordinary().bytes()].concat()
        }),
        scenario("a certificate beside a command", checked, |_| {
            let bytes = signed("");
            let beside = pkt(format!("{ZERO} {} refs/heads/b", first().id()).as_bytes());
            [beside, bytes].concat()
        }),
        scenario("a certificate that nobody signed", seeded, |_| ordinary().signed("", "").bytes()),
    ]
    .into_iter()
    .map(|scenario| scenario.accepting(&[CertificateAlone]))
    .collect()
}
