//! Step 2 of a request, with an access file or a token: whether the caller may do this to a
//! repository of this name, decided before anybody looks whether there is one.
//!
//! Guarantees that whoever may not read a repository is told the same whether it is there or not:
//! 404, or 401 as long as a password might help. Who may read it and push nothing is told so with
//! the rule, at the discovery, before a client has packed anything.

use super::reply::Refusal;
use super::route::RepositoryPath;
use super::service::Service;
use super::site::{Admitted, Site};
use crate::access::{AccessDenied, AccessFault, AccessFile, Caller, RefRules, Right, Scope};
use crate::auth::{Content, TokenEntry};
use std::path::Path;

/// Somebody who may go on to a repository.
pub(super) struct Authorized {
    /// Whether a push may make the repository.
    pub(super) may_create: bool,
    /// What a push may do to which refs.
    pub(super) ref_rules: Option<RefRules>,
}

impl Site {
    /// Decides. Blocks on the file system.
    pub(super) fn authorize(
        &self,
        place: &RepositoryPath,
        service: Service,
        admitted: &Admitted,
    ) -> Result<Authorized, Refusal> {
        let token = admitted.token.as_deref();
        if let Some(token) = token {
            bound_by_token(token, place, service)?;
        }
        let is_push = service == Service::ReceivePack;
        let may_create = is_push
            && self.rules.create_on_push
            && token.is_none_or(|token| token.grant.scope >= Scope::Create);
        let Some(access) = &self.access else {
            return Ok(Authorized { may_create, ref_rules: None });
        };
        let user = admitted.requester.user.clone();
        let rules = RefRules::new(access.current(), user, place.name());
        if rules.permit_in_repository(Right::Read).is_err() {
            return Err(admitted.challenged_or(Refusal::NotFound));
        }
        if is_push && let Err(denied) = rules.permit_in_repository(Right::Write) {
            return Err(admitted.challenged_or(Refusal::Forbidden(may_not_push(admitted, &denied))));
        }
        let may_create = may_create && rules.permit_in_repository(Right::Init).is_ok();
        Ok(Authorized { may_create, ref_rules: Some(rules) })
    }
}

impl Admitted {
    /// The refusal, or a challenge where an answer to it could help.
    fn challenged_or(&self, refusal: Refusal) -> Refusal {
        match self.caller {
            Caller::Unnamed { can_authenticate: true } => Refusal::Unauthenticated,
            _ => refusal,
        }
    }
}

fn may_not_push(admitted: &Admitted, denied: &AccessDenied) -> String {
    match &admitted.requester.user {
        Some(user) => format!("user '{user}' may push nothing here: {denied}"),
        None => format!("only known users may push here: {denied}"),
    }
}

/// Turns away whoever came with a token that is not for this. A repository that the token does not
/// reach is none that its bearer may know of.
fn bound_by_token(
    token: &TokenEntry,
    place: &RepositoryPath,
    service: Service,
) -> Result<(), Refusal> {
    if !token.grant.reaches(place.name(), &token.user) {
        return Err(Refusal::NotFound);
    }
    if !token.grant.is_for(service.operation()) {
        let (id, scope) = (&token.id, token.grant.scope);
        let text = format!("token '{id}' is of scope {scope} and may not push");
        return Err(Refusal::Forbidden(text));
    }
    Ok(())
}

impl Content for AccessFile {
    type Fault = AccessFault;
    const WHAT: &'static str = "access file";

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, (usize, AccessFault)> {
        // Where it lies is nobody's business who is refused by it.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        Self::parse(&name, bytes)
    }

    fn entries(&self) -> usize {
        self.rules().len()
    }
}
