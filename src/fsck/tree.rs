//! The rules for trees.

use super::finding::{Refused, Report};
use super::message::FsckId;
use super::order::Order;
use super::special::{SpecialBlobs, SpecialRoles};
use super::spelling::{self, GITATTRIBUTES, GITIGNORE, GITMODULES, MAILMAP};
use crate::links::{self, LinkError, TreeEntry};
use crate::model::HashKind;

/// Looks at a whole tree, and notes which blobs it gives a special name. Each fault is told once.
pub(super) fn check(
    data: &[u8],
    special: &mut SpecialBlobs,
    report: &mut Report<'_>,
) -> Result<(), Refused> {
    let hash = report.options().hash();
    if !ends_like_a_tree(data, hash) {
        return unreadable(report, LinkError::TreeTruncated);
    }
    let mut faults = Faults::default();
    let mut order = Order::default();
    let mut refused = Ok(());
    let mut entries = links::tree(data, hash).peekable();
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Ok(entry) => entry,
            Err(fault) => return unreadable(report, fault),
        };
        faults.note_name(&entry);
        refused = refused.and(special_names(&entry, &mut faults, special, report));
        if let Some(Err(fault)) = entries.peek() {
            // git gives up before it has looked at the mode of the last entry that it could read.
            refused = refused.and(unreadable(report, *fault));
            break;
        }
        let mode = mode(&entry);
        faults.bad_mode |= !is_common(mode, report.options().is_strict());
        order.push(entry.name, mode & TYPE_BITS == DIRECTORY);
    }
    faults.duplicates = order.has_duplicates();
    faults.unsorted = order.is_unsorted();
    refused.and(faults.tell(report))
}

/// LIMIT: bytes of a name; git's default for what it calls excessively large.
const NAME_BYTES_MAX: usize = 4096;

const TYPE_BITS: u16 = 0o170_000;
const DIRECTORY: u16 = 0o040_000;
const SYMBOLIC_LINK: u16 = 0o120_000;

/// What was found in some entry. The order of the fields is that in which git tells of them.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one for each rule, independent of each other")]
struct Faults {
    null_id: bool,
    full_path: bool,
    dot: bool,
    dot_dot: bool,
    dot_git: bool,
    zero_padded: bool,
    bad_mode: bool,
    duplicates: bool,
    unsorted: bool,
    large_name: bool,
    /// The special files that were told to be symbolic links: `.gitmodules`, `.gitattributes`,
    /// `.gitignore`, `.mailmap`.
    symbolic_links: [bool; 4],
}

impl Faults {
    fn note_name(&mut self, entry: &TreeEntry<'_>) {
        let name = entry.name;
        self.null_id |= entry.id.is_null();
        self.full_path |= name.contains(&b'/');
        self.dot |= name == ".";
        self.dot_dot |= name == "..";
        self.zero_padded |= entry.mode_digits.starts_with(b"0");
        self.large_name |= name.len() > NAME_BYTES_MAX;
    }

    fn tell(&self, report: &mut Report<'_>) -> Result<(), Refused> {
        let mut refused = Ok(());
        for (is_so, message, text) in [
            (self.null_id, FsckId::NullSha1, "contains entries pointing to null sha1"),
            (self.full_path, FsckId::FullPathname, "contains full pathnames"),
            (self.dot, FsckId::HasDot, "contains '.'"),
            (self.dot_dot, FsckId::HasDotdot, "contains '..'"),
            (self.dot_git, FsckId::HasDotgit, "contains '.git'"),
            (self.zero_padded, FsckId::ZeroPaddedFilemode, "contains zero-padded file modes"),
            (self.bad_mode, FsckId::BadFilemode, "contains bad file modes"),
            (self.duplicates, FsckId::DuplicateEntries, "contains duplicate file entries"),
            (self.unsorted, FsckId::TreeNotSorted, "not properly sorted"),
            (self.large_name, FsckId::LargePathname, "contains excessively large pathname"),
        ] {
            if is_so {
                refused = refused.and(report.add(message, text));
            }
        }
        refused
    }
}

/// Looks for names that git, or a file system, gives a meaning.
fn special_names(
    entry: &TreeEntry<'_>,
    faults: &mut Faults,
    special: &mut SpecialBlobs,
    report: &mut Report<'_>,
) -> Result<(), Refused> {
    let name = entry.name;
    if !spelling::could_be_special(name) {
        return Ok(());
    }
    faults.dot_git |= spelling::is_dot_git(name);
    let is_gitmodules = GITMODULES.is(name) || GITMODULES.is_behind_backslash(name);
    let is_gitattributes = GITATTRIBUTES.is(name);
    if mode(entry) & TYPE_BITS != SYMBOLIC_LINK {
        // Not only blobs: that it should be one is a rule of its own.
        let roles = SpecialRoles { gitmodules: is_gitmodules, gitattributes: is_gitattributes };
        if !roles.is_empty() {
            special.name(entry.id, roles);
        }
        return Ok(());
    }
    let [modules, attributes, ignore, mailmap] = &mut faults.symbolic_links;
    let mut refused = Ok(());
    for (is_so, told, message, text) in [
        (is_gitmodules, modules, FsckId::GitmodulesSymlink, ".gitmodules is a symbolic link"),
        (is_gitattributes, attributes, FsckId::GitattributesSymlink, ".gitattributes is a symlink"),
        (GITIGNORE.is(name), ignore, FsckId::GitignoreSymlink, ".gitignore is a symlink"),
        (MAILMAP.is(name), mailmap, FsckId::MailmapSymlink, ".mailmap is a symlink"),
    ] {
        if is_so && !*told {
            *told = true;
            refused = refused.and(report.add(message, text));
        }
    }
    refused
}

fn unreadable(report: &mut Report<'_>, fault: LinkError) -> Result<(), Refused> {
    let cause = match fault {
        LinkError::TreeMode => "malformed mode in tree entry",
        LinkError::TreeName => "empty filename in tree entry",
        _ => "too-short tree object",
    };
    report.add_caused(FsckId::BadTree, "cannot be parsed as a tree", cause)
}

/// Whether an id could be the end of a tree. git looks there before it reads the first entry.
fn ends_like_a_tree(data: &[u8], hash: HashKind) -> bool {
    let before_id = data.len().checked_sub(hash.len_in_bytes());
    let last = before_id.and_then(|length| data.get(..length)).and_then(<[u8]>::last);
    data.is_empty() || last == Some(&0)
}

/// The mode as git's fsck has it: sixteen bits.
fn mode(entry: &TreeEntry<'_>) -> u16 {
    let [_, _, high, low] = entry.mode.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// Whether git writes such a mode. Early ones wrote group-writable files too.
fn is_common(mode: u16, is_strict: bool) -> bool {
    match mode {
        0o100_644 | 0o100_755 | SYMBOLIC_LINK | DIRECTORY | 0o160_000 => true,
        0o100_664 => !is_strict,
        _ => false,
    }
}
