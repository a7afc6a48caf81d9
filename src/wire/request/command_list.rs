//! Commands while their list is read: close to what they are on the wire.
//!
//! A list that never ends costs what was sent of it, and not a multiple of that: ids are kept as
//! bytes rather than digits, names behind one another, in pieces that are never copied to grow.

use crate::model::{Command, HashKind, ObjectId};
use bstr::BStr;

/// Commands in the order in which they came.
#[derive(Debug)]
pub(super) struct CommandList {
    hash: HashKind,
    /// Records behind one another: both ids, the length of the name, the name.
    chunks: Vec<Vec<u8>>,
    len: usize,
    bytes: usize,
    name_bytes: usize,
}

/// Bytes of a chunk, at the most, unless one record has more.
const CHUNK_BYTES: usize = 256 << 10;

/// Bytes of the first chunk: most pushes have one command.
const FIRST_CHUNK_BYTES: usize = 256;

/// What a small piece of memory takes beyond its bytes.
const ALLOCATION_BYTES: usize = 16;

/// The memory of `len` values that have a name or text each, without its bytes.
pub(super) fn memory_of<T>(len: usize) -> usize {
    len.saturating_mul(size_of::<T>().saturating_add(ALLOCATION_BYTES))
}

type NameLen = u16;

impl CommandList {
    pub(super) fn new(hash: HashKind) -> Self {
        Self { hash, chunks: Vec::new(), len: 0, bytes: 0, name_bytes: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a command. A name is shorter than a packet; of a longer one the end would be lost.
    pub(super) fn push(&mut self, old: &ObjectId, new: &ObjectId, name: &BStr) {
        let name_len = NameLen::try_from(name.len()).unwrap_or(NameLen::MAX);
        let name = name.get(..name_len.into()).unwrap_or(name);
        let name_len = name_len.to_ne_bytes();
        let parts = [old.as_slice(), new.as_slice(), &name_len, name];
        let len = parts.iter().fold(0, |sum: usize, part| sum.saturating_add(part.len()));
        let is_full = |chunk: &Vec<u8>| chunk.capacity().saturating_sub(chunk.len()) < len;
        if self.chunks.last().is_none_or(is_full) {
            let room = (self.bytes / 2).clamp(FIRST_CHUNK_BYTES, CHUNK_BYTES).max(len);
            self.chunks.push(Vec::with_capacity(room));
        }
        if let Some(chunk) = self.chunks.last_mut() {
            for part in parts {
                chunk.extend_from_slice(part);
            }
        }
        self.len = self.len.saturating_add(1);
        self.bytes = self.bytes.saturating_add(len);
        self.name_bytes = self.name_bytes.saturating_add(name.len());
    }

    /// The memory that the commands will take.
    pub(super) fn memory_bytes(&self) -> usize {
        memory_of::<Command>(self.len).saturating_add(self.name_bytes)
    }

    /// The memory that is taken now.
    #[cfg(test)]
    pub(super) fn held_bytes(&self) -> usize {
        self.chunks.iter().map(Vec::capacity).sum()
    }

    /// The commands; each chunk goes as soon as its commands are made.
    pub(super) fn into_commands(self) -> Vec<Command> {
        let mut commands = Vec::with_capacity(self.len);
        for chunk in self.chunks {
            let mut rest = &chunk[..];
            while let Some((command, next)) = split(self.hash, rest) {
                commands.push(command);
                rest = next;
            }
        }
        commands
    }
}

/// Takes a record from the front.
fn split(hash: HashKind, bytes: &[u8]) -> Option<(Command, &[u8])> {
    let (old, rest) = bytes.split_at_checked(hash.len_in_bytes())?;
    let (new, rest) = rest.split_at_checked(hash.len_in_bytes())?;
    let (len, rest) = rest.split_first_chunk()?;
    let (name, rest) = rest.split_at_checked(NameLen::from_ne_bytes(*len).into())?;
    let id = |bytes: &[u8]| ObjectId::try_from(bytes).ok();
    Some((Command::new(id(old)?, id(new)?, name), rest))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out(
            names in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..300), 0..80),
            long in 0usize..65_510,
        ) {
            for hash in [HashKind::Sha1, HashKind::Sha256] {
                let id = |number: usize| {
                    let byte = number.to_le_bytes()[0];
                    ObjectId::try_from(&vec![byte; hash.len_in_bytes()][..]).unwrap()
                };
                let names = names.iter().cloned().chain([vec![b'n'; long]]);
                let commands: Vec<_> = names
                    .enumerate()
                    .map(|(number, name)| Command::new(id(number), id(number + 1), name))
                    .collect();
                let mut list = CommandList::new(hash);
                for command in &commands {
                    list.push(&command.old, &command.new, command.name.as_ref());
                }
                prop_assert_eq!(list.len(), commands.len());
                prop_assert_eq!(list.into_commands(), commands);
            }
        }
    }

    #[test]
    fn a_list_that_is_read_takes_less_memory_than_it_has_on_the_wire() {
        let mut list = CommandList::new(HashKind::Sha1);
        let (id, name) = (ObjectId::null(HashKind::Sha1), BStr::new("refs/heads/b"));
        let wire = "0000".len() + 2 * ("id".len() * 20 + 1) + name.len();
        for commands in 1..200_000 {
            list.push(&id, &id, name);
            if commands >= 100 {
                assert!(list.held_bytes() <= commands * wire, "{commands}");
            }
        }
        assert!(list.memory_bytes() < 3 * list.len() * wire, "{}", list.memory_bytes());
    }
}
