//! The twelve bytes a pack begins with.

/// What the beginning of a pack says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackHeader {
    /// 2 or 3. They differ in nothing that a reader sees; git writes 2.
    pub version: u32,
    /// Entries that follow, as announced: nobody has counted them yet.
    pub count: u32,
}

/// Why twelve bytes are not the beginning of a pack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The signature `PACK` is not there.
    #[error("pack signature mismatch")]
    Signature,
    /// A version that neither git nor this program reads.
    #[error("pack version {version} is not supported, only 2 and 3 are")]
    Version {
        /// The version that the pack names.
        version: u32,
    },
}

impl PackHeader {
    /// The length of the header.
    pub const BYTES: usize = 12;

    /// Reads a header (gitformat-pack, "pack-*.pack files have the following format").
    pub fn decode(bytes: &[u8; Self::BYTES]) -> Result<Self, HeaderError> {
        let [p, a, c, k, v0, v1, v2, v3, n0, n1, n2, n3] = *bytes;
        if [p, a, c, k] != *b"PACK" {
            return Err(HeaderError::Signature);
        }
        let version = u32::from_be_bytes([v0, v1, v2, v3]);
        if !matches!(version, 2 | 3) {
            return Err(HeaderError::Version { version });
        }
        Ok(Self { version, count: u32::from_be_bytes([n0, n1, n2, n3]) })
    }

    /// The bytes of the header.
    pub fn encode(self) -> [u8; Self::BYTES] {
        let ([v0, v1, v2, v3], [n0, n1, n2, n3]) =
            (self.version.to_be_bytes(), self.count.to_be_bytes());
        [b'P', b'A', b'C', b'K', v0, v1, v2, v3, n0, n1, n2, n3]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_2_and_3_come_back_as_they_went() {
        for version in [2, 3] {
            let header = PackHeader { version, count: 0x8000_0001 };
            assert_eq!(PackHeader::decode(&header.encode()), Ok(header));
        }
    }

    #[test]
    fn other_versions_are_refused() {
        for version in [0, 1, 4, u32::MAX] {
            let bytes = PackHeader { version, count: 1 }.encode();
            assert_eq!(PackHeader::decode(&bytes), Err(HeaderError::Version { version }));
        }
    }

    #[test]
    fn another_signature_is_refused() {
        let mut bytes = PackHeader { version: 2, count: 1 }.encode();
        bytes[3] = b'k';
        assert_eq!(PackHeader::decode(&bytes), Err(HeaderError::Signature));
    }
}
