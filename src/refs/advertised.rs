//! What receive-pack's advertisement says of this repository's refs.
//!
//! git's `builtin/receive-pack.c` (`show_ref_cb`): refs in byte order of their full names, shown
//! as the namespace has them; refs outside it as `.have`, each id once. Capabilities, alternates
//! and packets are others' business.

use super::error::RefError;
use super::hidden::HiddenRefs;
use super::listing::{RefEntry, RefView};
use super::namespace::Namespace;
use super::store::RefStore;
use crate::model::{HexId, ObjectId};
use bstr::BStr;
use std::collections::HashSet;

/// One line of the advertisement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdvertisedRef<'a> {
    /// A ref, by the name that clients use.
    Ref {
        /// The name, without the namespace.
        name: &'a BStr,
        /// Its value.
        id: HexId<'a>,
    },
    /// An object that we have, held by a ref the client cannot name.
    Have {
        /// The object.
        id: HexId<'a>,
    },
}

impl AdvertisedRef<'_> {
    /// The id.
    pub fn id(&self) -> ObjectId {
        match self {
            Self::Ref { id, .. } | Self::Have { id } => id.id(),
        }
    }

    /// What stands after the id: the name, or `.have`.
    pub fn label(&self) -> &BStr {
        match self {
            Self::Ref { name, .. } => name,
            Self::Have { .. } => ".have".into(),
        }
    }
}

/// The lines of the advertisement, made as they are asked for: an advertisement that nobody reads
/// costs what [`RefView`] does. In a namespace each different id is remembered too.
#[derive(Debug)]
pub struct Advertised<'a> {
    view: RefView,
    namespace: Option<&'a Namespace>,
    hidden: &'a HiddenRefs,
}

/// Looks at the refs. All that can fail does so here.
pub fn advertised<'a>(
    store: &'a RefStore,
    hidden: &'a HiddenRefs,
) -> Result<Advertised<'a>, RefError> {
    let namespace = store.context().namespace.as_ref();
    Ok(Advertised { view: store.view()?, namespace, hidden })
}

impl Advertised<'_> {
    /// The lines in their order. Tips of alternates follow them, without those whose id is here
    /// already.
    pub fn lines(&self) -> impl Iterator<Item = AdvertisedRef<'_>> {
        let mut seen = HashSet::new();
        self.view.iter().filter_map(move |RefEntry { name: full, id, .. }| {
            let shown = match self.namespace {
                Some(namespace) => namespace.strip(full),
                None => Some(full),
            };
            if self.hidden.hides(shown, full) {
                return None;
            }
            let is_new = self.namespace.is_some() && seen.insert(id.id());
            match shown {
                Some(name) => Some(AdvertisedRef::Ref { name, id }),
                None => is_new.then_some(AdvertisedRef::Have { id }),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::testing::{TestRepository, commit, git_command, run};
    use crate::refs::{Namespace, RefContext};

    fn ours(repository: &TestRepository, namespace: &str, hidden: &[&str]) -> Vec<String> {
        let namespace = Namespace::new(namespace.as_bytes()).unwrap();
        let store = RefStore::new(RefContext { namespace, ..repository.context() });
        let hidden = HiddenRefs::new(hidden);
        let advertised = advertised(&store, &hidden).unwrap();
        advertised.lines().map(|line| format!("{} {}", line.id(), line.label())).collect()
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
    fn broken_refs_are_not_shown_and_a_broken_file_fails_before_the_first_line() {
        let repository = repository();
        repository.write("refs/heads/empty", "");
        let (store, hidden) = (repository.store(), HiddenRefs::default());
        let lines = advertised(&store, &hidden).unwrap();
        assert!(
            lines.lines().all(|line| !line.id().is_null() && line.label() != "refs/heads/empty")
        );
        repository.write("packed-refs", format!("{} refs/heads/a\nnonsense\n", commit(0)));
        assert!(advertised(&repository.store(), &hidden).is_err());
    }

    #[test]
    fn all_advertisements_share_what_is_packed() {
        let repository = repository();
        repository.git(&["pack-refs", "--all"]);
        let hidden = HiddenRefs::default();
        let store = repository.store();
        let all: Vec<_> = (0..3).map(|_| advertised(&store, &hidden).unwrap()).collect();
        for one in &all {
            assert!(one.view.shares_packed_refs_with(&all[0].view));
            assert_eq!(one.view.files(), 1, "the symbolic ref");
        }
    }
}
