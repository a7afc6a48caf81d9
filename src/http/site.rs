//! What is served, under which rules, to how many at once; and steps 1 and 2 of a request: who
//! asks, may they, and where is the repository.

use super::engine::Engine;
use super::environment::{BaseEnvironment, Requester};
use super::headers;
use super::locate::{Located, Root, Unusable};
use super::neighbour::Neighbour;
use super::patience::Patience;
use super::push_log::{self, Subject};
use super::reply::Refusal;
use super::route::RepositoryPath;
use super::service::Service;
use super::stop::StopSignal;
use crate::access::{AccessFile, Anonymous, Caller, Decision, Origin, RefRules, Rules, Switches};
use crate::auth::{Authenticator, FollowedFile, Identity, TokenEntry};
use crate::model::PushId;
use crate::receive::Target;
use crate::report::{Fault, OVERLOADED, Phase, with_causes};
use axum::http::request::Parts;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// What all requests share.
pub(super) struct Site {
    pub(super) root: Root,
    pub(super) rules: Rules,
    pub(super) authenticator: Authenticator,
    /// Who may do what to which repository and ref; none for whatever the rules say.
    pub(super) access: Option<FollowedFile<AccessFile>>,
    pub(super) engine: Arc<dyn Engine>,
    pub(super) environment: BaseEnvironment,
    /// Permits for pushes.
    pub(super) pushes: Arc<Semaphore>,
    /// Permits for advertisements: one that does not fit the buffers on its way holds a thread
    /// until its client has read it.
    pub(super) advertisements: Arc<Semaphore>,
    /// Permits for `git upload-pack`.
    pub(super) fetches: Arc<Semaphore>,
    /// How long anybody waits for anything to move.
    pub(super) idle: Duration,
    /// Bytes of a fetch request, inflated.
    pub(super) fetch_request_bytes_max: u64,
    pub(super) stop: StopSignal,
}

/// Somebody who may go on to ask for a repository.
#[derive(Clone, Debug)]
pub(super) struct Admitted {
    pub(super) requester: Requester,
    /// The token that the user came with.
    pub(super) token: Option<Arc<TokenEntry>>,
    pub(super) caller: Caller,
    origin: Origin,
}

/// A repository that somebody may use, and how.
pub(super) struct Opened {
    pub(super) target: Target,
    /// What a push may do to which refs.
    pub(super) ref_rules: Option<RefRules>,
}

impl Site {
    /// Finds out who asks, and turns away who may not ask at all. Says the same whether a
    /// repository is there or not, and before anything of the body is read.
    pub(super) async fn admit(
        &self,
        parts: &Parts,
        peer: IpAddr,
        service: Service,
    ) -> Result<Admitted, Refusal> {
        let address = self.authenticator.client_address(&parts.headers, peer);
        let (user, token) = match self.authenticator.identify(&parts.headers, peer).await {
            Identity::User { name, token } => (Some(name), token),
            Identity::Unnamed => (None, None),
            Identity::Wrong => {
                let address = address.to_string();
                tracing::info!(target: "packhouse::auth", address, "wrong credentials");
                return Err(Refusal::Unauthenticated);
            }
            Identity::TooMany(wait) => return Err(Refusal::TooManyFailures(wait)),
        };
        // As with git http-backend, where the repositories decide, and only a proxy could know a
        // user, asking for a password is the proxy's business.
        let can_authenticate = self.authenticator.checks_credentials()
            || self.rules.anonymous != Anonymous::Repository
                && self.authenticator.can_authenticate(peer);
        let caller =
            if user.is_some() { Caller::Known } else { Caller::Unnamed { can_authenticate } };
        let origin = self.origin(parts);
        granted(self.rules.admit(caller, service.operation(), origin))?;
        let git_protocol = headers::git_protocol(&parts.headers);
        let requester = Requester { user, address, git_protocol };
        Ok(Admitted { requester, token, caller, origin })
    }

    /// Reads the files of users and rules again. Blocks.
    pub(super) fn reload(&self) {
        self.authenticator.reload();
        if let Some(access) = &self.access {
            access.reload();
        }
    }

    /// Where the request comes from. If that decides, the other end of the connection must be a
    /// process of the server's own user: a proxy need not say that it is one.
    fn origin(&self, parts: &Parts) -> Origin {
        let neighbour = parts.extensions.get::<Arc<Neighbour>>();
        let passed_on = || neighbour.is_some_and(|neighbour| !neighbour.is_ours());
        match headers::origin(parts) {
            Origin::Local if self.rules.local_only && passed_on() => Origin::Elsewhere,
            origin => origin,
        }
    }

    /// How long an answer waits for its client to read.
    pub(super) fn patience(&self) -> Patience {
        Patience::new(self.idle, self.stop.clone())
    }

    /// Asks whether the caller may, finds the repository, and asks it for its own word.
    pub(super) async fn open(
        self: &Arc<Self>,
        place: &RepositoryPath,
        service: Service,
        admitted: &Admitted,
    ) -> Result<Opened, Refusal> {
        let (site, asker, wanted) = (Arc::clone(self), admitted.clone(), place.clone());
        let environment = self.environment.of(&admitted.requester);
        let locating = spawn_blocking(move || {
            let authorized = site.authorize(&wanted, service, &asker)?;
            let located = site.root.locate(site.engine.disk(), &wanted, &environment);
            Ok((authorized, located.map_err(|error| unusable(&error))?))
        });
        let (authorized, located) = locating.await.map_err(|_| bug())??;
        let (target, switches) = match located {
            Located::Existing(repository, switches) => (Target::Existing(repository), switches),
            Located::Fresh(target) if authorized.may_create => (target, Switches::default()),
            Located::Above if authorized.may_create => return Err(Refusal::RepositoriesBelow),
            Located::Fresh(_) | Located::Above | Located::Absent => return Err(Refusal::NotFound),
        };
        let Admitted { caller, origin, .. } = admitted;
        granted(self.rules.permit(*caller, service.operation(), *origin, switches))?;
        Ok(Opened { target, ref_rules: authorized.ref_rules })
    }

    /// Waits for its turn, among as many as the server takes on at once.
    pub(super) async fn turn(&self, of: &Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Refusal> {
        let waiting = timeout(self.idle, Arc::clone(of).acquire_owned());
        match waiting.await {
            Ok(Ok(permit)) => Ok(permit),
            _ => Err(Refusal::Unavailable("too many requests at once, try again later")),
        }
    }
}

impl Admitted {
    /// How the log names the request.
    pub(super) fn subject(&self, place: &RepositoryPath) -> Subject {
        Subject {
            id: draw_push_id(),
            repository: push_log::escaped(place.as_path().as_os_str().as_bytes()),
            user: self.requester.user.clone(),
            address: self.requester.address.to_canonical().to_string(),
        }
    }
}

/// Names a request. Names need to differ, not to be secret: the standard library's hash keys are
/// random once a thread and counted up from there.
fn draw_push_id() -> PushId {
    PushId::new(RandomState::new().build_hasher().finish())
}

fn granted(decision: Decision) -> Result<(), Refusal> {
    match decision {
        Decision::Granted => Ok(()),
        Decision::Challenged => Err(Refusal::Unauthenticated),
        Decision::Denied(denial) => Err(Refusal::Denied(denial)),
    }
}

fn unusable(error: &Unusable) -> Refusal {
    let fault = error.fault();
    let cause = with_causes(error);
    tracing::warn!(cause, "repository cannot be served");
    let text = match fault {
        Fault::Unsupported => error.reason().to_string(),
        Fault::Overloaded => OVERLOADED.to_owned(),
        _ => "internal error: this repository cannot be opened".to_owned(),
    };
    Refusal::fault(fault, Phase::Discovery, text)
}

fn bug() -> Refusal {
    Refusal::fault(Fault::Internal, Phase::Discovery, "internal error".to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::TestSite;
    use super::*;
    use crate::access::Anonymous;
    use crate::receive::Verdict;
    use axum::http::Request;
    use std::net::{SocketAddr, TcpListener, TcpStream};

    fn parts(peer: SocketAddr, here: SocketAddr) -> Parts {
        let request = Request::get("/").header("host", "localhost");
        let mut parts = request.body(()).unwrap().into_parts().0;
        parts.extensions.insert(Arc::new(Neighbour::new(peer, here)));
        parts
    }

    #[tokio::test]
    async fn a_silent_proxy_is_known_by_its_user_where_that_decides() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        let here = accepted.local_addr().unwrap();
        // A socket that this user does not own, as far as the kernel tells.
        let other = SocketAddr::new(peer.ip(), peer.port() ^ 1);
        for local_only in [true, false] {
            let rules = Rules { anonymous: Anonymous::Write, create_on_push: true, local_only };
            let test = TestSite::with_rules(rules, |_| Ok(Verdict::Probe));
            assert_eq!(test.site.origin(&parts(peer, here)), Origin::Local);
            let expected = if local_only { Origin::Elsewhere } else { Origin::Local };
            assert_eq!(test.site.origin(&parts(other, here)), expected);
        }
    }
}
