//! Ids in hexadecimal digits, as commits and tags have them.

use crate::model::{HashKind, ObjectId};

/// Splits an id's digits and the byte `end` behind them off the start of `bytes`.
///
/// Upper case is accepted, as git does.
pub(super) fn split_id(bytes: &[u8], hash: HashKind, end: u8) -> Option<(ObjectId, &[u8])> {
    let (digits, rest) = bytes.split_at_checked(hash.len_in_hex())?;
    let rest = rest.strip_prefix(&[end])?;
    let mut id = ObjectId::null(hash);
    for (byte, pair) in id.as_mut_slice().iter_mut().zip(digits.as_chunks::<2>().0) {
        let [high, low] = pair.map(digit);
        *byte = high? << 4 | low?;
    }
    Some((id, rest))
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
