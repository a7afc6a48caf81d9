//! The settings of `packhouse serve`: flags, environment variables and a TOML file.
//!
//! Each setting has one name: `--idle-timeout` is `PACKHOUSE_IDLE_TIMEOUT` in the environment and
//! `idle_timeout` in the file (`idle-timeout` is understood too). A flag wins over the
//! environment, that over the file, and the file over the default. A key that is not known is an
//! error: it may be a misspelt rule of access. Relative paths in the file are relative to it.

use super::limits::LimitSettings;
use crate::access::Anonymous;
use crate::auth::AddressRange;
use crate::http::Bounds;
use crate::model::Dialect;
use clap::{Args, ValueEnum};
use serde::{Deserialize, Deserializer};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// One source of settings; what it does not say is `None`.
#[derive(Args, Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// Serve the repositories below this directory, which is created if it is missing
    /// [default: ./repos]
    #[arg(long, env = "PACKHOUSE_ROOT", value_name = "DIR")]
    pub(super) root: Option<PathBuf>,
    /// Listen on this address [default: 127.0.0.1:8417]
    #[arg(long, env = "PACKHOUSE_LISTEN", value_name = "ADDRESS:PORT")]
    pub(super) listen: Option<String>,
    /// Make a repository when somebody pushes to one that is not there
    #[arg(long, env = "PACKHOUSE_CREATE_ON_PUSH", value_name = "yes|no")]
    #[serde(alias = "create-on-push")]
    pub(super) create_on_push: Option<Switch>,
    /// Let those who do not say who they are do this: none, read, write, or what the repository's
    /// http.receivepack and http.uploadpack say
    #[arg(long, env = "PACKHOUSE_ANONYMOUS", value_name = "none|read|write|repository")]
    #[serde(deserialize_with = "from_text")]
    pub(super) anonymous: Option<Anonymous>,
    /// Know users by the passwords in this file (htpasswd -B makes one; bcrypt, argon2,
    /// sha256-crypt, sha512-crypt and apr1 are read)
    #[arg(long, env = "PACKHOUSE_HTPASSWD", value_name = "FILE")]
    pub(super) htpasswd: Option<PathBuf>,
    /// Know users by the tokens in this file, which `packhouse token` makes
    #[arg(long, env = "PACKHOUSE_TOKENS", value_name = "FILE")]
    pub(super) tokens: Option<PathBuf>,
    /// Let the rules of this file say who may do what to which repository and ref; see
    /// docs/ACCESS.md, and `packhouse access check`
    #[arg(long, env = "PACKHOUSE_ACCESS", value_name = "FILE")]
    pub(super) access: Option<PathBuf>,
    /// Know users by this header, if it comes from this machine or from one of the trusted
    /// proxies
    #[arg(long, env = "PACKHOUSE_TRUST_USER_HEADER", value_name = "NAME")]
    #[serde(alias = "trust-user-header")]
    pub(super) trust_user_header: Option<String>,
    /// Take the address of a client from X-Forwarded-For, if it comes from this machine or from one
    /// of the trusted proxies
    #[arg(long, env = "PACKHOUSE_TRUST_FORWARDED_FOR", value_name = "yes|no")]
    #[serde(alias = "trust-forwarded-for")]
    pub(super) trust_forwarded_for: Option<Switch>,
    /// Addresses, or ranges such as 10.0.0.0/8, of proxies that may name users and addresses
    #[arg(
        long,
        env = "PACKHOUSE_TRUSTED_PROXIES",
        value_name = "ADDRESS,...",
        value_delimiter = ','
    )]
    #[serde(alias = "trusted-proxies", deserialize_with = "from_texts")]
    pub(super) trusted_proxies: Option<Vec<AddressRange>>,
    /// Speak HTTPS with this certificate (PEM, the server's own first)
    #[arg(long, env = "PACKHOUSE_TLS_CERT", value_name = "FILE")]
    #[serde(alias = "tls-cert")]
    pub(super) tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(long, env = "PACKHOUSE_TLS_KEY", value_name = "FILE")]
    #[serde(alias = "tls-key")]
    pub(super) tls_key: Option<PathBuf>,
    /// Keep received packs of so many objects and more as packs, where a repository does not say
    /// otherwise [default: 100]
    #[arg(long, env = "PACKHOUSE_UNPACK_LIMIT", value_name = "OBJECTS")]
    #[serde(alias = "unpack-limit")]
    pub(super) unpack_limit: Option<u64>,
    /// Answer pushes in the words and with the steps of this version of git, where versions differ
    /// [default: 2.47]
    #[arg(long, env = "PACKHOUSE_DIALECT", value_name = "2.47|2.55")]
    #[serde(deserialize_with = "from_text")]
    pub(super) dialect: Option<Dialect>,
    /// What is flushed to disk before a push is acknowledged: everything, or what git flushes,
    /// for comparisons [default: full]
    #[arg(long, env = "PACKHOUSE_DURABILITY", value_enum)]
    pub(super) durability: Option<Durability>,
    /// Bounds on one push, such as pack_bytes_max=2g
    #[arg(long, env = "PACKHOUSE_LIMITS", value_name = "NAME=VALUE,...")]
    pub(super) limits: Option<LimitSettings>,
    /// Take so many pushes at once; more wait [default: 256]
    #[arg(long, env = "PACKHOUSE_PUSH_CONCURRENCY", value_name = "N")]
    #[serde(alias = "push-concurrency")]
    pub(super) push_concurrency: Option<usize>,
    /// Run so many git upload-pack at once; more wait [default: 64]
    #[arg(long, env = "PACKHOUSE_UPLOAD_PACK_CONCURRENCY", value_name = "N")]
    #[serde(alias = "upload-pack-concurrency")]
    pub(super) upload_pack_concurrency: Option<usize>,
    /// Keep so many connections open; more wait [default: 4096]
    #[arg(long, env = "PACKHOUSE_CONNECTIONS_MAX", value_name = "N")]
    #[serde(alias = "connections-max")]
    pub(super) connections_max: Option<usize>,
    /// Wait so long for the headers of a request [default: 30]
    #[arg(long, env = "PACKHOUSE_HEADER_TIMEOUT", value_name = "SECONDS")]
    #[serde(alias = "header-timeout")]
    pub(super) header_timeout: Option<u64>,
    /// Give a client up that neither sends nor reads for so long [default: 300]
    #[arg(long, env = "PACKHOUSE_IDLE_TIMEOUT", value_name = "SECONDS")]
    #[serde(alias = "idle-timeout")]
    pub(super) idle_timeout: Option<u64>,
    /// When told to stop, let running pushes go on for so long [default: 30]
    #[arg(long, env = "PACKHOUSE_SHUTDOWN_GRACE", value_name = "SECONDS")]
    #[serde(alias = "shutdown-grace")]
    pub(super) shutdown_grace: Option<u64>,
    /// The form of the log on standard error [default: text]
    #[arg(long, env = "PACKHOUSE_LOG_FORMAT", value_enum)]
    #[serde(alias = "log-format")]
    pub(super) log_format: Option<LogFormat>,
    /// What is logged, such as debug, or packhouse::push=off [default: info]
    #[arg(long, env = "PACKHOUSE_LOG_FILTER", value_name = "FILTER")]
    #[serde(alias = "log-filter")]
    pub(super) log_filter: Option<String>,
}

/// A yes or a no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Switch(pub(super) bool);

/// What is flushed before a push is acknowledged.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Durability {
    /// Everything.
    Full,
    /// What git flushes by default.
    Git,
}

/// The form of the log.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum LogFormat {
    /// Lines to be read by people.
    Text,
    /// One JSON object a line.
    Json,
}

/// A settings file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettingsFileError {
    /// It could not be read.
    #[error("cannot read settings '{}': {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// It is not TOML, or holds a key or a value that is not known; the text shows which.
    #[error("settings '{}': {source}", path.display())]
    Content { path: PathBuf, source: Box<toml::de::Error> },
}

impl Settings {
    /// Reads a TOML file.
    pub(super) fn read(path: &Path) -> Result<Self, SettingsFileError> {
        let text = fs::read_to_string(path)
            .map_err(|source| SettingsFileError::Read { path: path.to_owned(), source })?;
        let mut settings: Self = toml::from_str(&text).map_err(|source| {
            SettingsFileError::Content { path: path.to_owned(), source: Box::new(source) }
        })?;
        let directory = path.parent().unwrap_or(Path::new(""));
        let paths = [
            &mut settings.root,
            &mut settings.htpasswd,
            &mut settings.tokens,
            &mut settings.access,
            &mut settings.tls_cert,
            &mut settings.tls_key,
        ];
        for path in paths.into_iter().flatten() {
            *path = directory.join(&path);
        }
        Ok(settings)
    }

    /// These settings, and where they say nothing, those of `lower`.
    pub(super) fn or(self, lower: Self) -> Self {
        let limits = match (self.limits, lower.limits) {
            (Some(own), Some(lower)) => Some(own.or(lower)),
            (own, lower) => own.or(lower),
        };
        Self {
            root: self.root.or(lower.root),
            listen: self.listen.or(lower.listen),
            create_on_push: self.create_on_push.or(lower.create_on_push),
            anonymous: self.anonymous.or(lower.anonymous),
            htpasswd: self.htpasswd.or(lower.htpasswd),
            tokens: self.tokens.or(lower.tokens),
            access: self.access.or(lower.access),
            trust_user_header: self.trust_user_header.or(lower.trust_user_header),
            trust_forwarded_for: self.trust_forwarded_for.or(lower.trust_forwarded_for),
            trusted_proxies: self.trusted_proxies.or(lower.trusted_proxies),
            tls_cert: self.tls_cert.or(lower.tls_cert),
            tls_key: self.tls_key.or(lower.tls_key),
            unpack_limit: self.unpack_limit.or(lower.unpack_limit),
            dialect: self.dialect.or(lower.dialect),
            durability: self.durability.or(lower.durability),
            limits,
            push_concurrency: self.push_concurrency.or(lower.push_concurrency),
            upload_pack_concurrency: self.upload_pack_concurrency.or(lower.upload_pack_concurrency),
            connections_max: self.connections_max.or(lower.connections_max),
            header_timeout: self.header_timeout.or(lower.header_timeout),
            idle_timeout: self.idle_timeout.or(lower.idle_timeout),
            shutdown_grace: self.shutdown_grace.or(lower.shutdown_grace),
            log_format: self.log_format.or(lower.log_format),
            log_filter: self.log_filter.or(lower.log_filter),
        }
    }

    /// The bounds of the edge, apart from those among the limits.
    pub(super) fn bounds(&self) -> Bounds {
        let default = Bounds::default();
        let seconds = |value: Option<u64>, default| value.map_or(default, Duration::from_secs);
        let at_least_one =
            |value: Option<usize>, default| value.map_or(default, |n: usize| n.max(1));
        Bounds {
            connections_max: at_least_one(self.connections_max, default.connections_max),
            pushes_max: at_least_one(self.push_concurrency, default.pushes_max),
            fetches_max: at_least_one(self.upload_pack_concurrency, default.fetches_max),
            header_timeout: seconds(self.header_timeout, default.header_timeout),
            idle_timeout: seconds(self.idle_timeout, default.idle_timeout),
            shutdown_grace: seconds(self.shutdown_grace, default.shutdown_grace),
            ..default
        }
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        match word {
            "yes" | "true" | "on" => Ok(Self(true)),
            "no" | "false" | "off" => Ok(Self(false)),
            _ => Err(format!("'{word}' is neither yes nor no")),
        }
    }
}

impl<'de> Deserialize<'de> for Switch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected yes, no, true or false")]
        enum Word {
            Boolean(bool),
            Text(String),
        }
        match Word::deserialize(deserializer)? {
            Word::Boolean(value) => Ok(Self(value)),
            Word::Text(word) => word.parse().map_err(serde::de::Error::custom),
        }
    }
}

fn from_text<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let text = String::deserialize(deserializer)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn from_texts<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: std::fmt::Display>,
{
    let texts = Vec::<String>::deserialize(deserializer)?;
    let parsed: Result<_, _> = texts.iter().map(|text| text.parse()).collect();
    parsed.map(Some).map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{CommandFactory as _, Parser};

    #[derive(Debug, Parser)]
    struct CommandLine {
        #[command(flatten)]
        settings: Settings,
    }

    fn flags(arguments: &[&str]) -> Result<Settings, String> {
        CommandLine::try_parse_from([&["serve"], arguments].concat())
            .map(|line| line.settings)
            .map_err(|error| error.to_string())
    }

    fn file(text: &str) -> Result<Settings, String> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("packhouse.toml");
        fs::write(&path, text).unwrap();
        Settings::read(&path).map_err(|error| error.to_string())
    }

    #[test]
    fn a_flag_wins_over_the_file_and_what_neither_says_stays_open() {
        let above = flags(&["--anonymous", "read", "--unpack-limit", "7"]).unwrap();
        let below =
            file("anonymous = 'write'\nlisten = '[::1]:1'\n[limits]\nobjects_max = 5\n").unwrap();
        let merged = above.or(below);
        assert_eq!(merged.anonymous, Some(Anonymous::Read));
        assert_eq!(merged.listen.as_deref(), Some("[::1]:1"));
        assert_eq!(merged.unpack_limit, Some(7));
        assert!(merged.limits.is_some() && merged.htpasswd.is_none());
    }

    #[test]
    fn every_setting_has_the_same_name_in_all_three_places() {
        let command = CommandLine::command();
        let settings: Vec<_> = command
            .get_arguments()
            .filter_map(|argument| argument.get_long().map(|long| (argument, long)))
            .filter(|(_, long)| *long != "help")
            .collect();
        assert_eq!(settings.len(), 24);
        for (argument, long) in settings {
            let name = long.replace('-', "_");
            let variable = format!("PACKHOUSE_{}", name.to_uppercase());
            assert_eq!(argument.get_env().unwrap(), variable.as_str());
            for key in [name.as_str(), long] {
                // A value of no setting's type: the key is known if the complaint is of the value.
                let error = file(&format!("{key} = 1979-05-27\n")).unwrap_err();
                assert!(!error.contains("unknown field"), "{error}");
            }
        }
    }

    #[test]
    fn the_file_says_everything_that_flags_say() {
        let text = "
            root = '/srv/git'
            listen = '0.0.0.0:80'
            create_on_push = true
            anonymous = 'repository'
            htpasswd = 'users'
            tokens = 'tokens'
            access = 'access'
            trust_user_header = 'X-User'
            trust_forwarded_for = true
            trusted_proxies = ['10.0.0.0/8', '::1']
            tls_cert = 'c.pem'
            tls_key = 'k.pem'
            unpack_limit = 1
            dialect = '2.55'
            durability = 'git'
            push_concurrency = 2
            upload_pack_concurrency = 3
            connections_max = 4
            header_timeout = 5
            idle_timeout = 6
            shutdown_grace = 7
            log_format = 'json'
            log_filter = 'debug'
            limits = { pack_bytes_max = '2g', commands_max = 10 }
        ";
        let mut from_file = file(text).unwrap();
        for path in [
            &mut from_file.htpasswd,
            &mut from_file.tokens,
            &mut from_file.access,
            &mut from_file.tls_cert,
            &mut from_file.tls_key,
        ] {
            let path = path.as_mut().unwrap();
            assert!(path.is_absolute());
            *path = path.file_name().unwrap().into();
        }
        let from_flags = flags(&[
            "--root=/srv/git",
            "--listen=0.0.0.0:80",
            "--create-on-push=yes",
            "--anonymous=repository",
            "--htpasswd=users",
            "--tokens=tokens",
            "--access=access",
            "--trust-user-header=X-User",
            "--trust-forwarded-for=yes",
            "--trusted-proxies=10.0.0.0/8,::1",
            "--tls-cert=c.pem",
            "--tls-key=k.pem",
            "--unpack-limit=1",
            "--dialect=2.55",
            "--durability=git",
            "--push-concurrency=2",
            "--upload-pack-concurrency=3",
            "--connections-max=4",
            "--header-timeout=5",
            "--idle-timeout=6",
            "--shutdown-grace=7",
            "--log-format=json",
            "--log-filter=debug",
            "--limits=commands_max=10,pack_bytes_max=2g",
        ]);
        assert_eq!(from_flags.unwrap(), from_file);
    }

    #[test]
    fn a_wrong_key_or_value_is_shown() {
        for (text, key) in [
            ("anonymus = 'read'", "anonymus"),
            ("anonymous = 'all'", "anonymous = 'all'"),
            ("create_on_push = 'perhaps'", "create_on_push"),
            ("create_on_push = 3", "create_on_push"),
            ("unpack_limit = -1", "unpack_limit"),
            ("trusted_proxies = ['x']", "trusted_proxies"),
            ("dialect = '2.51'", "there is no dialect '2.51'; there are 2.47 and 2.55"),
            ("durability = 'some'", "durability"),
            ("[limits]\nbytes = 1", "no limit 'bytes'"),
            ("[http]\nroot = '.'", "http"),
        ] {
            let error = file(text).unwrap_err();
            assert!(error.contains(key), "{error}");
            assert!(error.starts_with("settings '"), "{error}");
        }
        for flag in [
            "--anonymous=all",
            "--create-on-push=3",
            "--trusted-proxies=x",
            "--limits=x=1",
            "--dialect=2",
        ] {
            let error = flags(&[flag]).unwrap_err();
            assert!(error.contains(flag.split('=').next().unwrap()), "{error}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Settings::read(Path::new("/nonexistent/x.toml")).unwrap_err().to_string();
        assert!(
            error.starts_with("cannot read settings '/nonexistent/x.toml': No such"),
            "{error}"
        );
    }

    #[test]
    fn nothing_can_be_bounded_to_zero_at_once() {
        let settings = flags(&["--push-concurrency=0", "--idle-timeout=9"]).unwrap();
        let bounds = settings.bounds();
        assert_eq!((bounds.pushes_max, bounds.idle_timeout), (1, Duration::from_secs(9)));
        assert_eq!(bounds.fetches_max, Bounds::default().fetches_max);
    }
}
