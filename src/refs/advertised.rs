//! What receive-pack's advertisement says of this repository's refs.
//!
//! git's `builtin/receive-pack.c` (`show_ref_cb`): refs in byte order of their full names, shown
//! as the namespace has them; refs outside it as `.have`, each id once. Capabilities, alternates
//! and packets are others' business.

use super::error::RefError;
use super::hidden::HiddenRefs;
use super::listing::RefList;
use super::store::RefStore;
use crate::model::ObjectId;
use bstr::{BStr, BString, ByteSlice};
use std::collections::HashSet;

/// One line of the advertisement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdvertisedRef {
    /// A ref, by the name that clients use.
    Ref {
        /// The name, without the namespace.
        name: BString,
        /// Its value.
        id: ObjectId,
    },
    /// An object that we have, held by a ref the client cannot name.
    Have {
        /// The object.
        id: ObjectId,
    },
}

impl AdvertisedRef {
    /// The id.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Ref { id, .. } | Self::Have { id } => *id,
        }
    }

    /// What stands after the id: the name, or `.have`.
    pub fn label(&self) -> &BStr {
        match self {
            Self::Ref { name, .. } => name.as_bstr(),
            Self::Have { .. } => ".have".into(),
        }
    }
}

/// The lines of the advertisement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Advertised {
    /// In order. Tips of alternates follow them, without those whose id is here already.
    pub lines: Vec<AdvertisedRef>,
    /// As in [`RefList`].
    pub broken: Vec<BString>,
}

/// Reads the refs and filters them.
pub fn advertised(store: &RefStore, hidden: &HiddenRefs) -> Result<Advertised, RefError> {
    let RefList { refs, broken } = store.list()?;
    let namespace = store.context().namespace.as_ref();
    let mut seen = HashSet::new();
    let mut lines = Vec::with_capacity(refs.len());
    for reference in refs {
        let (full, id) = (reference.name.as_bstr(), reference.id);
        let shown = match namespace {
            Some(namespace) => namespace.strip(full),
            None => Some(full),
        };
        if hidden.hides(shown, full) {
            continue;
        }
        match shown {
            Some(name) => {
                seen.insert(id);
                lines.push(AdvertisedRef::Ref { name: name.into(), id });
            }
            None if seen.insert(id) => lines.push(AdvertisedRef::Have { id }),
            None => {}
        }
    }
    Ok(Advertised { lines, broken })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::testing::{TestRepository, commit, git_command, run};
    use crate::refs::{Namespace, RefContext};

    fn ours(repository: &TestRepository, namespace: &str, hidden: &[&str]) -> Vec<String> {
        let namespace = Namespace::new(namespace.as_bytes()).unwrap();
        let store = RefStore::new(RefContext { namespace, ..repository.context() });
        let advertised = advertised(&store, &HiddenRefs::new(hidden)).unwrap();
        advertised.lines.iter().map(|line| format!("{} {}", line.id(), line.label())).collect()
    }

    fn theirs(repository: &TestRepository, namespace: &str, hidden: &[&str]) -> Vec<String> {
        let mut args: Vec<String> = Vec::new();
        for pattern in hidden {
            args.extend(["-c".to_owned(), format!("receive.hideRefs={pattern}")]);
        }
        args.extend(["receive-pack", "--advertise-refs", "."].map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = git_command(&repository.git_dir, &args);
        command.env("GIT_NAMESPACE", namespace);
        let text = run(command, b"").unwrap();
        let lines = text.lines().filter(|line| line.len() > 4);
        let lines = lines.map(|line| line[4..].split('\0').next().unwrap().to_owned());
        lines.filter(|line| !line.ends_with("capabilities^{}")).collect()
    }

    fn repository() -> TestRepository {
        let repository = TestRepository::new();
        let inside = "refs/namespaces/n/refs";
        repository.set("refs/heads/main", commit(0));
        repository.set("refs/heads/same", commit(0));
        repository.set("refs/tags/t", commit(1));
        repository.set("refs/pull/1/head", commit(2));
        repository.set(&format!("{inside}/heads/main"), commit(1));
        repository.set(&format!("{inside}/heads/x"), commit(3));
        repository.set(&format!("{inside}/namespaces/m/refs/heads/y"), commit(3));
        repository.write("refs/namespaces/n/HEAD", format!("ref: {inside}/heads/main\n"));
        repository
    }

    #[test]
    fn the_lines_are_those_of_git() {
        let repository = repository();
        for namespace in ["", "n", "n/m", "none"] {
            for hidden in [
                &[][..],
                &["refs/pull"],
                &["refs/heads"],
                &["^refs/heads"],
                &["refs", "!refs/heads/x"],
                &["^refs/namespaces/n", "!^refs/namespaces/n/refs/heads/x"],
                &["HEAD"],
            ] {
                let ours = ours(&repository, namespace, hidden);
                assert_eq!(ours, theirs(&repository, namespace, hidden), "{namespace} {hidden:?}");
            }
        }
    }

    #[test]
    fn refs_outside_the_namespace_are_haves_once_each() {
        let lines = ours(&repository(), "n/m", &[]);
        let have = |number| format!("{} .have", commit(number));
        let y = format!("{} refs/heads/y", commit(3));
        assert_eq!(lines, [have(0), have(1), have(3), y, have(2)]);
    }

    #[test]
    fn broken_refs_are_told_and_not_shown() {
        let repository = repository();
        repository.write("refs/heads/empty", "");
        let advertised = advertised(&repository.store(), &HiddenRefs::default()).unwrap();
        assert_eq!(advertised.broken, ["refs/heads/empty"]);
        assert!(advertised.lines.iter().all(|line| !line.id().is_null()));
    }
}
