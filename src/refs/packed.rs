//! The packed-refs file: many refs in one sorted file (git-pack-refs(1)).
//!
//! Held as the bytes of the file and searched by halving, without a map beside it; a rewrite
//! copies what it does not change byte for byte. Lines are checked when they are reached, as git
//! does. The file is read to the heap: a mapping would die with a file that somebody cuts short.

use super::error::RefError;
use crate::model::{HashKind, HexId, ObjectId, RefName, oid};
use bstr::{BStr, BString, ByteSlice};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::OnceLock;

/// What an object leads to once all tags are taken off, where packed-refs remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peeled {
    /// The object is no tag.
    NotATag,
    /// The tag leads to this object.
    To(ObjectId),
    /// Not known. The file then says that not every entry is peeled, and git looks for itself.
    Unknown,
}

/// What the header says of entries that come without a peeled line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Peeling {
    /// Nothing.
    Unknown,
    /// Below `refs/tags/`, that they are no tags.
    Tags,
    /// That they are no tags.
    All,
}

/// The contents of one packed-refs file, sorted by name.
#[derive(Debug)]
pub(super) struct PackedRefs {
    /// Records only; no header.
    records: Vec<u8>,
    peeling: Peeling,
    hash: HashKind,
    /// Set once every line was found to mean something.
    checked: OnceLock<Checked>,
}

/// What a look at every line found.
#[derive(Clone, Copy, Debug)]
struct Checked {
    /// Whether every ref has a name that git's rules allow, and a value that is not null.
    all_sound: bool,
}

/// One ref.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedRef<'a> {
    pub(super) name: &'a BStr,
    pub(super) id: HexId<'a>,
    /// Where the record after it begins.
    end: usize,
}

/// What a rewrite changes: a new value, or `None` for a ref that goes.
pub(super) type PackedChanges = BTreeMap<BString, Option<(ObjectId, Peeled)>>;

const HEADER: &[u8] = b"# pack-refs with:";

impl PackedRefs {
    /// What stands for a file that is not there.
    pub(super) fn empty(hash: HashKind) -> Self {
        Self { records: Vec::new(), peeling: Peeling::All, hash, checked: OnceLock::new() }
    }

    /// Reads a file. A file from before headers told that they are sorted is sorted here.
    pub(super) fn parse(mut bytes: Vec<u8>, hash: HashKind) -> Result<Self, RefError> {
        if bytes.last().is_some_and(|byte| *byte != b'\n') {
            let line = bytes.rsplit(|byte| *byte == b'\n').next().unwrap_or_default();
            return Err(RefError::PackedRefsLine { line: line.into() });
        }
        let mut sorted = false;
        let mut peeling = Peeling::Unknown;
        if bytes.starts_with(b"#") {
            let end = bytes.find_byte(b'\n').unwrap_or(bytes.len());
            let line = bytes.get(..end).unwrap_or_default();
            let Some(traits) = line.strip_prefix(HEADER) else {
                return Err(RefError::PackedRefsLine { line: line.into() });
            };
            let has = |word: &[u8]| traits.split(|byte| *byte == b' ').any(|one| one == word);
            sorted = has(b"sorted");
            peeling = if has(b"fully-peeled") {
                Peeling::All
            } else if has(b"peeled") {
                Peeling::Tags
            } else {
                Peeling::Unknown
            };
            bytes.drain(..=end.min(bytes.len().saturating_sub(1)));
        }
        let mut this = Self { records: bytes, peeling, hash, checked: OnceLock::new() };
        if !sorted {
            this.sort()?;
        }
        Ok(this)
    }

    /// Whether both say the same.
    pub(super) fn has_same_refs(&self, other: &Self) -> bool {
        self.peeling == other.peeling && self.records == other.records
    }

    /// The value of a ref.
    pub(super) fn find(&self, name: &BStr) -> Result<Option<ObjectId>, RefError> {
        let found = self.record_at(self.lower_bound(name)?)?;
        Ok(found.filter(|record| record.name == name).map(|record| record.id.id()))
    }

    /// The first ref of which `name` is a directory.
    pub(super) fn first_below(&self, name: &BStr) -> Result<Option<&BStr>, RefError> {
        let mut directory = BString::from(name);
        directory.push(b'/');
        let found = self.record_at(self.lower_bound(directory.as_bstr())?)?;
        let name = found.map(|record| record.name);
        Ok(name.filter(|name| name.starts_with(&directory)))
    }

    /// An error if some line means nothing. Lines are looked at once, whatever number asks.
    pub(super) fn check(&self) -> Result<(), RefError> {
        if self.checked.get().is_none() {
            let mut all_sound = true;
            for record in self.iter() {
                all_sound &= record?.is_sound();
            }
            let _ = self.checked.set(Checked { all_sound });
        }
        Ok(())
    }

    /// Whether a record [is sound](PackedRef::is_sound): known for all after a
    /// [check](Self::check) that found none that is not.
    pub(super) fn has_sound(&self, record: &PackedRef<'_>) -> bool {
        self.checked.get().is_some_and(|checked| checked.all_sound) || record.is_sound()
    }

    /// All refs in byte order, ending after the first line that means nothing.
    pub(super) fn iter(&self) -> impl Iterator<Item = Result<PackedRef<'_>, RefError>> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let record = self.record_at(at).transpose()?;
            at = record.as_ref().map_or(usize::MAX, |record| record.end);
            Some(record)
        })
    }

    /// Writes the file anew with some refs changed, all others byte for byte as they are.
    pub(super) fn write_changed(
        &self,
        changes: &PackedChanges,
        to: &mut impl Write,
    ) -> Result<io::Result<()>, RefError> {
        // Every place is found before the first byte is written: a line that means nothing fails
        // the whole.
        let mut places = Vec::with_capacity(changes.len());
        for name in changes.keys() {
            let from = self.lower_bound(name.as_bstr())?;
            let end = match self.record_at(from)? {
                Some(record) if record.name == name.as_bstr() => record.end,
                _ => from,
            };
            places.push((from, end));
        }
        Ok(self.copy_around(changes, &places, to))
    }

    fn copy_around(
        &self,
        changes: &PackedChanges,
        places: &[(usize, usize)],
        to: &mut impl Write,
    ) -> io::Result<()> {
        let peeling = changes.iter().fold(self.peeling, |peeling, (name, value)| match value {
            Some((_, Peeled::Unknown)) if name.starts_with(b"refs/tags/") => Peeling::Unknown,
            Some((_, Peeled::Unknown)) => peeling.min(Peeling::Tags),
            _ => peeling,
        });
        to.write_all(HEADER)?;
        to.write_all(match peeling {
            Peeling::Unknown => b" sorted \n",
            Peeling::Tags => b" peeled sorted \n",
            Peeling::All => b" peeled fully-peeled sorted \n",
        })?;
        let mut copied = 0;
        for ((name, value), (from, end)) in changes.iter().zip(places) {
            to.write_all(self.records.get(copied..*from).unwrap_or_default())?;
            copied = *end;
            if let Some((id, peeled)) = value {
                write!(to, "{id} ")?;
                to.write_all(name)?;
                to.write_all(b"\n")?;
                if let Peeled::To(object) = peeled {
                    writeln!(to, "^{object}")?;
                }
            }
        }
        to.write_all(self.records.get(copied..).unwrap_or_default())
    }

    /// Where the first record begins whose name is not before `name`.
    fn lower_bound(&self, name: &BStr) -> Result<usize, RefError> {
        let (mut low, mut high) = (0, self.records.len());
        while low < high {
            let start = self.record_start(low, low + (high - low) / 2);
            match self.record_at(start)? {
                Some(record) if record.name < name => low = record.end,
                _ => high = start,
            }
        }
        Ok(low)
    }

    /// Where the record begins that has the byte `at`; `low` is where some record begins.
    fn record_start(&self, low: usize, at: usize) -> usize {
        let mut at = at;
        loop {
            let before = self.records.get(low..at).unwrap_or_default();
            let start = before.rfind_byte(b'\n').map_or(low, |newline| low + newline + 1);
            // A peeled line belongs to the line before it.
            if start == low || self.records.get(start) != Some(&b'^') {
                return start;
            }
            at = start - 1;
        }
    }

    /// The record that begins there; `None` at the end.
    fn record_at(&self, start: usize) -> Result<Option<PackedRef<'_>>, RefError> {
        let rest = self.records.get(start..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let length = rest.find_byte(b'\n').unwrap_or(rest.len());
        let line = rest.get(..length).unwrap_or_default();
        let broken = |line: &[u8]| RefError::PackedRefsLine { line: line.into() };
        let (hex, name) =
            line.split_at_checked(self.hash.len_in_hex()).ok_or_else(|| broken(line))?;
        let known = self.checked.get().is_some();
        let id = if known { Some(HexId::known(hex)) } else { HexId::new(hex, self.hash) };
        let id = id.ok_or_else(|| broken(line))?;
        let name = name.strip_prefix(b" ").filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| broken(line))?.as_bstr();
        let mut end = start + length + 1;
        if let Some(peeled) = self.records.get(end..).and_then(|rest| rest.strip_prefix(b"^")) {
            let length = peeled.find_byte(b'\n').unwrap_or(peeled.len());
            let hex = peeled.get(..length).unwrap_or_default();
            if !known && HexId::new(hex, self.hash).is_none() {
                return Err(broken(hex));
            }
            end += length + 2;
        }
        Ok(Some(PackedRef { name, id, end }))
    }

    fn sort(&mut self) -> Result<(), RefError> {
        let mut records = Vec::new();
        let mut start = 0;
        for record in self.iter() {
            let record = record?;
            records.push((record.name, start..record.end));
            start = record.end;
        }
        if records.is_sorted_by_key(|(name, _)| *name) {
            return Ok(());
        }
        records.sort_by_key(|(name, _)| *name);
        let mut sorted = Vec::with_capacity(self.records.len());
        for (_, range) in records {
            sorted.extend_from_slice(self.records.get(range).unwrap_or_default());
        }
        self.records = sorted;
        Ok(())
    }
}

impl PackedRef<'_> {
    /// Whether its name passes git's rules, and its value is not null.
    fn is_sound(&self) -> bool {
        RefName::is_deletable(self.name) && !self.id.is_null()
    }
}

/// What peels an object for a rewrite of packed-refs.
pub type Peel<'a> = dyn Fn(&oid) -> Peeled + 'a;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::testing::{TestRepository, commit, objects};
    use proptest::prelude::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId::from_bytes_or_panic(&[byte; 20])
    }

    fn parse(text: impl Into<Vec<u8>>) -> Result<PackedRefs, RefError> {
        PackedRefs::parse(text.into(), HashKind::Sha1)
    }

    fn names(packed: &PackedRefs) -> Vec<String> {
        packed.iter().map(|record| record.unwrap().name.to_string()).collect()
    }

    fn rewritten(packed: &PackedRefs, changes: &[(&str, Option<(ObjectId, Peeled)>)]) -> String {
        let changes = changes.iter().map(|(name, value)| (BString::from(*name), *value)).collect();
        let mut out = Vec::new();
        packed.write_changed(&changes, &mut out).unwrap().unwrap();
        String::from_utf8(out).unwrap()
    }

    const FULL: &str = "# pack-refs with: peeled fully-peeled sorted \n";

    #[test]
    fn refs_are_found_beside_peeled_lines() {
        let (a, b, c) = (id(1), id(2), id(3));
        let text = format!("{FULL}{a} refs/heads/a\n{b} refs/tags/b\n^{a}\n{c} refs/tags/b/c\n");
        let packed = parse(text).unwrap();
        assert_eq!(packed.find("refs/heads/a".into()).unwrap(), Some(a));
        assert_eq!(packed.find("refs/tags/b".into()).unwrap(), Some(b));
        assert_eq!(packed.find("refs/tags/b/c".into()).unwrap(), Some(c));
        assert_eq!(packed.find("refs/tags/bb".into()).unwrap(), None);
        assert_eq!(packed.find("".into()).unwrap(), None);
        assert_eq!(names(&packed), ["refs/heads/a", "refs/tags/b", "refs/tags/b/c"]);
        assert_eq!(packed.first_below("refs/tags/b".into()).unwrap().unwrap(), "refs/tags/b/c");
        assert_eq!(packed.first_below("refs/tags".into()).unwrap().unwrap(), "refs/tags/b");
        assert_eq!(packed.first_below("refs/head".into()).unwrap(), None);
        assert_eq!(packed.first_below("refs/tags/b/c".into()).unwrap(), None);
    }

    #[test]
    fn a_file_without_a_header_or_unsorted_is_sorted() {
        let (a, b) = (id(1), id(2));
        for header in ["", "# pack-refs with: peeled \n"] {
            let text = format!("{header}{b} refs/tags/b\n^{a}\n{a} refs/heads/a\n");
            let packed = parse(text).unwrap();
            assert_eq!(names(&packed), ["refs/heads/a", "refs/tags/b"]);
            assert_eq!(packed.find("refs/tags/b".into()).unwrap(), Some(b));
            assert!(rewritten(&packed, &[]).ends_with(&format!("{b} refs/tags/b\n^{a}\n")));
        }
    }

    #[test]
    fn an_empty_file_has_no_refs() {
        for text in ["", FULL, "# pack-refs with:\n"] {
            let packed = parse(text).unwrap();
            assert!(names(&packed).is_empty());
            assert_eq!(packed.find("refs/heads/a".into()).unwrap(), None);
        }
        assert!(names(&PackedRefs::empty(HashKind::Sha1)).is_empty());
    }

    #[test]
    fn lines_that_mean_nothing_are_refused_and_shown() {
        let a = id(1);
        let good = format!("{a} refs/heads/a\n");
        for (text, line) in [
            (format!("{FULL}{a} refs/heads/a"), format!("{a} refs/heads/a")),
            ("# something else\n".to_owned(), "# something else".to_owned()),
            (format!("{FULL}{good}nonsense\n"), "nonsense".to_owned()),
            (format!("{FULL}\n{good}"), String::new()),
            (format!("{FULL}{a}\n"), a.to_string()),
            (format!("{FULL}{a} \n"), format!("{a} ")),
            (format!("{FULL}{a}0 refs/heads/a\n"), format!("{a}0 refs/heads/a")),
            (format!("{FULL}{good}^{a}0\n"), format!("{a}0")),
            (format!("{FULL}{good}^\n"), String::new()),
            (format!("{FULL}^{a}\n"), format!("^{a}")),
        ] {
            let error = match parse(text.clone()) {
                Err(error) => error,
                Ok(packed) => packed.iter().find_map(Result::err).expect(&text),
            };
            let RefError::PackedRefsLine { line: shown } = error else { panic!("{error}") };
            assert_eq!(shown, line, "{text:?}");
        }
    }

    #[test]
    fn a_broken_line_ends_the_iteration() {
        let text = format!("{FULL}nonsense\n{} refs/heads/a\n", id(1));
        assert_eq!(parse(text).unwrap().iter().count(), 1);
    }

    #[test]
    fn a_rewrite_keeps_what_it_does_not_change_byte_for_byte() {
        let (a, b) = (id(1), id(2));
        let upper = a.to_string().to_uppercase();
        let kept = format!("{upper} refs/heads/k\n{b} refs/tags/t\n^{upper}\n{a} refs/x/..odd\n");
        let packed = parse(format!("{FULL}{a} refs/heads/a\n^{b}\n{kept}")).unwrap();
        let changes = [("refs/heads/a", None), ("refs/zzz/none", None)];
        assert_eq!(rewritten(&packed, &changes), format!("{FULL}{kept}"));
        let changes = [("refs/heads/a", Some((b, Peeled::NotATag)))];
        assert_eq!(rewritten(&packed, &changes), format!("{FULL}{b} refs/heads/a\n{kept}"));
    }

    #[test]
    fn the_header_claims_no_more_than_is_true() {
        let new = |name, peeled| [(name, Some((id(1), peeled)))];
        let header = |packed: &PackedRefs, changes: &[_]| {
            rewritten(packed, changes).lines().next().unwrap().to_owned()
        };
        let none = PackedRefs::empty(HashKind::Sha1);
        let known = new("refs/tags/t", Peeled::To(id(2)));
        let branch = new("refs/heads/t", Peeled::Unknown);
        let tag = new("refs/tags/t", Peeled::Unknown);
        let full = "# pack-refs with: peeled fully-peeled sorted ";
        let tags = "# pack-refs with: peeled sorted ";
        let nothing = "# pack-refs with: sorted ";
        assert_eq!(header(&none, &known), full);
        assert_eq!(header(&none, &branch), tags);
        assert_eq!(header(&none, &tag), nothing);
        let only_tags = parse("# pack-refs with: peeled \n").unwrap();
        assert_eq!(header(&only_tags, &known), tags);
        assert_eq!(header(&only_tags, &branch), tags);
        assert_eq!(header(&only_tags, &tag), nothing);
        assert_eq!(header(&parse("").unwrap(), &known), nothing);
    }

    #[test]
    fn git_peels_what_we_packed_whether_we_knew_or_not() {
        let tags = objects();
        for known in [true, false] {
            let repository = TestRepository::new();
            let peel = |peeled| if known { peeled } else { Peeled::Unknown };
            let to_first = peel(Peeled::To(commit(0)));
            let changes = [
                ("refs/heads/main", Some((commit(1), peel(Peeled::NotATag)))),
                ("refs/notes/tag", Some((tags.tag, to_first))),
                ("refs/tags/a", Some((tags.tag, to_first))),
                ("refs/tags/b", Some((tags.tag_of_tag, to_first))),
                ("refs/tags/c", Some((commit(2), peel(Peeled::NotATag)))),
            ];
            let packed = PackedRefs::empty(HashKind::Sha1);
            repository.write("packed-refs", rewritten(&packed, &changes));
            let (first, tag) = (commit(0), tags.tag);
            let shown = format!(
                "{} refs/heads/main\n{tag} refs/notes/tag\n{first} refs/notes/tag^{{}}\n\
                 {tag} refs/tags/a\n{first} refs/tags/a^{{}}\n\
                 {} refs/tags/b\n{first} refs/tags/b^{{}}\n{} refs/tags/c\n",
                commit(1),
                tags.tag_of_tag,
                commit(2)
            );
            assert_eq!(repository.git(&["show-ref", "-d"]), shown);
            let refs = repository.refs();
            assert!(refs.contains(&format!("{} refs/tags/b {first}", tags.tag_of_tag)), "{refs}");
            repository.git(&["pack-refs", "--all"]);
            assert_eq!(repository.git(&["show-ref", "-d"]), shown);
            repository.git(&["fsck", "--strict"]);
        }
    }

    fn ref_names() -> impl Strategy<Value = String> {
        "refs/[ab]/[a-c!~0]{1,3}(/[a-c]{1,2})?"
    }

    proptest! {
        #[test]
        fn lookups_and_rewrites_agree_with_a_map(
            start in prop::collection::btree_map(ref_names(), (0..9_u8, any::<bool>()), 0..20),
            changes in prop::collection::btree_map(ref_names(), prop::option::of(0..9_u8), 0..10),
            asked in prop::collection::vec(ref_names(), 10),
        ) {
            let mut text = FULL.to_owned();
            for (name, (byte, tag)) in &start {
                text.extend([id(*byte).to_string(), format!(" {name}\n")]);
                if *tag {
                    text.extend([format!("^{}\n", id(9))]);
                }
            }
            let packed = parse(text).unwrap();
            let value = |byte: u8| (id(byte), Peeled::NotATag);
            let list: PackedChanges = changes
                .iter()
                .map(|(name, byte)| (BString::from(name.as_str()), byte.map(value)))
                .collect();
            let mut out = Vec::new();
            packed.write_changed(&list, &mut out).unwrap().unwrap();
            let after = parse(out).unwrap();
            let mut map: BTreeMap<String, u8> =
                start.iter().map(|(name, (byte, _))| (name.clone(), *byte)).collect();
            for (at, packed) in [&packed, &after].into_iter().enumerate() {
                if at == 1 {
                    for (name, byte) in &changes {
                        match byte {
                            Some(byte) => map.insert(name.clone(), *byte),
                            None => map.remove(name),
                        };
                    }
                }
                prop_assert_eq!(names(packed), map.keys().cloned().collect::<Vec<_>>());
                for name in asked.iter().chain(map.keys()).chain(changes.keys()) {
                    let found = packed.find(name.as_str().into()).unwrap();
                    prop_assert_eq!(found, map.get(name).map(|byte| id(*byte)));
                    let directory = format!("{name}/");
                    let below = map.keys().find(|other| other.starts_with(&directory));
                    let found = packed.first_below(name.as_str().into()).unwrap();
                    prop_assert_eq!(found.map(ToString::to_string), below.cloned());
                }
            }
        }

        #[test]
        fn no_bytes_make_it_panic(
            bytes in prop::collection::vec(prop::sample::select(&b"0af^ /\nr#"[..]), 0..200),
            header in any::<bool>(),
        ) {
            let mut text = if header { FULL.as_bytes().to_vec() } else { Vec::new() };
            text.extend(bytes);
            if let Ok(packed) = parse(text) {
                let _ = packed.find("refs/heads/a".into());
                let _ = packed.first_below("refs/heads".into());
                let _ = packed.iter().count();
                let changes = [(BString::from("refs/heads/a"), None)].into();
                let _ = packed.write_changed(&changes, &mut Vec::new());
            }
        }
    }
}
