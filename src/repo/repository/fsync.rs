//! `core.fsync`: which files a repository wants flushed.

use super::super::flush_policy::{Component, FlushPolicy};
use bstr::BStr;

/// The policy that a value of `core.fsync` makes of the server's own.
///
/// git's rules (git-config(1)): components are added to the platform's default, which here is the
/// server's policy; `none` clears that first, a leading `-` takes a component away. `default`
/// stands for git's own default. Names of what packhouse does not write, and unknown ones, are
/// passed over.
pub(super) fn policy(server: FlushPolicy, value: &BStr) -> FlushPolicy {
    let mut policy = server;
    let mut removed = Vec::new();
    let mut added = Vec::new();
    let words = value.split(|byte| b", \t\r\n".contains(byte)).filter(|word| !word.is_empty());
    for word in words {
        match word {
            b"none" => policy = with(server, &ALL, false),
            b"default" => policy = FlushPolicy::GIT,
            _ => match word.strip_prefix(b"-") {
                Some(word) => removed.extend(components(word)),
                None => added.extend(components(word)),
            },
        }
    }
    with(with(policy, &removed, false), &added, true)
}

fn with(policy: FlushPolicy, components: &[Component], flushed: bool) -> FlushPolicy {
    components.iter().fold(policy, |policy, component| policy.with(*component, flushed))
}

fn components(word: &[u8]) -> &'static [Component] {
    match word {
        b"all" => &ALL,
        b"committed" | b"added" | b"objects" => &[Component::LooseObject, Component::Pack],
        b"derived-metadata" | b"pack-metadata" => &[Component::PackMetadata],
        b"loose-object" => &[Component::LooseObject],
        b"pack" => &[Component::Pack],
        b"reference" => &[Component::Reference],
        // Among them `commit-graph` and `index`.
        _ => &[],
    }
}

const ALL: [Component; 4] =
    [Component::LooseObject, Component::Pack, Component::PackMetadata, Component::Reference];

#[cfg(test)]
mod tests {
    use super::*;

    fn flushed(value: &str) -> (Vec<Component>, bool) {
        let policy = policy(FlushPolicy::FULL, value.into());
        let flushed: Vec<_> = ALL.into_iter().filter(|c| policy.flushes(*c)).collect();
        let directories = ALL.into_iter().any(|c| policy.flushes_directories_of(c));
        (flushed, directories)
    }

    #[test]
    fn components_are_added_and_taken_away() {
        use Component::{LooseObject, Pack, PackMetadata, Reference};
        assert_eq!(flushed("none"), (vec![], false));
        assert_eq!(flushed("none,reference"), (vec![Reference], true));
        assert_eq!(flushed("reference, none"), (vec![Reference], true));
        assert_eq!(flushed("-loose-object"), (vec![Pack, PackMetadata, Reference], true));
        assert_eq!(flushed("all"), (ALL.to_vec(), true));
        assert_eq!(flushed("none committed"), (vec![LooseObject, Pack], true));
        assert_eq!(flushed("none,added,-pack"), (vec![LooseObject, Pack], true));
        assert_eq!(flushed("-objects,-derived-metadata"), (vec![Reference], true));
        assert_eq!(flushed("committed,future"), (ALL.to_vec(), true));
    }

    #[test]
    fn gits_default_flushes_no_directory() {
        assert_eq!(policy(FlushPolicy::FULL, "default".into()), FlushPolicy::GIT);
        assert_eq!(policy(FlushPolicy::GIT, "index".into()), FlushPolicy::GIT);
    }
}
