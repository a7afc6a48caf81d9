//! Writing the files that go with a pack: its idx, version 2, and its rev, version 1.
//!
//! Byte for byte what `git index-pack` writes (gitformat-pack, "pack-*.idx files" and "pack-*.rev
//! files"), for both hashes. An id that the pack holds twice is in the idx twice.

use super::checksum::Checksum;
use super::table::{EntryTable, IdOrder};
use crate::model::{HashKind, ObjectId, oid};
use std::io::{self, Write};

/// Writes the idx of the pack that ends with `pack_checksum`. Returns the idx's own checksum.
///
/// `order` must be that of `table`, with every entry named. Memory does not depend on the pack.
pub fn write_index(
    table: &EntryTable,
    order: &IdOrder,
    pack_checksum: &oid,
    out: impl Write,
) -> io::Result<ObjectId> {
    write_index_with(table, order, pack_checksum, LARGE_OFFSET, out)
}

/// Writes the rev of the pack that ends with `pack_checksum`: for each entry in the order of the
/// pack, its position in the idx. Returns the rev's own checksum.
///
/// `order` must be that of `table`. Takes four bytes of memory per entry.
pub fn write_reverse_index(
    table: &EntryTable,
    order: &IdOrder,
    pack_checksum: &oid,
    out: impl Write,
) -> io::Result<ObjectId> {
    let mut positions = vec![0u32; order.places().len()];
    for (position, &place) in (0..).zip(order.places()) {
        positions[place as usize] = position;
    }
    let mut out = Sealed::new(table.hash(), out);
    out.put(b"RIDX")?;
    out.put(&1u32.to_be_bytes())?;
    out.put(&hash_id(table.hash()).to_be_bytes())?;
    for position in positions {
        out.put(&position.to_be_bytes())?;
    }
    out.finish(pack_checksum)
}

/// Offsets from here on do not fit the 31 bits of the first offset table.
const LARGE_OFFSET: u64 = 1 << 31;

fn write_index_with(
    table: &EntryTable,
    order: &IdOrder,
    pack_checksum: &oid,
    large_offset: u64,
    out: impl Write,
) -> io::Result<ObjectId> {
    let mut out = Sealed::new(table.hash(), out);
    out.put(b"\xfftOc")?;
    out.put(&2u32.to_be_bytes())?;
    for count in order.fanout() {
        out.put(&count.to_be_bytes())?;
    }
    for &place in order.places() {
        out.put(table.id(place).as_bytes())?;
    }
    for &place in order.places() {
        out.put(&table.crc32(place).to_be_bytes())?;
    }
    let mut larges = 0u32;
    for &place in order.places() {
        let word = match u32::try_from(table.offset(place)) {
            Ok(offset) if u64::from(offset) < large_offset => offset,
            _ => {
                larges += 1;
                1 << 31 | (larges - 1)
            }
        };
        out.put(&word.to_be_bytes())?;
    }
    for &place in order.places() {
        let offset = table.offset(place);
        if offset >= large_offset {
            out.put(&offset.to_be_bytes())?;
        }
    }
    out.finish(pack_checksum)
}

/// The number that rev files have for a hash.
fn hash_id(hash: HashKind) -> u32 {
    match hash {
        HashKind::Sha256 => 2,
        _ => 1,
    }
}

/// Collects small pieces to large writes, and their checksum.
struct Sealed<W> {
    out: W,
    checksum: Checksum,
    buffer: Vec<u8>,
}

const BUFFER_BYTES: usize = 64 << 10;

impl<W: Write> Sealed<W> {
    fn new(hash: HashKind, out: W) -> Self {
        let buffer = Vec::with_capacity(BUFFER_BYTES);
        Self { out, checksum: Checksum::new(hash), buffer }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.buffer.len() + bytes.len() > BUFFER_BYTES {
            self.flush()?;
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checksum.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Both files end alike: with the checksum of the pack, then with their own.
    fn finish(mut self, pack_checksum: &oid) -> io::Result<ObjectId> {
        self.put(pack_checksum.as_bytes())?;
        self.flush()?;
        let own = self.checksum.finish();
        self.out.write_all(own.as_slice())?;
        Ok(own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKind;
    use crate::pack::sample::{Sample, sample};
    use proptest::prelude::*;
    use std::process::Command;

    fn table_of(sample: &Sample) -> EntryTable {
        let mut table = EntryTable::new(sample.hash);
        for entry in &sample.entries {
            let crc32 = crc32fast::hash(sample.raw(entry));
            let place = table.push(entry.offset, crc32).unwrap();
            table.set_object(place, entry.kind, &entry.id);
        }
        table
    }

    fn format_of(hash: HashKind) -> String {
        format!("--object-format={hash}")
    }

    /// The idx and rev that git makes of the pack, offsets from `large` on taken for large ones.
    fn git_files(sample: &Sample, large: u64) -> (Vec<u8>, Vec<u8>) {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("x.pack"), &sample.bytes).unwrap();
        let output = Command::new("git")
            .args(["index-pack", "--rev-index", &format!("--index-version=2,{}", large - 1)])
            .args([&format_of(sample.hash), "-o", "x.idx", "x.pack"])
            .current_dir(dir.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CEILING_DIRECTORIES", dir.path())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let read = |name| std::fs::read(dir.path().join(name)).unwrap();
        (read("x.idx"), read("x.rev"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(30))]

        #[test]
        fn idx_and_rev_are_what_git_writes_byte_for_byte(
            sample in sample().prop_filter("git reads it", Sample::is_read_by_git),
            large in prop_oneof![Just(LARGE_OFFSET), 1u64..3000],
        ) {
            let table = table_of(&sample);
            let order = table.by_id();
            let trailer = &sample.bytes[sample.bytes.len() - sample.hash.len_in_bytes()..];
            let trailer = oid::try_from_bytes(trailer).unwrap();
            let (idx, rev) = git_files(&sample, large);
            let (mut ours, mut ours_rev) = (Vec::new(), Vec::new());
            let own = write_index_with(&table, &order, trailer, large, &mut ours).unwrap();
            prop_assert_eq!(&ours, &idx);
            prop_assert!(idx.ends_with(own.as_slice()));
            let own = write_reverse_index(&table, &order, trailer, &mut ours_rev).unwrap();
            prop_assert_eq!(&ours_rev, &rev);
            prop_assert!(rev.ends_with(own.as_slice()));
        }
    }

    #[test]
    fn offsets_around_two_and_four_gib_come_back_from_git_show_index() {
        let offsets = [12, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 50];
        for hash in [HashKind::Sha1, HashKind::Sha256] {
            let mut table = EntryTable::new(hash);
            let mut expected = Vec::new();
            for (n, offset) in (0u8..).zip(offsets) {
                // Not in the order of the offsets.
                let id = vec![n.wrapping_mul(0x55); hash.len_in_bytes()];
                let id = ObjectId::try_from(&id[..]).unwrap();
                let place = table.push(offset, 0xabc0 + u32::from(n)).unwrap();
                table.set_object(place, ObjectKind::Blob, &id);
                expected.push((id, format!("{offset} {id} ({:08x})\n", 0xabc0 + u32::from(n))));
            }
            expected.sort();
            let dir = tempfile::tempdir().unwrap();
            let file = std::fs::File::create_new(dir.path().join("x.idx")).unwrap();
            write_index(&table, &table.by_id(), &ObjectId::null(hash), file).unwrap();
            let output = Command::new("git")
                .args(["show-index", &format_of(hash)])
                .current_dir(dir.path())
                .stdin(std::fs::File::open(dir.path().join("x.idx")).unwrap())
                .output()
                .unwrap();
            let expected: String = expected.into_iter().map(|(_, line)| line).collect();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), expected);
        }
    }

    #[test]
    fn an_error_of_the_file_is_handed_on() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let table = EntryTable::new(HashKind::Sha1);
        let null = ObjectId::null(HashKind::Sha1);
        assert!(write_index(&table, &table.by_id(), &null, Full).is_err());
        assert!(write_reverse_index(&table, &table.by_id(), &null, Full).is_err());
    }
}
