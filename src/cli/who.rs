//! From settings to who may do what: the ways in which `packhouse serve` knows users, and the rules.

use super::config::Settings;
use crate::access::{AccessFile, Rules, Wishes};
use crate::auth::{Authenticator, FollowedFile, ForwardedFor, Htpasswd, TrustedHeader, Ways};
use std::error::Error;

type Failure = Box<dyn Error + Send + Sync>;

/// Opens the files and puts the ways together.
pub(super) fn authenticator(settings: &Settings) -> Result<Authenticator, Failure> {
    let htpasswd: Option<FollowedFile<Htpasswd>> =
        settings.htpasswd.as_deref().map(FollowedFile::open).transpose()?;
    let weak = htpasswd.as_ref().map_or(0, |file| file.current().weak());
    if weak > 0 {
        tracing::warn!(
            weak,
            "passwords of scheme apr1 in the password file, which is fast to search"
        );
    }
    let tokens = settings.tokens.as_deref().map(FollowedFile::open).transpose()?;
    let proxies = settings.trusted_proxies.clone();
    let trusts_address = settings.trust_forwarded_for.is_some_and(|switch| switch.0);
    if proxies.is_some() && settings.trust_user_header.is_none() && !trusts_address {
        let text = "trusted_proxies means nothing without trust_user_header or trust_forwarded_for";
        return Err(text.into());
    }
    let proxies = proxies.unwrap_or_default();
    let trusted_header = match &settings.trust_user_header {
        Some(name) => Some(TrustedHeader {
            name: name
                .parse()
                .map_err(|_| format!("trust_user_header: '{name}' is no name of a header"))?,
            proxies: proxies.clone(),
        }),
        None => None,
    };
    let forwarded_for = trusts_address.then_some(ForwardedFor { proxies });
    Ok(Authenticator::new(Ways { htpasswd, tokens, trusted_header, forwarded_for })?)
}

/// The access file, if there is one, and the rules beside it or instead of it. `listen` is what the
/// operator said, `loopback` what that comes to.
pub(super) fn rules(
    settings: &Settings,
    authentication: bool,
    listen: &str,
    loopback: bool,
) -> Result<(Option<FollowedFile<AccessFile>>, Rules), Failure> {
    let (anonymous, create) = (settings.anonymous, settings.create_on_push.map(|switch| switch.0));
    let Some(path) = &settings.access else {
        let wishes = Wishes { anonymous, create_on_push: create, authentication, loopback };
        let rules =
            Rules::decide(wishes).map_err(|error| format!("listen = '{listen}': {error}"))?;
        return Ok((None, rules));
    };
    if anonymous.is_some() {
        let text = "access and anonymous exclude each other: the access file has '@anonymous'";
        return Err(text.into());
    }
    Ok((Some(FollowedFile::open(path)?), Rules::beside_access_file(create)))
}
