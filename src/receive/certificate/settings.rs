//! What a repository's configuration says of signed pushes and of signatures (git-config(1)).

use super::nonce::{Issuer, NonceTerms};
use crate::model::HashKind;
use crate::repo::{ConfigError, GitConfig};
use crate::wire::SignatureFormat;
use bstr::{BStr, BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Whether signed pushes are asked for, and what is thought of a nonce.
#[derive(Clone, Debug, Default)]
pub(in crate::receive) struct CertificateSettings {
    /// `receive.certNonceSeed`, the secret of the nonces; without it none is advertised.
    seed: Option<BString>,
    /// `receive.certNonceSlop`.
    slop_seconds_max: u64,
}

/// Which programs check signatures, and by what they know the signers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SignatureSettings {
    /// `gpg.openpgp.program`, which `gpg.program` is another name of.
    pub(super) openpgp_program: OsString,
    /// `gpg.x509.program`.
    pub(super) x509_program: OsString,
    /// `gpg.ssh.program`.
    pub(super) ssh_program: OsString,
    /// `gpg.ssh.allowedSignersFile`; relative to the git directory.
    pub(super) allowed_signers: Option<PathBuf>,
    /// `gpg.ssh.revocationFile`; relative to the git directory.
    pub(super) revocations: Option<PathBuf>,
}

/// Why the settings of signatures cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsError {
    /// The configuration.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A word that means nothing.
    #[error("invalid value for '{key}': '{value}'")]
    Word {
        /// The key.
        key: &'static str,
        /// The word.
        value: BString,
    },
}

impl CertificateSettings {
    pub(in crate::receive) fn read(config: &GitConfig) -> Result<Self, ConfigError> {
        Ok(Self {
            seed: config.string("receive.certnonceseed")?.map(BString::from),
            slop_seconds_max: config.unsigned("receive.certnonceslop")?.unwrap_or(0),
        })
    }

    /// The nonce to advertise.
    pub(in crate::receive) fn nonce(&self, hash: HashKind, terms: &NonceTerms) -> Option<String> {
        self.issuer(hash, terms).map(|issuer| issuer.issue())
    }

    pub(super) fn issuer<'a>(
        &'a self,
        hash: HashKind,
        terms: &'a NonceTerms,
    ) -> Option<Issuer<'a>> {
        let seed = self.seed.as_ref()?;
        Some(Issuer { hash, seed, terms, slop_seconds_max: self.slop_seconds_max })
    }
}

impl SignatureSettings {
    /// Reads the settings. `gpg.format` and `gpg.minTrustLevel` must be words that git knows, as git
    /// insists, and change nothing: a signature is taken for what its armour says, and hooks are
    /// told the letter for it whatever its key is trusted with.
    pub(super) fn read(config: &GitConfig) -> Result<Self, SettingsError> {
        let format = config.string("gpg.format")?;
        known("gpg.format", format, |word| FORMATS.contains(&word))?;
        let level = config.string("gpg.mintrustlevel")?;
        known("gpg.mintrustlevel", level, |word| {
            TRUST_LEVELS.iter().any(|known| word.eq_ignore_ascii_case(known))
        })?;
        let program = |keys: &[&str], default: &str| {
            let values = config.values_in_order(keys)?;
            let last = values.last().map(|(_, value)| OsStr::from_bytes(value).to_owned());
            Ok::<_, ConfigError>(last.unwrap_or_else(|| default.into()))
        };
        Ok(Self {
            openpgp_program: program(&["gpg.program", "gpg.openpgp.program"], "gpg")?,
            x509_program: program(&["gpg.x509.program"], "gpgsm")?,
            ssh_program: program(&["gpg.ssh.program"], "ssh-keygen")?,
            allowed_signers: config.path("gpg.ssh.allowedsignersfile")?,
            revocations: config.path("gpg.ssh.revocationfile")?,
        })
    }

    /// The program for signatures of this form.
    pub(super) fn program(&self, format: SignatureFormat) -> &OsStr {
        match format {
            SignatureFormat::OpenPgp => &self.openpgp_program,
            SignatureFormat::Ssh => &self.ssh_program,
            SignatureFormat::X509 => &self.x509_program,
        }
    }
}

fn known(
    key: &'static str,
    value: Option<&BStr>,
    is_known: impl Fn(&[u8]) -> bool,
) -> Result<(), SettingsError> {
    match value {
        Some(value) if !is_known(value.as_bytes()) => {
            Err(SettingsError::Word { key, value: value.to_owned() })
        }
        _ => Ok(()),
    }
}

const FORMATS: [&[u8]; 3] = [b"openpgp", b"x509", b"ssh"];

/// The levels of trust in a key that `gpg` tells of.
pub(super) const TRUST_LEVELS: [&[u8]; 5] =
    [b"UNDEFINED", b"NEVER", b"MARGINAL", b"FULLY", b"ULTIMATE"];

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<SignatureSettings, String> {
        let config = GitConfig::from_text(text.as_bytes()).unwrap();
        SignatureSettings::read(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn programs_are_those_of_git_unless_named() {
        let settings = read("").unwrap();
        assert_eq!(settings.program(SignatureFormat::OpenPgp), "gpg");
        assert_eq!(settings.program(SignatureFormat::X509), "gpgsm");
        assert_eq!(settings.program(SignatureFormat::Ssh), "ssh-keygen");
        assert_eq!((settings.allowed_signers, settings.revocations), (None, None));
        let text = "[gpg]\nprogram=a\n[gpg \"x509\"]\nprogram=b\n[gpg \"ssh\"]\nprogram=c\n\
            allowedSignersFile=d\nrevocationFile=/e\n";
        let settings = read(text).unwrap();
        assert_eq!(settings.program(SignatureFormat::OpenPgp), "a");
        assert_eq!(settings.program(SignatureFormat::X509), "b");
        assert_eq!(settings.program(SignatureFormat::Ssh), "c");
        assert_eq!(settings.allowed_signers, Some("d".into()));
        assert_eq!(settings.revocations, Some("/e".into()));
    }

    #[test]
    fn both_names_of_the_openpgp_program_are_one_setting() {
        let general = "[gpg]\nprogram=a\n";
        let own = "[gpg \"openpgp\"]\nprogram=b\n";
        let program = |text: &str| read(text).unwrap().openpgp_program;
        assert_eq!(program(&format!("{general}{own}")), "b");
        assert_eq!(program(&format!("{own}{general}")), "a");
    }

    #[test]
    fn words_that_git_does_not_know_are_refused() {
        for good in ["format=ssh", "format=x509", "minTrustLevel=Fully", "minTrustLevel=NEVER"] {
            assert!(read(&format!("[gpg]\n{good}\n")).is_ok(), "{good}");
        }
        for (bad, words) in [
            ("format=SSH", "invalid value for 'gpg.format': 'SSH'"),
            ("minTrustLevel=some", "invalid value for 'gpg.mintrustlevel': 'some'"),
            ("format", "missing value for 'gpg.format'"),
            ("program", "missing value for 'gpg.program'"),
        ] {
            let error = read(&format!("[gpg]\n{bad}\n")).unwrap_err();
            assert!(error.starts_with(words), "{error}");
        }
    }

    #[test]
    fn a_seed_makes_nonces_even_if_it_is_empty() {
        let terms = NonceTerms { directory: ".".into(), stamp: 1, is_stateless: true };
        let nonce = |text: &str| {
            let config = GitConfig::from_text(text.as_bytes()).unwrap();
            CertificateSettings::read(&config).unwrap().nonce(HashKind::Sha1, &terms)
        };
        assert_eq!(nonce(""), None);
        assert!(nonce("[receive]\ncertNonceSeed=\n").is_some());
        let config = GitConfig::from_text(b"[receive]\ncertNonceSlop=1k\n").unwrap();
        assert_eq!(CertificateSettings::read(&config).unwrap().slop_seconds_max, 1024);
        for bad in ["certNonceSeed", "certNonceSlop=x", "certNonceSlop=-1"] {
            let config = GitConfig::from_text(format!("[receive]\n{bad}\n").as_bytes()).unwrap();
            assert!(CertificateSettings::read(&config).is_err(), "{bad}");
        }
    }
}
