//! From a request's path to what it is about.
//!
//! Pure. Guarantees that a [`RepositoryPath`] names something below the root by plain names only:
//! percent-decoded once, no empty, `.` or `..` component, none that begins with a dot (the
//! server's own state lies under such a name), no slash in disguise, no control character.
//! Whether that place is a repository, and whether links lead out of the root, is for
//! [`super::locate`].

use super::percent;
use super::service::Service;
use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// What a path is about.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// `<repository>/info/refs`.
    InfoRefs(RepositoryPath),
    /// `<repository>/git-receive-pack` or `<repository>/git-upload-pack`.
    Rpc(RepositoryPath, Service),
    /// Below `<repository>/info/lfs`, which is not served here.
    Lfs,
    /// Something else: the dumb protocol, a browser.
    Unknown,
}

/// The place of a repository below the root, as its URL gives it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct RepositoryPath(Vec<u8>);

impl Route {
    /// Reads the path of a request target, still percent-encoded. A path that breaks the rules
    /// leads nowhere, like one that is not known.
    pub(super) fn parse(encoded: &str) -> Self {
        let Some(encoded) = encoded.strip_prefix('/') else { return Self::Unknown };
        let Some(components) = encoded
            .split('/')
            .map(|component| percent::decode(component.as_bytes()))
            .collect::<Option<Vec<_>>>()
        else {
            return Self::Unknown;
        };
        let components: Vec<&[u8]> = components.iter().map(Vec::as_slice).collect();
        if components.windows(2).any(|pair| pair == [&b"info"[..], b"lfs"]) {
            return Self::Lfs;
        }
        let (path, route): (_, fn(RepositoryPath) -> Self) = match components.as_slice() {
            [path @ .., b"info", b"refs"] => (path, Self::InfoRefs),
            [path @ .., b"git-receive-pack"] => {
                (path, |path| Self::Rpc(path, Service::ReceivePack))
            }
            [path @ .., b"git-upload-pack"] => (path, |path| Self::Rpc(path, Service::UploadPack)),
            _ => return Self::Unknown,
        };
        RepositoryPath::new(path).map_or(Self::Unknown, route)
    }
}

impl RepositoryPath {
    fn new(components: &[&[u8]]) -> Option<Self> {
        let sound = |component: &&[u8]| {
            (1..=NAME_BYTES_MAX).contains(&component.len())
                && !component.starts_with(b".")
                && !component.iter().any(|byte| *byte == b'/' || byte.is_ascii_control())
        };
        let bytes = components.join(&b'/');
        // Room is left for the names below, such as a quarantine's.
        let short = bytes.len() <= PATH_BYTES_MAX;
        (!components.is_empty() && short && components.iter().all(sound)).then_some(Self(bytes))
    }

    /// The places that the URL may mean, best first. `x` and `x.git` are one repository to a
    /// client, whichever of the two names it has on the disk.
    pub(super) fn candidates(&self) -> [Self; 2] {
        let other = match self.0.strip_suffix(SUFFIX) {
            Some(stem) if !stem.is_empty() && !stem.ends_with(b"/") => Self(stem.to_vec()),
            _ => Self([self.0.as_slice(), SUFFIX].concat()),
        };
        [self.clone(), other]
    }

    /// The place where a push makes the repository: the candidate that ends with `.git`.
    pub(super) fn to_create(&self) -> Self {
        let [own, other] = self.candidates();
        if own.0.ends_with(SUFFIX) { own } else { other }
    }

    /// The name by which rules know the repository: without `.git` at its end, since both spellings
    /// are one repository.
    pub(super) fn name(&self) -> &[u8] {
        match self.0.strip_suffix(SUFFIX) {
            Some(stem) if !stem.is_empty() && !stem.ends_with(b"/") => stem,
            _ => &self.0,
        }
    }

    /// The directories above, from the top down, without the root.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = &Path> {
        let slashes = self.0.iter().enumerate().filter(|(_, byte)| **byte == b'/');
        slashes.filter_map(|(index, _)| self.0.get(..index)).map(as_path)
    }

    /// The place relative to the root.
    pub(super) fn as_path(&self) -> &Path {
        as_path(&self.0)
    }
}

impl fmt::Debug for RepositoryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RepositoryPath({})", self.0.escape_ascii())
    }
}

const SUFFIX: &[u8] = b".git";
const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 3072;

fn as_path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    fn path(text: &[u8]) -> RepositoryPath {
        RepositoryPath(text.to_vec())
    }

    fn info_refs(encoded: &str) -> Option<Vec<u8>> {
        match Route::parse(&format!("{encoded}/info/refs")) {
            Route::InfoRefs(path) => Some(path.0),
            Route::Unknown => None,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_three_endpoints_are_known() {
        let nested = path(b"a/b/c.git");
        assert_eq!(Route::parse("/a/b/c.git/info/refs"), Route::InfoRefs(nested.clone()));
        let rpc = Route::parse("/a/b/c.git/git-receive-pack");
        assert_eq!(rpc, Route::Rpc(nested.clone(), Service::ReceivePack));
        let rpc = Route::parse("/a/b/c.git/git-upload-pack");
        assert_eq!(rpc, Route::Rpc(nested, Service::UploadPack));
    }

    #[test]
    fn everything_else_leads_nowhere() {
        for other in [
            "",
            "/",
            "*",
            "/x",
            "/x.git",
            "/x.git/",
            "/x.git/HEAD",
            "/x.git/info",
            "/x.git/refs",
            "/x.git/info/refs/",
            "/x.git/objects/info/packs",
            "/info/refs",
            "/git-receive-pack",
            "/x.git/git-evil-pack",
            "x.git/info/refs",
            "/x.git/git-receive-pack/",
        ] {
            assert_eq!(Route::parse(other), Route::Unknown, "{other}");
        }
    }

    #[test]
    fn lfs_is_known_to_be_absent() {
        for path in ["/x.git/info/lfs/locks/verify", "/x/info/lfs/objects/batch", "/x/info/lfs"] {
            assert_eq!(Route::parse(path), Route::Lfs);
        }
    }

    #[test]
    fn names_survive_byte_for_byte() {
        assert_eq!(info_refs("/sp%20ace.git").unwrap(), b"sp ace.git");
        assert_eq!(info_refs("/%D0%B4%D0%BE%D0%BC.git").unwrap(), "дом.git".as_bytes());
        assert_eq!(info_refs("/дом.git").unwrap(), "дом.git".as_bytes());
        assert_eq!(info_refs("/a+b.git").unwrap(), b"a+b.git");
        assert_eq!(info_refs("/%ff%fe.git").unwrap(), b"\xff\xfe.git");
        assert_eq!(info_refs("/%2541.git").unwrap(), b"%41.git");
        assert_eq!(info_refs("/-x/$(id);`id`").unwrap(), b"-x/$(id);`id`");
    }

    #[test]
    fn no_path_leaves_the_root_or_enters_what_is_hidden() {
        for evil in [
            "/..",
            "/a/..",
            "/../a",
            "/a/../b.git",
            "/%2e%2e/a",
            "/%2E./a",
            "/a/%2e%2e",
            "/.",
            "/./a",
            "/a//b",
            "//a",
            "/a/",
            "//etc",
            "/a%2fb",
            "/a%2Fb",
            "/..%2f..%2fetc",
            "/a%00b",
            "/%00",
            "/.packhouse",
            "/.git",
            "/a/.git",
            "/%2egit",
            "/a%0ab",
            "/a%1b",
            "/a%7f",
            "/%",
            "/a%2",
            "/a%zz",
        ] {
            assert_eq!(info_refs(evil), None, "{evil}");
        }
        assert_eq!(info_refs(&format!("/{}", "x".repeat(256))), None);
        assert_eq!(info_refs(&"/x".repeat(2000)), None);
        assert!(info_refs(&format!("/{}", "x".repeat(255))).is_some());
    }

    #[test]
    fn a_name_with_the_suffix_and_one_without_mean_the_same() {
        let names = |text: &[u8]| path(text).candidates().map(|path| path.0);
        assert_eq!(names(b"a/x"), [b"a/x".to_vec(), b"a/x.git".to_vec()]);
        assert_eq!(names(b"a/x.git"), [b"a/x.git".to_vec(), b"a/x".to_vec()]);
        assert_eq!(path(b"a/x.git").name(), b"a/x");
        assert_eq!(path(b"a/x").name(), b"a/x");
        assert_eq!(path(b"a/x").to_create(), path(b"a/x.git"));
        assert_eq!(path(b"a/x.git").to_create(), path(b"a/x.git"));
    }

    #[test]
    fn ancestors_come_from_the_top() {
        let nested = path(b"a/b/c.git");
        assert_eq!(nested.ancestors().collect::<Vec<_>>(), [Path::new("a"), Path::new("a/b")]);
        assert_eq!(path(b"c.git").ancestors().count(), 0);
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_consists_of_plain_names(encoded in "[/.%a-f0-9+ ]{0,24}") {
            if let Some(bytes) = info_refs(&encoded) {
                for component in as_path(&bytes).components() {
                    prop_assert!(matches!(component, Component::Normal(_)));
                }
                prop_assert!(!bytes.is_empty() && !bytes.contains(&0));
            }
        }
    }
}
