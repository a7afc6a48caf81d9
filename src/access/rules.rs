//! The rules of anonymous access and of creation.
//!
//! Guarantees that a repository's own `false` closes it to everybody, that its `true` lifts no
//! rule of the server except under [`Anonymous::Repository`], and that whoever is not allowed in
//! learns nothing about which repositories there are: [`Rules::admit`] decides before one is
//! looked for, [`Rules::permit`] once it was opened.

use std::fmt;
use std::str::FromStr;

/// What those who did not say who they are may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anonymous {
    /// Nothing.
    None,
    /// Fetch.
    Read,
    /// Fetch and push.
    Write,
    /// What the repository's `http.uploadpack` and `http.receivepack` say, as git-http-backend(1)
    /// reads them.
    Repository,
}

/// What a request is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read from a repository.
    Fetch,
    /// Write to it.
    Push,
}

/// Who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// Somebody whose credentials were good.
    Known,
    /// Somebody who named no one; `can_authenticate` tells whether this server would believe
    /// credentials if they came.
    Unnamed {
        /// Whether asking for credentials could lead anywhere.
        can_authenticate: bool,
    },
}

/// Where a request seems to come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// From this machine, with no proxy in between, as far as the request tells.
    Local,
    /// From anywhere.
    Elsewhere,
}

/// What a repository's own configuration says; `None` is unset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// `http.receivepack`.
    pub receive_pack: Option<bool>,
    /// `http.uploadpack`.
    pub upload_pack: Option<bool>,
}

/// Whether a request goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It does.
    Granted,
    /// It might, with credentials: HTTP's 401.
    Challenged,
    /// It does not: HTTP's 403.
    Denied(Denial),
}

/// Why a request was denied; `Display` is a text for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// Only known users may, and this server cannot tell who anybody is.
    NoAuthentication,
    /// The server is open to its own machine alone.
    NotLocal,
    /// The repository's configuration closes it to this operation.
    RepositoryClosed(Operation),
}

/// The rules that one server goes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// What the unnamed may do.
    pub anonymous: Anonymous,
    /// Whether a push to a repository that is not there makes it.
    pub create_on_push: bool,
    /// Whether what the unnamed may do holds for requests of [`Origin::Local`] only.
    pub local_only: bool,
}

/// What an operator said, and what follows from it: the input of [`Rules::decide`].
#[derive(Clone, Copy, Debug)]
pub struct Wishes {
    /// `--anonymous`, if given.
    pub anonymous: Option<Anonymous>,
    /// `--create-on-push`, if given.
    pub create_on_push: Option<bool>,
    /// Whether any way to authenticate is configured.
    pub authentication: bool,
    /// Whether the server listens on loopback addresses only.
    pub loopback: bool,
}

/// A server that would be open to the world without anybody having said so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "refusing to listen on an address that others can reach without a rule for who may push: \
     configure authentication ('htpasswd', 'tokens' or 'trust-user-header') or an 'access' file, or \
     say 'anonymous' aloud"
)]
pub struct Unprotected;

/// A word that is none of the four of [`Anonymous`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is none of none, read, write, repository")]
pub struct UnknownAnonymous(pub String);

impl Rules {
    /// The rules that follow from what the operator said.
    ///
    /// With nothing said and no authentication a server on a loopback address is open, creation
    /// included, to its own machine: that is what makes a first try work. On any other address it
    /// refuses to start. Once anything is configured, the unnamed may do nothing and nothing is
    /// created unless said.
    pub fn decide(wishes: Wishes) -> Result<Self, Unprotected> {
        let unsaid = wishes.anonymous.is_none() && !wishes.authentication;
        if unsaid && !wishes.loopback {
            return Err(Unprotected);
        }
        let anonymous = if unsaid { Anonymous::Write } else { Anonymous::None };
        Ok(Self {
            anonymous: wishes.anonymous.unwrap_or(anonymous),
            create_on_push: wishes.create_on_push.unwrap_or(unsaid),
            local_only: unsaid,
        })
    }

    /// The rules beside an access file, which decides all that they would: only a repository's own
    /// word is left to them. Whether it may make repositories at all, the operator may say.
    pub fn beside_access_file(create_on_push: Option<bool>) -> Self {
        Self {
            anonymous: Anonymous::Write,
            create_on_push: create_on_push.unwrap_or(true),
            local_only: false,
        }
    }

    /// Decides what can be decided before the repository is looked for. What is granted here goes
    /// on to [`Rules::permit`].
    pub fn admit(&self, caller: Caller, operation: Operation, origin: Origin) -> Decision {
        let Caller::Unnamed { can_authenticate } = caller else { return Decision::Granted };
        if self.local_only && origin == Origin::Elsewhere {
            return refuse(can_authenticate, Denial::NotLocal);
        }
        match (self.anonymous, operation) {
            (Anonymous::Write | Anonymous::Repository, _) | (Anonymous::Read, Operation::Fetch) => {
                Decision::Granted
            }
            (Anonymous::None, _) | (Anonymous::Read, Operation::Push) => {
                refuse(can_authenticate, Denial::NoAuthentication)
            }
        }
    }

    /// Decides with the repository's own word; a repository that is about to be made has none.
    pub fn permit(
        &self,
        caller: Caller,
        operation: Operation,
        origin: Origin,
        switches: Switches,
    ) -> Decision {
        let admitted = self.admit(caller, operation, origin);
        if admitted != Decision::Granted {
            return admitted;
        }
        let switch = match operation {
            Operation::Fetch => switches.upload_pack,
            Operation::Push => switches.receive_pack,
        };
        match (switch, caller) {
            (Some(false), _) => Decision::Denied(Denial::RepositoryClosed(operation)),
            (None, Caller::Unnamed { can_authenticate })
                if self.anonymous == Anonymous::Repository && operation == Operation::Push =>
            {
                refuse(can_authenticate, Denial::NoAuthentication)
            }
            _ => Decision::Granted,
        }
    }
}

impl FromStr for Anonymous {
    type Err = UnknownAnonymous;

    fn from_str(word: &str) -> Result<Self, UnknownAnonymous> {
        match word {
            "none" => Ok(Self::None),
            "read" => Ok(Self::Read),
            "write" => Ok(Self::Write),
            "repository" => Ok(Self::Repository),
            _ => Err(UnknownAnonymous(word.to_owned())),
        }
    }
}

impl fmt::Display for Anonymous {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "none",
            Self::Read => "read",
            Self::Write => "write",
            Self::Repository => "repository",
        })
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAuthentication => {
                "only known users may do this, and this server knows none: it was started without \
                 authentication"
            }
            Self::NotLocal => {
                "this server was started without authentication and serves its own user on its own \
                 machine only: address it as localhost, without a proxy, or configure who may push"
            }
            Self::RepositoryClosed(Operation::Push) => {
                "this repository takes no pushes over HTTP ('http.receivepack')"
            }
            Self::RepositoryClosed(Operation::Fetch) => {
                "this repository is not served over HTTP ('http.uploadpack')"
            }
        })
    }
}

/// A challenge where an answer to it could help, else a denial: a client that is told 403 never
/// asks its user for a password.
fn refuse(can_authenticate: bool, denial: Denial) -> Decision {
    if can_authenticate { Decision::Challenged } else { Decision::Denied(denial) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: Caller = Caller::Known;
    const ASKABLE: Caller = Caller::Unnamed { can_authenticate: true };
    const NOBODY: Caller = Caller::Unnamed { can_authenticate: false };
    const CLOSED_TO_PUSH: Decision = Decision::Denied(Denial::RepositoryClosed(Operation::Push));
    const CLOSED_TO_FETCH: Decision = Decision::Denied(Denial::RepositoryClosed(Operation::Fetch));
    const UNKNOWN: Decision = Decision::Denied(Denial::NoAuthentication);

    fn rules(anonymous: Anonymous) -> Rules {
        Rules { anonymous, create_on_push: false, local_only: false }
    }

    fn push(anonymous: Anonymous, caller: Caller, receive_pack: Option<bool>) -> Decision {
        // The other switch must not matter: it is set against the one that is tried.
        let switches = Switches { receive_pack, upload_pack: receive_pack.map(|open| !open) };
        rules(anonymous).permit(caller, Operation::Push, Origin::Elsewhere, switches)
    }

    fn fetch(anonymous: Anonymous, caller: Caller, upload_pack: Option<bool>) -> Decision {
        let switches = Switches { upload_pack, receive_pack: upload_pack.map(|open| !open) };
        rules(anonymous).permit(caller, Operation::Fetch, Origin::Elsewhere, switches)
    }

    #[test]
    fn the_table_of_pushes() {
        use Anonymous::{None as Nothing, Read, Repository, Write};
        use Decision::{Challenged, Granted};
        // anonymous, caller: http.receivepack unset, true, false
        let table = [
            (Nothing, KNOWN, [Granted, Granted, CLOSED_TO_PUSH]),
            (Nothing, ASKABLE, [Challenged, Challenged, Challenged]),
            (Nothing, NOBODY, [UNKNOWN, UNKNOWN, UNKNOWN]),
            (Read, KNOWN, [Granted, Granted, CLOSED_TO_PUSH]),
            (Read, ASKABLE, [Challenged, Challenged, Challenged]),
            (Read, NOBODY, [UNKNOWN, UNKNOWN, UNKNOWN]),
            (Write, KNOWN, [Granted, Granted, CLOSED_TO_PUSH]),
            (Write, ASKABLE, [Granted, Granted, CLOSED_TO_PUSH]),
            (Write, NOBODY, [Granted, Granted, CLOSED_TO_PUSH]),
            (Repository, KNOWN, [Granted, Granted, CLOSED_TO_PUSH]),
            (Repository, ASKABLE, [Challenged, Granted, CLOSED_TO_PUSH]),
            (Repository, NOBODY, [UNKNOWN, Granted, CLOSED_TO_PUSH]),
        ];
        for (anonymous, caller, [unset, open, closed]) in table {
            assert_eq!(push(anonymous, caller, None), unset, "{anonymous} {caller:?} unset");
            assert_eq!(push(anonymous, caller, Some(true)), open, "{anonymous} {caller:?} true");
            assert_eq!(
                push(anonymous, caller, Some(false)),
                closed,
                "{anonymous} {caller:?} false"
            );
        }
    }

    #[test]
    fn the_table_of_fetches() {
        use Anonymous::{None as Nothing, Read, Repository, Write};
        use Decision::{Challenged, Granted};
        // anonymous, caller: http.uploadpack unset, true, false
        let table = [
            (Nothing, KNOWN, [Granted, Granted, CLOSED_TO_FETCH]),
            (Nothing, ASKABLE, [Challenged, Challenged, Challenged]),
            (Nothing, NOBODY, [UNKNOWN, UNKNOWN, UNKNOWN]),
            (Read, KNOWN, [Granted, Granted, CLOSED_TO_FETCH]),
            (Read, ASKABLE, [Granted, Granted, CLOSED_TO_FETCH]),
            (Read, NOBODY, [Granted, Granted, CLOSED_TO_FETCH]),
            (Write, KNOWN, [Granted, Granted, CLOSED_TO_FETCH]),
            (Write, ASKABLE, [Granted, Granted, CLOSED_TO_FETCH]),
            (Write, NOBODY, [Granted, Granted, CLOSED_TO_FETCH]),
            (Repository, KNOWN, [Granted, Granted, CLOSED_TO_FETCH]),
            (Repository, ASKABLE, [Granted, Granted, CLOSED_TO_FETCH]),
            (Repository, NOBODY, [Granted, Granted, CLOSED_TO_FETCH]),
        ];
        for (anonymous, caller, [unset, open, closed]) in table {
            assert_eq!(fetch(anonymous, caller, None), unset, "{anonymous} {caller:?} unset");
            assert_eq!(fetch(anonymous, caller, Some(true)), open, "{anonymous} {caller:?} true");
            let got = fetch(anonymous, caller, Some(false));
            assert_eq!(got, closed, "{anonymous} {caller:?} false");
        }
    }

    #[test]
    fn what_is_not_admitted_is_refused_before_a_repository_is_looked_for() {
        for anonymous in [Anonymous::None, Anonymous::Read] {
            let admit = |caller| rules(anonymous).admit(caller, Operation::Push, Origin::Local);
            assert_eq!(admit(ASKABLE), Decision::Challenged);
            assert_eq!(admit(NOBODY), UNKNOWN);
            assert_eq!(admit(KNOWN), Decision::Granted);
        }
    }

    #[test]
    fn a_server_with_nothing_configured_is_open_to_its_own_machine_only() {
        let wishes =
            Wishes { anonymous: None, create_on_push: None, authentication: false, loopback: true };
        let rules = Rules::decide(wishes).unwrap();
        let open = Rules { anonymous: Anonymous::Write, create_on_push: true, local_only: true };
        assert_eq!(rules, open);
        for operation in [Operation::Fetch, Operation::Push] {
            let admit = |origin| rules.admit(NOBODY, operation, origin);
            assert_eq!(admit(Origin::Local), Decision::Granted);
            assert_eq!(admit(Origin::Elsewhere), Decision::Denied(Denial::NotLocal));
        }
    }

    #[test]
    fn a_server_that_others_reach_does_not_start_unless_somebody_said_who_may_push() {
        let wishes = |anonymous, authentication| Wishes {
            anonymous,
            create_on_push: Some(true),
            authentication,
            loopback: false,
        };
        assert_eq!(Rules::decide(wishes(None, false)), Err(Unprotected));
        let said = Rules::decide(wishes(Some(Anonymous::Write), false)).unwrap();
        assert_eq!(
            said,
            Rules { anonymous: Anonymous::Write, create_on_push: true, local_only: false }
        );
        let known = Rules::decide(wishes(None, true)).unwrap();
        assert_eq!(known.anonymous, Anonymous::None);
    }

    #[test]
    fn once_anything_is_configured_the_unnamed_may_nothing_and_nothing_is_created() {
        for loopback in [true, false] {
            let rules = Rules::decide(Wishes {
                anonymous: None,
                create_on_push: None,
                authentication: true,
                loopback,
            });
            let closed =
                Rules { anonymous: Anonymous::None, create_on_push: false, local_only: false };
            assert_eq!(rules, Ok(closed));
        }
        let said = Rules::decide(Wishes {
            anonymous: Some(Anonymous::Write),
            create_on_push: None,
            authentication: false,
            loopback: true,
        });
        let open = Rules { anonymous: Anonymous::Write, create_on_push: false, local_only: false };
        assert_eq!(said, Ok(open));
    }

    #[test]
    fn creation_can_be_turned_off_in_a_server_with_nothing_else_configured() {
        let wishes = Wishes {
            anonymous: None,
            create_on_push: Some(false),
            authentication: false,
            loopback: true,
        };
        assert!(!Rules::decide(wishes).unwrap().create_on_push);
    }

    #[test]
    fn the_four_words_are_read_and_written() {
        for word in ["none", "read", "write", "repository"] {
            assert_eq!(word.parse::<Anonymous>().unwrap().to_string(), word);
        }
        let error = "all".parse::<Anonymous>().unwrap_err();
        assert_eq!(error.to_string(), "'all' is none of none, read, write, repository");
    }
}
