//! What a repository's configuration says of pushes, read once for each.

use super::ReceiveError;
use super::alternate_refs::AlternateSettings;
use super::certificate::CertificateSettings;
use super::fsck::FsckSettings;
use super::maintenance::MaintenanceSettings;
use super::proc_receive_refs::ProcReceiveRefs;
use crate::access::AccessDenied;
use crate::model::{Limit, UnpackLimit};
use crate::refs::{HiddenRefs, LockTimeout, ReflogCreation};
use crate::repo::{ConfigError, GitConfig};
use crate::report::{Fault, Phase};
use bstr::{BString, ByteSlice};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

/// The keys of git-config(1) that `receive-pack` consults, with git's defaults.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of git's of that type")]
pub(super) struct PushSettings {
    pub(super) unpack_limit: UnpackLimit,
    pub(super) pack_bytes_max: Option<Limit>,
    pub(super) deny_deletes: bool,
    pub(super) deny_non_fast_forwards: bool,
    /// `receive.shallowUpdate`: whether refs may make the repository shallow.
    pub(super) takes_borders: bool,
    pub(super) deny_current_branch: Deny,
    pub(super) deny_delete_current: Deny,
    pub(super) hidden: HiddenRefs,
    pub(super) alternate_refs: AlternateSettings,
    pub(super) offers_atomic: bool,
    pub(super) offers_ofs_delta: bool,
    pub(super) offers_push_options: bool,
    pub(super) offers_session_id: bool,
    pub(super) certificates: CertificateSettings,
    pub(super) hooks_path: Option<PathBuf>,
    /// `advice.ignoredHook`: whether a hook that cannot be executed is worth a word.
    pub(super) hints_at_ignored_hooks: bool,
    pub(super) reflog: ReflogCreation,
    pub(super) ref_lock_timeout: LockTimeout,
    pub(super) packed_refs_timeout: LockTimeout,
    pub(super) reftable_lock_timeout: LockTimeout,
    pub(super) writes_reverse_index: bool,
    pub(super) threads: usize,
    pub(super) fsck: FsckSettings,
    pub(super) maintenance: MaintenanceSettings,
    /// After how much silence a client is shown that somebody is still at work.
    pub(super) keep_alive: Option<Duration>,
    /// What the repository asks for and this version does not do, in words for the client.
    pub(super) unsupported: Option<String>,
    pub(super) proc_receive_refs: ProcReceiveRefs,
    /// Refs that the pusher may move forward only, by the server's access file: with the reason.
    /// No configuration has them.
    pub(super) forward_only: HashMap<BString, AccessDenied>,
}

/// The values of `receive.denyCurrentBranch` and `receive.denyDeleteCurrent`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deny {
    /// Nothing was said: refused, with advice.
    Unset,
    /// Allowed in silence.
    Ignore,
    /// Allowed with a warning.
    Warn,
    /// Refused.
    Refuse,
    /// The work tree follows; of deletions: refused.
    UpdateInstead,
}

impl PushSettings {
    /// Reads the settings. `bare` says whether reflogs are kept by default; `server` is the unpack
    /// limit of the server for repositories that have none.
    pub(super) fn read(
        config: &GitConfig,
        bare: bool,
        server: UnpackLimit,
    ) -> Result<Self, ConfigError> {
        let flag = |key: &str, default: bool| Ok(config.boolean(key)?.unwrap_or(default));
        let hidden = config.values_in_order(&["transfer.hiderefs", "receive.hiderefs"])?;
        let timeout = |key: &str, default: i64| {
            Ok(LockTimeout::from_milliseconds(config.integer(key)?.unwrap_or(default)))
        };
        let fsck = FsckSettings::read(config)?;
        Ok(Self {
            unpack_limit: UnpackLimit::choose(
                config.integer("receive.unpacklimit")?,
                config.integer("transfer.unpacklimit")?,
                server,
            ),
            pack_bytes_max: input_limit(config)?,
            deny_deletes: flag("receive.denydeletes", false)?,
            deny_non_fast_forwards: flag("receive.denynonfastforwards", false)?,
            takes_borders: flag("receive.shallowupdate", false)?,
            deny_current_branch: Deny::read(config, "receive.denycurrentbranch")?,
            deny_delete_current: Deny::read(config, "receive.denydeletecurrent")?,
            hidden: HiddenRefs::new(hidden.iter().map(|(_, pattern)| pattern)),
            alternate_refs: AlternateSettings {
                command: config.string("core.alternaterefscommand")?.map(BString::from),
                prefixes: config
                    .string("core.alternaterefsprefixes")?
                    .map(|words| words.fields().map(BString::from).collect())
                    .unwrap_or_default(),
            },
            offers_atomic: flag("receive.advertiseatomic", true)?,
            offers_ofs_delta: flag("repack.usedeltabaseoffset", true)?,
            offers_push_options: flag("receive.advertisepushoptions", false)?,
            offers_session_id: flag("transfer.advertisesid", false)?,
            certificates: CertificateSettings::read(config)?,
            hooks_path: config.path("core.hookspath")?,
            hints_at_ignored_hooks: flag("advice.ignoredhook", true)?,
            reflog: ReflogCreation::choose(reflog(config)?, bare),
            ref_lock_timeout: timeout("core.filesreflocktimeout", 100)?,
            packed_refs_timeout: timeout("core.packedrefstimeout", 1000)?,
            // git's 100 are for one writer; all refs are under this lock.
            reftable_lock_timeout: timeout("reftable.locktimeout", 1000)?,
            writes_reverse_index: flag("pack.writereverseindex", true)?,
            threads: threads(config)?,
            unsupported: fsck.fault.clone(),
            fsck,
            maintenance: MaintenanceSettings::read(config)?,
            keep_alive: keep_alive(config)?,
            forward_only: HashMap::new(),
            proc_receive_refs: ProcReceiveRefs::new(
                config
                    .strings("receive.procreceiverefs")?
                    .into_iter()
                    .map(|value| value.as_bytes()),
            ),
        })
    }

    /// Fails if the configuration asks for something that this version does not do: half of it would
    /// be worse than none. Asked before anything is read from the client.
    pub(super) fn refuse_unsupported(&self, phase: Phase) -> Result<(), ReceiveError> {
        match &self.unsupported {
            Some(text) => Err(ReceiveError::new(Fault::Unsupported, phase, text.as_str())),
            None => Ok(()),
        }
    }
}

impl Deny {
    fn read(config: &GitConfig, key: &str) -> Result<Self, ConfigError> {
        let Some(value) = config.string(key).ok().flatten() else {
            return Ok(if config.entry(key).is_some() { Self::Refuse } else { Self::Unset });
        };
        Ok(match value.to_ascii_lowercase().as_slice() {
            b"ignore" => Self::Ignore,
            b"warn" => Self::Warn,
            b"refuse" => Self::Refuse,
            b"updateinstead" => Self::UpdateInstead,
            _ if config.boolean(key)? == Some(true) => Self::Refuse,
            _ => Self::Ignore,
        })
    }
}

/// `receive.keepAlive` in seconds; 0 or less for never.
fn keep_alive(config: &GitConfig) -> Result<Option<Duration>, ConfigError> {
    let seconds = config.integer("receive.keepalive")?.unwrap_or(5);
    Ok(u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs))
}

fn input_limit(config: &GitConfig) -> Result<Option<Limit>, ConfigError> {
    let value = config.integer("receive.maxinputsize")?.and_then(|value| u64::try_from(value).ok());
    let limit = |value| Limit { name: "receive.maxInputSize", value, unit: "bytes" };
    Ok(value.filter(|value| *value > 0).map(limit))
}

fn reflog(config: &GitConfig) -> Result<Option<ReflogCreation>, ConfigError> {
    let key = "core.logallrefupdates";
    if config.entry(key).is_none() {
        return Ok(None);
    }
    if config
        .string(key)
        .is_ok_and(|value| value.is_some_and(|v| v.eq_ignore_ascii_case(b"always")))
    {
        return Ok(Some(ReflogCreation::Always));
    }
    Ok(config.boolean(key)?.map(
        |on| {
            if on { ReflogCreation::Normal } else { ReflogCreation::Never }
        },
    ))
}

/// `pack.threads`, 0 or unset for as many as the machine has; never more than those.
fn threads(config: &GitConfig) -> Result<usize, ConfigError> {
    // The kernel is asked in a dozen calls, and the answer stays.
    static CORES: OnceLock<usize> = OnceLock::new();
    let cores = *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, usize::from));
    let wanted = config.integer("pack.threads")?.and_then(|n| usize::try_from(n).ok());
    Ok(wanted.filter(|wanted| *wanted > 0).map_or(cores, |wanted| wanted.min(cores)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> PushSettings {
        let config = GitConfig::from_text(text.as_bytes()).unwrap();
        PushSettings::read(&config, true, UnpackLimit(50)).unwrap()
    }

    #[test]
    fn receive_unpack_limit_wins_over_transfer_over_the_server() {
        assert_eq!(settings("").unpack_limit, UnpackLimit(50));
        assert_eq!(settings("[transfer]\nunpackLimit=7\n").unpack_limit, UnpackLimit(7));
        let both = "[receive]\nunpackLimit=3\n[transfer]\nunpackLimit=7\n";
        assert_eq!(settings(both).unpack_limit, UnpackLimit(3));
    }

    #[test]
    fn deny_settings_know_words_and_booleans() {
        let read = |value: &str| settings(&format!("[receive]\ndenyCurrentBranch{value}\n"));
        assert_eq!(settings("").deny_current_branch, Deny::Unset);
        assert_eq!(read("=warn").deny_current_branch, Deny::Warn);
        assert_eq!(read("=IGNORE").deny_current_branch, Deny::Ignore);
        assert_eq!(read("=false").deny_current_branch, Deny::Ignore);
        assert_eq!(read("=true").deny_current_branch, Deny::Refuse);
        assert_eq!(read("").deny_current_branch, Deny::Refuse);
        assert_eq!(read("=updateInstead").deny_current_branch, Deny::UpdateInstead);
    }

    #[test]
    fn a_size_of_zero_is_no_limit() {
        assert_eq!(settings("[receive]\nmaxInputSize=0\n").pack_bytes_max, None);
        let limit = settings("[receive]\nmaxInputSize=4k\n").pack_bytes_max.unwrap();
        assert_eq!((limit.name, limit.value), ("receive.maxInputSize", 4096));
    }

    #[test]
    fn what_is_not_done_yet_is_said() {
        assert!(settings("").unsupported.is_none());
        assert!(settings("[receive \"fsck\"]\nbadDate=no\n").unsupported.is_some());
    }

    #[test]
    fn silence_lasts_five_seconds_or_as_long_as_said() {
        let keep_alive = |text: &str| settings(text).keep_alive.map(|time| time.as_secs());
        assert_eq!(keep_alive(""), Some(5));
        assert_eq!(keep_alive("[receive]\nkeepAlive=1\n"), Some(1));
        assert_eq!(keep_alive("[receive]\nkeepAlive=0\n"), None);
        assert_eq!(keep_alive("[receive]\nkeepAlive=-1\n"), None);
    }

    #[test]
    fn reflogs_know_always() {
        let always = settings("[core]\nlogAllRefUpdates=always\n");
        assert_eq!(always.reflog, ReflogCreation::Always);
        assert_eq!(settings("[core]\nlogAllRefUpdates\n").reflog, ReflogCreation::Normal);
        assert_eq!(settings("").reflog, ReflogCreation::Never);
    }
}
