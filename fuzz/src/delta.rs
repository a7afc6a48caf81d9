//! Deltas: what is made of one is what a second, plainer reading of the format makes of it, and a
//! delta that is made can be applied.
//!
//! The first byte is the length of a base, which follows; the rest is a delta against it.

use packhouse::pack::delta::{Instruction, apply, header, instructions};
use packhouse::pack::writer::encode_delta;

const RESULT_BYTES_MAX: u64 = 1 << 20;

/// git reads no delta that is shorter.
const DELTA_BYTES_MIN: usize = 4;

pub fn run(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let Some((base, delta)) = rest.split_at_checked(length.into()) else { return };
    let mut made = Vec::new();
    let applied = apply(base, delta, RESULT_BYTES_MAX, &mut made);
    assert!(made.len() as u64 <= RESULT_BYTES_MAX);
    assert_eq!(applied.is_ok().then_some(&made), plainly(base, delta).as_ref());
    if applied.is_ok() {
        assert_eq!(header(delta).expect("it was applied").result_size, made.len() as u64);
        let steps = instructions(delta, base.len()).expect("it was applied");
        let sum: usize = steps.map(|step| step.expect("it was applied").len()).sum();
        assert_eq!(sum, made.len());
    }
    for step in instructions(delta, base.len()).into_iter().flatten().flatten() {
        assert!(!step.is_empty());
        assert!(!matches!(step, Instruction::Copy(range) if range.end > base.len()));
    }
    // The same bytes once more, taken for an object.
    let object = delta;
    if let Some(delta) = encode_delta(base, object) {
        apply(base, &delta, RESULT_BYTES_MAX, &mut made).expect("it was just made");
        assert_eq!(made, object);
    }
}

/// The object, if the delta is a valid one: gitformat-pack read from top to bottom.
fn plainly(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta.iter().copied();
    let base_size = size(&mut rest)?;
    let result_size = size(&mut rest)?;
    let is_possible = base_size == base.len() as u64 && result_size <= RESULT_BYTES_MAX;
    if delta.len() < DELTA_BYTES_MIN || !is_possible {
        return None;
    }
    let mut made = Vec::new();
    while let Some(code) = rest.next() {
        if code & 0x80 != 0 {
            let mut fields = [0; 7];
            for (bit, field) in fields.iter_mut().enumerate() {
                if code >> bit & 1 == 1 {
                    *field = rest.next()?;
                }
            }
            let [a, b, c, d, e, f, g] = fields.map(usize::from);
            let offset = a | b << 8 | c << 16 | d << 24;
            let length = Some(e | f << 8 | g << 16).filter(|length| *length > 0);
            made.extend_from_slice(base.get(offset..offset + length.unwrap_or(0x1_0000))?);
        } else if code == 0 {
            return None;
        } else {
            for _ in 0..code {
                made.push(rest.next()?);
            }
        }
        if made.len() as u64 > result_size {
            return None;
        }
    }
    (made.len() as u64 == result_size).then_some(made)
}

/// Seven bits a byte, the lowest first.
fn size(bytes: &mut impl Iterator<Item = u8>) -> Option<u64> {
    let mut size = 0_u128;
    for shift in (0..).step_by(7) {
        let byte = bytes.next()?;
        // No number is that long, not even one that begins with zeros.
        size |= u128::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 64)?;
        if byte & 0x80 == 0 {
            return u64::try_from(size).ok();
        }
    }
    None
}
