//! Pushes within this process, to a receiver whose disk can be counted and recorded.

use super::answer::Answer;
use packhouse::model::{CancelToken, Dialect, Limits, PushId, UnpackLimit};
use packhouse::receive::{
    Client, NonceTerms, PacketTrace, Push, PushOutcome, Receiver, ReceiverSettings, Surplus, Target,
};
use packhouse::repo::{Disk, Environment, Repository};
use std::io;
use std::path::{Path, PathBuf};

/// A receiver.
pub struct Local {
    pub receiver: Receiver,
    pub environment: Environment,
    /// What calls off its pushes.
    pub cancel: CancelToken,
}

/// What came back to the client.
#[derive(Debug, Default)]
pub struct Heard {
    pub begun: bool,
    pub bytes: Vec<u8>,
    pub diagnosed: String,
}

impl Client for Heard {
    fn begin(&mut self) -> io::Result<()> {
        self.begun = true;
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn diagnose(&mut self, text: &[u8]) {
        self.diagnosed.push_str(&String::from_utf8_lossy(text));
    }
}

impl Local {
    pub fn new(disk: Disk) -> Self {
        Self::with_limits(disk, Limits::default())
    }

    /// As a server does, which keeps a record in `state_dir` and remembers from push to push.
    pub fn serving(disk: Disk, state_dir: &Path) -> Self {
        Self::with(disk, Limits::default(), Some(state_dir.to_owned()))
    }

    pub fn with_limits(disk: Disk, limits: Limits) -> Self {
        Self::with(disk, limits, None)
    }

    fn with(disk: Disk, limits: Limits, state_dir: Option<PathBuf>) -> Self {
        let receiver = Receiver::new(ReceiverSettings {
            disk,
            limits,
            unpack_limit: UnpackLimit::DEFAULT,
            dialect: Dialect::default(),
            agent: "packhouse/test".into(),
            state_dir,
            hooks_apart: false,
            packet_trace: PacketTrace::default(),
        })
        .unwrap();
        let mut environment = Environment::empty();
        environment.set("PATH", std::env::var_os("PATH").unwrap());
        environment.set("GIT_CONFIG_NOSYSTEM", "1");
        environment.set("GIT_CONFIG_GLOBAL", "/dev/null");
        environment.set("GIT_COMMITTER_NAME", "C O Mitter");
        environment.set("GIT_COMMITTER_EMAIL", "committer@example.com");
        environment.set("GIT_COMMITTER_DATE", "1700000000 +0000");
        Self { receiver, environment, cancel: CancelToken::new() }
    }

    /// Pushes whole bytes.
    pub fn push(&self, repository: &Path, request: &[u8]) -> (PushOutcome, Heard) {
        self.push_from(repository, &mut &*request)
    }

    /// Pushes from a reader.
    pub fn push_from(&self, repository: &Path, input: &mut dyn io::Read) -> (PushOutcome, Heard) {
        let disk = self.receiver.disk().clone();
        let repository = Repository::open_exact(&disk, repository, &self.environment).unwrap();
        let mut heard = Heard::default();
        let outcome = self.receiver.receive(Push {
            id: PushId::new(1),
            target: Target::Existing(repository),
            environment: self.environment.clone(),
            nonce_terms: NonceTerms::now(".", true),
            input,
            client: &mut heard,
            ref_rules: None,
            surplus: Surplus::Refuse,
            completes_thin_packs: true,
            cancel: self.cancel.clone(),
        });
        (outcome, heard)
    }

    /// Pushes, and every ref must be taken.
    pub fn push_ok(&self, repository: &Path, request: &[u8]) {
        let (outcome, heard) = self.push(repository, request);
        assert!(outcome.result.is_ok(), "{outcome:?} {heard:?}");
        Answer::from_bands(&heard.bytes).assert_all_ok();
    }
}
