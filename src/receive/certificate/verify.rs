//! Has a signature checked by the program that git's configuration names.
//!
//! The programs are asked what git 2.47 asks them (`gpg-interface.c`), in the git directory and
//! with a hook's environment, so that whatever finds the keys there finds them here. All runs for
//! one push share one deadline; a signature that is not checked by then counts as one that cannot
//! be checked, which no hook should take for a good one.

use super::super::channel::Channel;
use super::openpgp;
use super::settings::SignatureSettings;
use super::signature::CheckedSignature;
use super::ssh;
use crate::hooks::{Hooks, ProgramBounds, ProgramError, ProgramOutput};
use crate::model::Limit;
use crate::repo::Disk;
use crate::wire::{PushCertificate, SignatureFormat};
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// LIMIT: bytes that a program may say of a signature.
const OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Checks the signature of one push.
#[derive(Debug)]
pub(super) struct Verifier<'a> {
    hooks: &'a Hooks,
    settings: &'a SignatureSettings,
    bounds: ProgramBounds,
    limit: Limit,
}

/// The signature in a file, where the programs want it. Removed when it is dropped.
#[derive(Debug)]
struct SignatureFile {
    disk: Disk,
    path: PathBuf,
}

/// What a program has said, up to the first NUL, where git stops reading.
#[derive(Debug, Default)]
struct Said {
    is_success: bool,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

impl<'a> Verifier<'a> {
    /// A verifier that gives up when `limit`, in seconds, has passed.
    pub(super) fn new(hooks: &'a Hooks, settings: &'a SignatureSettings, limit: Limit) -> Self {
        let now = Instant::now();
        // Longer than a clock can tell is as long as anybody likes.
        let deadline = now.checked_add(Duration::from_secs(limit.value)).unwrap_or(now + A_YEAR);
        let bounds = ProgramBounds { deadline, output_bytes_max: OUTPUT_BYTES_MAX };
        Self { hooks, settings, bounds, limit }
    }

    /// Checks the signature, which is put into a file in `directory` for that. Nothing about a
    /// signature or a program is an error; only a file that cannot be written is.
    pub(super) fn verify(
        &self,
        certificate: &PushCertificate,
        disk: &Disk,
        directory: &Path,
        channel: &mut Channel<'_>,
    ) -> io::Result<CheckedSignature> {
        if certificate.format() == SignatureFormat::Ssh && self.settings.allowed_signers.is_none() {
            say(channel, "gpg.ssh.allowedSignersFile is needed to check signatures of ssh keys");
            return Ok(CheckedSignature::default());
        }
        let file = SignatureFile::write(disk, directory, certificate.signature())?;
        let checked = match certificate.format() {
            SignatureFormat::Ssh => self.verify_ssh(certificate, &file.path, channel),
            format => self.verify_openpgp(format, certificate, &file.path, channel),
        };
        Ok(checked.unwrap_or_else(|error| {
            match error {
                ProgramError::OutOfTime { .. } => channel.error(&format!(
                    "the signature of the push certificate was not checked within the {}",
                    self.limit
                )),
                error => say(channel, &error.to_string()),
            }
            CheckedSignature::unchecked()
        }))
    }

    /// OpenPGP and X.509: both programs speak on a status descriptor.
    fn verify_openpgp(
        &self,
        format: SignatureFormat,
        certificate: &PushCertificate,
        signature: &Path,
        channel: &mut Channel<'_>,
    ) -> Result<CheckedSignature, ProgramError> {
        let key_ids = (format == SignatureFormat::OpenPgp).then_some("--keyid-format=long");
        let mut arguments: Vec<&OsStr> = key_ids.into_iter().map(OsStr::new).collect();
        arguments.extend(["--status-fd=1", "--verify"].map(OsStr::new));
        arguments.extend([signature.as_os_str(), OsStr::new("-")]);
        let said = self.run(format, &arguments, certificate.payload(), channel)?;
        Ok(openpgp::read_status(&said.stdout))
    }

    /// Looks who may have signed, and asks of each whether he has. If nobody is known by the key,
    /// the signature may be good all the same.
    fn verify_ssh(
        &self,
        certificate: &PushCertificate,
        signature: &Path,
        channel: &mut Channel<'_>,
    ) -> Result<CheckedSignature, ProgramError> {
        let signers = self.settings.allowed_signers.as_deref().unwrap_or(Path::new(""));
        let signature = signature.as_os_str();
        let run = |arguments: &[&OsStr], input: &[u8], channel: &mut Channel<'_>| {
            self.run(SignatureFormat::Ssh, arguments, input, channel)
        };
        let [y, n, f, s, git] = ["-Y", "-n", "-f", "-s", "git"].map(OsStr::new);
        let find = [y, OsStr::new("find-principals"), f, signers.as_os_str(), s, signature];
        let found = run(&find, &[], channel)?;
        if !found.is_success && found.stderr.windows(6).any(|word| word == b"usage:") {
            say(channel, "ssh-keygen of OpenSSH 8.2p1 or later is needed to check signatures");
            return Ok(CheckedSignature::default());
        }
        if !found.is_success || found.stdout.is_empty() {
            let check = [y, OsStr::new("check-novalidate"), n, git, s, signature];
            let said = run(&check, certificate.payload(), channel)?;
            return Ok(ssh::read_verdict(&said.stdout));
        }
        let revocations = self.revocations(channel);
        let mut said = Said::default();
        for principal in ssh::principals(&found.stdout) {
            let mut verify = vec![y, OsStr::new("verify"), n, git, f, signers.as_os_str()];
            verify.extend([OsStr::new("-I"), OsStr::from_bytes(principal), s, signature]);
            verify.extend(revocations.iter().flat_map(|path| [OsStr::new("-r"), path.as_os_str()]));
            said = run(&verify, certificate.payload(), channel)?;
            if said.is_success && ssh::is_taken(&said.stdout) {
                break;
            }
        }
        Ok(ssh::read_verdict(&said.stdout))
    }

    /// The file of keys that were revoked, if it is there.
    fn revocations(&self, channel: &mut Channel<'_>) -> Option<&Path> {
        let path = self.settings.revocations.as_deref()?;
        if self.hooks.is_there(path) {
            return Some(path);
        }
        let text = format!(
            "warning: ssh signing revocation file configured but not found: {}\n",
            path.display()
        );
        channel.diagnose(text.as_bytes());
        None
    }

    /// Runs the program for a form of signature. One that cannot be run has said nothing, as in git.
    fn run(
        &self,
        format: SignatureFormat,
        arguments: &[&OsStr],
        input: &[u8],
        channel: &mut Channel<'_>,
    ) -> Result<Said, ProgramError> {
        let program = self.settings.program(format);
        let ran = self.hooks.run_program(program, arguments, input, self.bounds, &mut || {
            channel.keep_alive();
        });
        match ran {
            Ok(ProgramOutput { is_success, stdout, stderr }) => {
                Ok(Said { is_success, stdout: before_nul(stdout), stderr: before_nul(stderr) })
            }
            Err(error @ ProgramError::NotRun { .. }) => {
                say(channel, &error.to_string());
                Ok(Said::default())
            }
            Err(error) => Err(error),
        }
    }
}

impl SignatureFile {
    fn write(disk: &Disk, directory: &Path, signature: &[u8]) -> io::Result<Self> {
        let mut file = disk.create_temporary(directory, "tmp_signature_", 0o600)?;
        let this = Self { disk: disk.clone(), path: file.path().to_owned() };
        file.write_all(signature)?;
        Ok(this)
    }
}

impl Drop for SignatureFile {
    fn drop(&mut self) {
        // What stays goes with its directory.
        let _ = self.disk.unlink(&self.path);
    }
}

/// Says what git says on its own standard error: it is for whoever runs the server.
fn say(channel: &mut Channel<'_>, text: &str) {
    channel.diagnose(format!("error: {text}\n").as_bytes());
}

fn before_nul(mut said: Vec<u8>) -> Vec<u8> {
    if let Some(end) = said.iter().position(|byte| *byte == b'\0') {
        said.truncate(end);
    }
    said
}

const A_YEAR: Duration = Duration::from_secs(365 * 24 * 60 * 60);
