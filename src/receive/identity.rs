//! Who moves the refs, as reflogs have it: git's committer ident.

use crate::refs::Committer;
use crate::repo::{ConfigError, Environment, GitConfig};
use bstr::{BString, ByteSlice, ByteVec};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// `name <email> seconds zone` (git-var(1), GIT_COMMITTER_IDENT), from the environment, else the
/// configuration, else the account.
///
/// Unlike `git commit`, a receiver never refuses for want of a name: git's reflogs take what can
/// be found, and so does this.
pub(super) fn committer(
    environment: &Environment,
    config: &GitConfig,
) -> Result<Committer, ConfigError> {
    let variable = |name: &str| environment.var(name).map(|value| BString::from(value.as_bytes()));
    let set = |value: &BString| !value.trim().is_empty();
    let account = || account(environment);
    let name = match variable("GIT_COMMITTER_NAME").filter(set) {
        Some(name) => name,
        None => first_setting(config, &["committer.name", "user.name"])?.unwrap_or_else(account),
    };
    let email = match variable("GIT_COMMITTER_EMAIL").filter(set) {
        Some(email) => email,
        None => first_setting(config, &["committer.email", "user.email"])?
            .or_else(|| variable("EMAIL").filter(set))
            .unwrap_or_else(|| {
                let host = rustix::system::uname();
                let host = host.nodename().to_bytes().as_bstr();
                format!("{}@{host}", account()).into()
            }),
    };
    let mut line = without_crud(&name);
    line.push_str(" <");
    line.push_str(without_crud(&email));
    line.push_str("> ");
    let date = environment.var("GIT_COMMITTER_DATE").map(OsStr::to_owned);
    Ok(Committer::new(move || {
        line.push_str(time(date.as_deref()));
        line
    }))
}

fn first_setting(config: &GitConfig, keys: &[&str]) -> Result<Option<BString>, ConfigError> {
    for key in keys {
        if let Some(value) = config.string(key)? {
            return Ok(Some(value.to_owned()));
        }
    }
    Ok(None)
}

fn account(environment: &Environment) -> BString {
    let names = ["LOGNAME", "USER"];
    let name = names.iter().find_map(|name| environment.var(name));
    name.map_or_else(|| "unknown".into(), |name| name.as_bytes().into())
}

/// Takes out what would break the line, as git does: angle brackets and line feeds anywhere, blanks
/// and some punctuation at the ends.
fn without_crud(text: &[u8]) -> BString {
    let crud = |byte: u8| byte <= b' ' || b".,:;<>\"\\'".contains(&byte);
    let text = text.trim_with(|letter| u8::try_from(letter).is_ok_and(crud));
    text.iter().copied().filter(|byte| !b"<>\n".contains(byte)).collect::<Vec<u8>>().into()
}

/// The date of the ident: `GIT_COMMITTER_DATE` in any form that git reads, else now, in the zone of
/// the machine.
fn time(date: Option<&OsStr>) -> String {
    let given = date.and_then(OsStr::to_str).and_then(|text| gix_date::parse(text, None).ok());
    let time = given.unwrap_or_else(gix_date::Time::now_local_or_utc);
    time.format_or_unix(gix_date::time::format::RAW)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let mut environment = Environment::empty();
        for (name, value) in variables {
            environment.set(name, value);
        }
        environment
    }

    fn line(variables: &[(&str, &str)], config: &str) -> String {
        let config = GitConfig::from_text(config.as_bytes()).unwrap();
        committer(&environment(variables), &config).unwrap().ident().to_string()
    }

    const DATE: (&str, &str) = ("GIT_COMMITTER_DATE", "1700000000 +0200");

    #[test]
    fn the_environment_wins_over_the_configuration() {
        let config = "[user]\nname=Config\nemail=config@x\n";
        let set = [("GIT_COMMITTER_NAME", "anna"), ("GIT_COMMITTER_EMAIL", "anna@http.1"), DATE];
        assert_eq!(line(&set, config), "anna <anna@http.1> 1700000000 +0200");
        assert_eq!(line(&[DATE], config), "Config <config@x> 1700000000 +0200");
    }

    #[test]
    fn brackets_and_line_feeds_cannot_forge_a_line() {
        let set = [
            ("GIT_COMMITTER_NAME", "a <b> c\nd."),
            ("GIT_COMMITTER_EMAIL", "<e@f>"),
            ("GIT_COMMITTER_DATE", "@1700000000 +0000"),
        ];
        assert_eq!(line(&set, ""), "a b cd <e@f> 1700000000 +0000");
    }

    #[test]
    fn without_any_name_the_account_serves() {
        let text = line(&[("LOGNAME", "git"), DATE], "");
        assert!(text.starts_with("git <git@"), "{text}");
    }
}
