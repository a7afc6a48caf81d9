//! The environment of one request: what hooks and `git upload-pack` see.
//!
//! Guarantees that nothing a client sends becomes a variable except its user name, its address and
//! a checked `GIT_PROTOCOL`, and that variables by which git would be led to another repository
//! are not handed on from whoever started the server.

use crate::repo::{Environment, LOCAL_VARIABLES};
use std::ffi::OsString;
use std::net::IpAddr;

/// The server's own environment, fit to be handed on.
#[derive(Clone, Debug)]
pub(super) struct BaseEnvironment(Environment);

/// What a request adds.
#[derive(Clone, Debug)]
pub(super) struct Requester {
    /// The user, if known.
    pub(super) user: Option<String>,
    /// The address of the client, or of the proxy that hides it.
    pub(super) address: IpAddr,
    /// A checked `Git-Protocol` header.
    pub(super) git_protocol: Option<OsString>,
}

impl BaseEnvironment {
    /// Takes away what belongs to one repository, one request or this server.
    pub(super) fn new(process: Environment) -> Self {
        let mut environment = process;
        let own: Vec<OsString> = environment
            .iter()
            .map(|(name, _)| name)
            .filter(|name| {
                name.as_encoded_bytes().starts_with(b"PACKHOUSE_")
                    || not_handed_on().any(|other| *name == other)
            })
            .map(ToOwned::to_owned)
            .collect();
        for name in own {
            environment.remove(name);
        }
        Self(environment)
    }

    /// The environment of one request.
    ///
    /// As git http-backend has it: `REMOTE_USER`, `REMOTE_ADDR`, and a committer for the reflog,
    /// `<user> <user@http.address>`, where the server's own environment names none.
    pub(super) fn of(&self, requester: &Requester) -> Environment {
        let mut environment = self.0.clone();
        let address = requester.address.to_canonical().to_string();
        let user = requester.user.as_deref().unwrap_or("anonymous");
        if environment.var("GIT_COMMITTER_NAME").is_none() {
            environment.set("GIT_COMMITTER_NAME", user);
        }
        if environment.var("GIT_COMMITTER_EMAIL").is_none() {
            environment.set("GIT_COMMITTER_EMAIL", format!("{user}@http.{address}"));
        }
        if let Some(user) = &requester.user {
            environment.set("REMOTE_USER", user);
        }
        environment.set("REMOTE_ADDR", address);
        if let Some(value) = &requester.git_protocol {
            environment.set("GIT_PROTOCOL", value);
        }
        environment
    }
}

/// The variables of a request.
const OF_A_REQUEST: [&str; 4] =
    ["GIT_PROTOCOL", "GIT_QUARANTINE_PATH", "REMOTE_ADDR", "REMOTE_USER"];

/// What is not handed on from whoever started the server.
fn not_handed_on() -> impl Iterator<Item = &'static str> {
    LOCAL_VARIABLES.into_iter().chain(OF_A_REQUEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(process: &[(&str, &str)], user: Option<&str>, protocol: Option<&str>) -> Environment {
        let base = BaseEnvironment::new(process.iter().copied().collect());
        base.of(&Requester {
            user: user.map(str::to_owned),
            address: "::ffff:192.0.2.1".parse().unwrap(),
            git_protocol: protocol.map(OsString::from),
        })
    }

    #[test]
    fn a_user_is_named_as_git_http_backend_does() {
        let expected = [
            ("GIT_COMMITTER_EMAIL", "ann@http.192.0.2.1"),
            ("GIT_COMMITTER_NAME", "ann"),
            ("GIT_PROTOCOL", "version=1"),
            ("PATH", "/bin"),
            ("REMOTE_ADDR", "192.0.2.1"),
            ("REMOTE_USER", "ann"),
        ];
        let environment = of(&[("PATH", "/bin")], Some("ann"), Some("version=1"));
        assert_eq!(environment, expected.into_iter().collect());
    }

    #[test]
    fn nobody_is_anonymous_in_the_reflog_and_no_remote_user() {
        let environment = of(&[], None, None);
        assert_eq!(environment.var("GIT_COMMITTER_NAME").unwrap(), "anonymous");
        let email = environment.var("GIT_COMMITTER_EMAIL").unwrap();
        assert_eq!(email, "anonymous@http.192.0.2.1");
        assert_eq!(environment.var("REMOTE_USER"), None);
        assert_eq!(environment.var("GIT_PROTOCOL"), None);
    }

    #[test]
    fn the_servers_own_committer_stands() {
        let own = [("GIT_COMMITTER_NAME", "Server"), ("GIT_COMMITTER_EMAIL", "s@x")];
        let environment = of(&own, Some("ann"), None);
        assert_eq!(environment.var("GIT_COMMITTER_NAME").unwrap(), "Server");
        assert_eq!(environment.var("GIT_COMMITTER_EMAIL").unwrap(), "s@x");
    }

    #[test]
    fn leftovers_of_another_repository_or_request_are_not_handed_on() {
        let mut process: Vec<_> = not_handed_on().map(|name| (name, "left")).collect();
        process.push(("PACKHOUSE_HTPASSWD", "left"));
        process.push(("GIT_CONFIG_GLOBAL", "/etc/gitconfig"));
        let environment = of(&process, None, None);
        let left: Vec<_> = environment.iter().filter(|(_, value)| *value == "left").collect();
        assert!(left.is_empty(), "{left:?}");
        assert!(environment.var("GIT_CONFIG_GLOBAL").is_some());
    }
}
