//! fsck on receipt: what the configuration asks for, and what the pusher reads of it.
//!
//! The keys are those of git-config(1): `receive.fsckObjects`, else `transfer.fsckObjects`,
//! `receive.fsck.<msg-id>` and `receive.fsck.skipList`; `fsck.*` does not count here. The words are
//! git's, and so are the moments: a level that is none ends the request, an unknown id is warned of
//! on standard error, and what `git index-pack` would complain of is told when a pack comes.

use super::ReceiveError;
use super::session::Session;
use crate::fsck::{Fsck, FsckOptions, OverrideError};
use crate::ingest::{IngestError, Inspection};
use crate::model::{HashKind, UnpackLimit};
use crate::pack::header::PackHeader;
use crate::repo::{ConfigError, GitConfig, Repository};
use crate::report::{Fault, Phase};
use bstr::{BString, ByteSlice};
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;

/// What the configuration says of fsck on receipt.
#[derive(Clone, Debug, Default)]
pub(super) struct FsckSettings {
    is_on: bool,
    /// In the order in which they count.
    rules: Vec<Rule>,
    /// Ids that git does not have, in words for whoever looks after the server.
    pub(super) warnings: Vec<String>,
    /// A level that there is not: git ends, whether or not fsck is on.
    pub(super) fault: Option<String>,
}

#[derive(Clone, Debug)]
enum Rule {
    Level { id: String, level: String },
    SkipList { shown: BString, path: PathBuf },
}

/// LIMIT: bytes of a skip list, of some 1.5 million ids.
const SKIP_LIST_BYTES_MAX: u64 = 64 << 20;

const PREFIX: &[u8] = b"receive.fsck.";

impl FsckSettings {
    pub(super) fn read(config: &GitConfig) -> Result<Self, ConfigError> {
        let is_on = match config.boolean("receive.fsckobjects")? {
            Some(is_on) => is_on,
            None => config.boolean("transfer.fsckobjects")?.unwrap_or(false),
        };
        let mut settings = Self { is_on, ..Self::default() };
        // Only to see what is a rule; it has no meaning without the repository's hash.
        let mut scratch = FsckOptions::strict(HashKind::Sha1);
        for entry in config.iter() {
            let Some(id) = entry.key.strip_prefix(PREFIX) else { continue };
            let value = entry.string()?;
            if id == b"skiplist" {
                let path = config.expand_path(entry)?;
                settings
                    .rules
                    .extend(path.map(|path| Rule::SkipList { shown: value.into(), path }));
                continue;
            }
            let (id, level) = (id.to_str_lossy().into_owned(), value.to_str_lossy().into_owned());
            match scratch.set(&id, &level) {
                Err(error @ OverrideError::UnknownId { .. }) => {
                    settings.warnings.push(error.to_string());
                }
                Err(error @ OverrideError::UnknownLevel { .. }) => {
                    settings.fault.get_or_insert(error.to_string());
                }
                Ok(()) | Err(OverrideError::CannotDemote { .. }) => {
                    settings.rules.push(Rule::Level { id, level });
                }
            }
        }
        Ok(settings)
    }

    /// Whether there is a check.
    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// The check that is asked for; `None` if none is. The error is in git's words.
    fn check(&self, repository: &Repository) -> Result<Option<Fsck>, String> {
        if !self.is_on {
            return Ok(None);
        }
        let mut options = FsckOptions::strict(repository.hash());
        for rule in &self.rules {
            match rule {
                Rule::Level { id, level } => {
                    options.set(id, level).map_err(|error| error.to_string())?;
                }
                Rule::SkipList { shown, path } => {
                    let path = repository.git_dir().join(path);
                    let list = repository.disk().read(&path, SKIP_LIST_BYTES_MAX);
                    let list =
                        list.map_err(|_| format!("could not open object name list: {shown}"))?;
                    options.read_skip_list(&list).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(Some(Fsck::new(options)))
    }
}

impl Session<'_> {
    /// What fsck is to do with the pack that comes next in `input`, if anything. Settings that
    /// cannot be followed are told to the pusher, who has not sent a good push then.
    pub(super) fn inspection(
        &mut self,
        unpack_limit: UnpackLimit,
        input: &mut dyn Read,
    ) -> Result<Option<Arc<Inspection>>, ReceiveError> {
        let fsck = match self.settings.fsck.check(&self.repository) {
            Ok(None) => return Ok(None),
            Ok(Some(fsck)) => fsck,
            Err(text) => {
                // Which program git would have run shows in the pack.
                let mut header = [0; PackHeader::BYTES];
                let read = input.read_exact(&mut header).map_err(|error| error.to_string());
                let bad_pack = |text| ReceiveError::new(Fault::BadPack, Phase::Unpack, text);
                read.map_err(|_| bad_pack("eof before pack header was fully read".to_owned()))?;
                let header = PackHeader::decode(&header);
                let count = header.map_err(|error| bad_pack(error.to_string()))?.count;
                self.channel.message(format!("fatal: {text}\n").as_bytes());
                let ended = abnormal_exit(!unpack_limit.keeps(count.into()));
                return Err(
                    ReceiveError::new(Fault::Unsupported, Phase::Unpack, ended).with_source(text)
                );
            }
        };
        let mut shallow = self.shallow_commits()?;
        shallow.extend(self.request.shallow.iter().copied());
        Ok(Some(Arc::new(Inspection::new(fsck, shallow))))
    }

    /// Tells the pusher what was found, and why the pack is refused if that is why it is.
    pub(super) fn tell_findings(&mut self, inspection: &Inspection, error: Option<&IngestError>) {
        let findings = inspection.take_findings();
        let mut text = Vec::new();
        for finding in findings.iter() {
            if let Some(cause) = finding.cause {
                text.extend_from_slice(format!("error: {cause}\n").as_bytes());
            }
            text.extend_from_slice(&finding.line());
            text.push(b'\n');
        }
        if findings.dropped() > 0 {
            let line = format!("warning: {} more findings are not shown\n", findings.dropped());
            text.extend_from_slice(line.as_bytes());
        }
        if let Some(IngestError::Refused(refusal)) = error {
            for line in refusal.lines() {
                text.extend_from_slice(line.as_bytes());
                text.push(b'\n');
            }
        }
        if !text.is_empty() {
            self.channel.message(&text);
        }
    }
}

/// What git says of a refused pack in its report: the reasons have been told.
pub(super) fn abnormal_exit(unpacks: bool) -> &'static str {
    if unpacks { "unpack-objects abnormal exit" } else { "index-pack abnormal exit" }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsck::{FsckId, Level};

    fn settings(text: &str) -> FsckSettings {
        FsckSettings::read(&GitConfig::from_text(text.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn receive_fsck_objects_wins_over_transfer() {
        for (text, is_on) in [
            ("", false),
            ("[transfer]\nfsckObjects\n", true),
            ("[receive]\nfsckObjects=false\n[transfer]\nfsckObjects\n", false),
            ("[receive]\nfsckObjects\n[transfer]\nfsckObjects=false\n", true),
            ("[fsck]\nobjects\n[fetch]\nfsckObjects\n", false),
        ] {
            assert_eq!(settings(text).is_on, is_on, "{text}");
        }
    }

    #[test]
    fn only_the_keys_of_receive_count_and_the_last_word_on_an_id() {
        let text = "[fsck]\nmissingEmail=ignore\n[receive \"fsck\"]\nbadDate=warn\nBADDATE=error\n";
        let mut options = FsckOptions::strict(HashKind::Sha1);
        for rule in settings(text).rules {
            let Rule::Level { id, level } = rule else { panic!("{rule:?}") };
            options.set(&id, &level).unwrap();
        }
        assert_eq!(options.level(FsckId::BadDate), Level::Error);
        assert_eq!(options.level(FsckId::MissingEmail), Level::Error);
    }

    #[test]
    fn an_unknown_id_is_warned_of_and_an_unknown_level_is_a_fault_even_where_fsck_is_off() {
        let read = settings("[receive \"fsck\"]\nwhatEver=nonsense\nbadDate=info\n");
        assert_eq!(read.warnings, ["skipping unknown msg id 'whatever'"]);
        assert_eq!(read.fault.unwrap(), "Unknown fsck message type: 'info'");
        assert!(read.rules.is_empty());
        let bare = GitConfig::from_text(b"[receive \"fsck\"]\nbadDate\n").unwrap();
        let error = FsckSettings::read(&bare).unwrap_err().to_string();
        assert!(error.starts_with("missing value for 'receive.fsck.baddate'"), "{error}");
    }

    #[test]
    fn every_skip_list_is_read_and_a_home_directory_is_not_guessed() {
        let read = settings("[receive \"fsck\"]\nskipList=a\nskipList=/b\n");
        let paths: Vec<_> = read
            .rules
            .iter()
            .map(|rule| match rule {
                Rule::SkipList { path, .. } => path.display().to_string(),
                Rule::Level { .. } => String::new(),
            })
            .collect();
        assert_eq!(paths, ["a", "/b"]);
        let unknown = GitConfig::from_text(b"[receive \"fsck\"]\nskipList=~/x\n").unwrap();
        assert!(FsckSettings::read(&unknown).is_err());
    }
}
