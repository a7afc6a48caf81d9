//! The bytes of a pack that is kept: in memory while they are few, else in the quarantine.

use super::options::Destination;
use crate::repo::NewContent;
use std::io;

/// A pack that is complete but for the bases it may miss.
#[derive(Debug)]
pub(super) struct PackBody<'d> {
    destination: &'d Destination,
    content: NewContent,
}

impl<'d> PackBody<'d> {
    pub(super) fn new(destination: &'d Destination, content: NewContent) -> Self {
        Self { destination, content }
    }

    /// Writes over bytes that are there, or right behind them. What grows too large for memory
    /// goes to disk.
    pub(super) fn write_all_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let end = offset.saturating_add(bytes.len() as u64);
        if let NewContent::Held(held) = &self.content
            && end > self.destination.held_bytes_max
        {
            let mut file = self.destination.create_in_pack_dir("tmp_pack_")?;
            file.write_all_at(held, 0)?;
            self.content = NewContent::Written(file);
        }
        self.content.write_all_at(bytes, offset)
    }

    /// Reads back what was written.
    pub(super) fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.content.read_exact_at(buffer, offset)
    }

    pub(super) fn is_held(&self) -> bool {
        matches!(self.content, NewContent::Held(_))
    }

    pub(super) fn into_content(self) -> NewContent {
        self.content
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ingest::testing::destination;

    #[test]
    fn what_grows_too_large_goes_to_disk_and_is_the_same() {
        let (destination, _root) = destination();
        let mut body = PackBody::new(&destination, NewContent::Held(b"PACK".to_vec()));
        let piece = vec![7; 400_000];
        let mut expected = b"PACK".to_vec();
        while body.is_held() {
            body.write_all_at(&piece, expected.len() as u64).unwrap();
            expected.extend_from_slice(&piece);
        }
        assert!(expected.len() as u64 > destination.held_bytes_max);
        let mut read = vec![0; expected.len()];
        body.read_exact_at(&mut read, 0).unwrap();
        assert_eq!(read, expected);
        let NewContent::Written(file) = body.into_content() else { panic!("in memory") };
        assert_eq!(std::fs::read(file.path()).unwrap(), expected);
    }
}
