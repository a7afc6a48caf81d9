//! Signed pushes: programs in the place of those that check signatures, and keys of the real ones.

use super::git;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A signature that nobody has made, in OpenPGP's armour.
pub const OPENPGP: &str = "-----BEGIN PGP SIGNATURE-----\n\nAAAA\n-----END PGP SIGNATURE-----\n";
/// The same in that of X.509.
pub const X509: &str = "-----BEGIN SIGNED MESSAGE-----\nAAAA\n-----END SIGNED MESSAGE-----\n";
/// The same in that of OpenSSH.
pub const SSH: &str = "-----BEGIN SSH SIGNATURE-----\nAAAA\n-----END SSH SIGNATURE-----\n";

/// What gpg says of a good signature.
pub const GOOD: &str = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 0123456789ABCDEF A U Thor <a@example.com>\n\
    [GNUPG:] TRUST_ULTIMATE 0 pgp\n";

/// The seed of [`ask_for_signatures`].
pub const SEED: &str = "sekrit";

/// Writes an executable script next to the repository's own files; gives its name as a setting
/// names it, relative to the git directory.
pub fn program(repository: &Path, name: &str, script: &str) -> String {
    let path = repository.join(name);
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    format!("./{name}")
}

/// Has the repository's OpenPGP signatures checked by a program that says this of each.
pub fn gpg_says(repository: &Path, said: &str) {
    fs::write(repository.join("said"), said).unwrap();
    let program = program(repository, "fake-gpg", "cat >/dev/null\nexec cat said");
    git::run(repository, &["config", "gpg.program", &program]);
}

/// Has the repository ask for signed pushes.
pub fn ask_for_signatures(repository: &Path) {
    git::run(repository, &["config", "receive.certNonceSeed", SEED]);
}

/// Installs a hook that writes what it is told of the certificate to a file of its name, and the
/// certificate behind it, and then does as `then` says.
pub fn telling_hook(repository: &Path, name: &str, then: &str) {
    let script = format!(
        "{{ cat >/dev/null; env | grep ^GIT_PUSH_CERT | sort; echo; \
         test -z \"$GIT_PUSH_CERT\" || git cat-file blob $GIT_PUSH_CERT; }} >{}\n{then}",
        told_file(repository, name).display()
    );
    git::hook(repository, name, &script);
}

/// What such a hook wrote: the variables and the certificate; `None` if it did not run.
pub fn told(repository: &Path, hook: &str) -> Option<(Vec<String>, String)> {
    let text = fs::read_to_string(told_file(repository, hook)).ok()?;
    let (variables, certificate) = text.split_once("\n\n").unwrap_or(("", &text));
    Some((variables.lines().map(str::to_owned).collect(), certificate.to_owned()))
}

/// The value of one of the variables.
pub fn value(variables: &[String], name: &str) -> Option<String> {
    let prefix = format!("GIT_PUSH_CERT{name}=");
    variables.iter().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

fn told_file(repository: &Path, hook: &str) -> PathBuf {
    let repository = repository.canonicalize().unwrap();
    repository.parent().unwrap().join(format!("told-{hook}"))
}

/// A key of OpenSSH's, made for the test; `None` where there is no `ssh-keygen`.
pub fn ssh_key(directory: &Path, name: &str) -> Option<PathBuf> {
    let path = directory.join(name);
    let arguments = ["-q", "-t", "ed25519", "-N", "", "-C", name, "-f"];
    let made = Command::new("ssh-keygen").args(arguments).arg(&path).stdin(Stdio::null()).status();
    made.ok()?.success().then_some(path)
}

/// An OpenPGP key of its own, in a home of its own, whose agent ends with it.
pub struct Gnupg {
    pub home: PathBuf,
}

impl Gnupg {
    /// A key of `user`, and the name to sign with; `None` where there is no `gpg`.
    pub fn with_key(home: &Path, user: &str) -> Option<Self> {
        fs::create_dir(home).unwrap();
        fs::set_permissions(home, fs::Permissions::from_mode(0o700)).unwrap();
        let gnupg = Self { home: home.to_owned() };
        let arguments = ["--batch", "--passphrase", "", "--quick-gen-key", user, "ed25519", "sign"];
        let made = gnupg.command("gpg").args(arguments).stderr(Stdio::null()).status();
        made.ok()?.success().then_some(gnupg)
    }

    /// A program that looks for its keys here.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("GNUPGHOME", &self.home).stdin(Stdio::null());
        command
    }
}

impl Drop for Gnupg {
    fn drop(&mut self) {
        drop(self.command("gpgconf").args(["--kill", "all"]).status());
    }
}
