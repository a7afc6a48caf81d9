//! The part of a signed push that is the certificate's: compared, kept, judged, told.

use super::super::ReceiveError;
use super::super::session::Session;
use super::nonce::{self, NonceJudgement, NonceStatus};
use super::settings::SignatureSettings;
use super::signature::CheckedSignature;
use super::verify::Verifier;
use crate::hooks::Hook;
use crate::ingest;
use crate::model::{ObjectId, ObjectKind, RejectReason};
use crate::repo::{LooseWriter, NewContent, NewFile, Quarantine, loose_path};
use crate::report::{Fault, Phase};
use crate::wire::PushCertificate;
use bstr::{BString, ByteSlice};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl Session<'_> {
    /// Refuses all commands if other push options were signed than were sent.
    pub(in crate::receive) fn compare_push_options(&mut self) {
        let Some(certificate) = &self.request.certificate else { return };
        if !certificate.push_options().eq(self.request.push_options.iter().map(|o| o.as_bstr())) {
            self.reject_pending(&RejectReason::InconsistentPushOptions);
        }
    }

    /// Keeps the certificate among what the push brings, has its signature checked, judges its
    /// nonce, and notes what hooks are to be told of it; all of that only if there is a hook to
    /// tell.
    pub(in crate::receive) fn judge_certificate(&mut self) -> Result<(), ReceiveError> {
        let Some(certificate) = self.request.certificate.take() else { return Ok(()) };
        if !self.is_there("pre-receive")? && !self.is_there("post-receive")? {
            return Ok(());
        }
        let id = self.keep(&certificate)?;
        let checked = self.check_signature(&certificate)?;
        self.stop_if_asked()?;
        let nonce = certificate.nonce().map(|nonce| nonce.as_bytes());
        let issuer = self.settings.certificates.issuer(self.repository.hash(), &self.nonce_terms);
        self.certificate_variables = variables(&id, checked, nonce::judge(nonce, issuer));
        Ok(())
    }

    fn is_there(&self, hook: &str) -> Result<bool, ReceiveError> {
        let found = self
            .hooks
            .find(hook)
            .map_err(|error| ReceiveError::internal(Phase::Commit, "looking for hooks", error))?;
        Ok(matches!(found, Some(Hook::Executable(_))))
    }

    /// Puts the certificate into the quarantine, as a loose blob. A push that brings no objects
    /// gets a quarantine for it.
    fn keep(&mut self, certificate: &PushCertificate) -> Result<ObjectId, ReceiveError> {
        let internal =
            |error| ReceiveError::internal(Phase::Commit, "keeping the push certificate", error);
        let text = certificate.text();
        let id =
            ingest::object_id(self.repository.hash(), ObjectKind::Blob, text).map_err(|error| {
                let text = error.to_string();
                ReceiveError::new(Fault::BadPack, Phase::Commit, text).with_source(error)
            })?;
        let quarantine = self.quarantine.get_or_insert_with(|| Quarantine::new(&self.repository));
        let is_brought = |new: &ingest::Ingested| new.objects.kind(&id).is_some();
        if self.ingested.as_ref().is_some_and(is_brought) {
            // Whoever signs it can send it, too.
            return Ok(id);
        }
        let (disk, permissions) = (self.repository.disk(), self.repository.permissions());
        let mut writer = LooseWriter::new(disk, permissions, self.repository.loose_compression());
        let bytes = writer.deflated(ObjectKind::Blob, text).map_err(internal)?;
        let name = loose_path(Path::new(""), &id);
        quarantine.adopt(NewFile { name, content: NewContent::Held(bytes) }).map_err(internal)?;
        Ok(id)
    }

    fn check_signature(
        &mut self,
        certificate: &PushCertificate,
    ) -> Result<CheckedSignature, ReceiveError> {
        let settings = SignatureSettings::read(self.repository.config()).map_err(|error| {
            ReceiveError::new(Fault::Unsupported, Phase::Commit, error.to_string())
        })?;
        let internal = |error| ReceiveError::internal(Phase::Commit, "checking a signature", error);
        let Some(quarantine) = &self.quarantine else { return Ok(CheckedSignature::default()) };
        let directory = quarantine.directory().path().map_err(internal)?;
        let hooks = self.hooks.until(&self.cancel);
        let limit = self.receiver.limits().signature_seconds();
        let verifier = Verifier::new(&hooks, &settings, limit);
        let disk = self.repository.disk();
        verifier.verify(certificate, disk, directory, &mut self.channel).map_err(internal)
    }
}

/// The variables of git-receive-pack(1). Without a seed of the repository's, hooks are told nothing
/// of a nonce.
fn variables(
    id: &ObjectId,
    checked: CheckedSignature,
    nonce: NonceJudgement,
) -> Vec<(OsString, OsString)> {
    let text = |text: Option<BString>| {
        text.map_or_else(OsString::new, |text| OsStr::from_bytes(&text).to_owned())
    };
    let mut told: Vec<(OsString, OsString)> = vec![
        ("GIT_PUSH_CERT".into(), id.to_string().into()),
        ("GIT_PUSH_CERT_SIGNER".into(), text(checked.signer)),
        ("GIT_PUSH_CERT_KEY".into(), text(checked.key)),
        ("GIT_PUSH_CERT_STATUS".into(), checked.status.letter().to_string().into()),
    ];
    let NonceJudgement { status, told: nonce } = nonce;
    let Some(nonce) = nonce else { return told };
    told.push(("GIT_PUSH_CERT_NONCE".into(), nonce.into()));
    told.push(("GIT_PUSH_CERT_NONCE_STATUS".into(), status.to_string().into()));
    if let NonceStatus::Slop(seconds) = status {
        told.push(("GIT_PUSH_CERT_NONCE_SLOP".into(), seconds.to_string().into()));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::HashKind;

    fn told(status: NonceStatus, nonce: Option<&str>) -> Vec<String> {
        let id = ObjectId::null(HashKind::Sha1);
        let nonce = NonceJudgement { status, told: nonce.map(str::to_owned) };
        let mut told: Vec<String> = variables(&id, CheckedSignature::default(), nonce)
            .into_iter()
            .map(|(name, value)| format!("{}={}", name.display(), value.display()))
            .collect();
        assert_eq!(told.remove(0), format!("GIT_PUSH_CERT={id}"));
        told
    }

    #[test]
    fn what_is_not_known_is_told_as_empty() {
        let nothing = ["GIT_PUSH_CERT_SIGNER=", "GIT_PUSH_CERT_KEY=", "GIT_PUSH_CERT_STATUS=N"];
        assert_eq!(told(NonceStatus::Unsolicited, None), nothing);
        assert_eq!(told(NonceStatus::Missing, None), nothing);
    }

    #[test]
    fn the_slop_is_told_with_its_status_alone() {
        let told = |status| told(status, Some("1-a")).split_off(3);
        let slop = ["GIT_PUSH_CERT_NONCE=1-a", "GIT_PUSH_CERT_NONCE_STATUS=SLOP"];
        assert_eq!(told(NonceStatus::Slop(-7))[..2], slop);
        assert_eq!(told(NonceStatus::Slop(-7))[2..], ["GIT_PUSH_CERT_NONCE_SLOP=-7"]);
        for (status, word) in
            [(NonceStatus::Ok, "OK"), (NonceStatus::Bad, "BAD"), (NonceStatus::Missing, "MISSING")]
        {
            let word = format!("GIT_PUSH_CERT_NONCE_STATUS={word}");
            assert_eq!(told(status), ["GIT_PUSH_CERT_NONCE=1-a".to_owned(), word]);
        }
    }
}
