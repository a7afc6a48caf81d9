//! Deltas: what one makes is what its instructions say, and a delta that is made can be applied.
//!
//! The first byte is the length of a base, which follows; the rest is a delta against it.

use packhouse::pack::delta::{Instruction, apply, header, instructions};
use packhouse::pack::writer::encode_delta;

const RESULT_BYTES_MAX: u64 = 1 << 20;

pub fn run(bytes: &[u8]) {
    let Some((&length, rest)) = bytes.split_first() else { return };
    let Some((base, delta)) = rest.split_at_checked(length.into()) else { return };
    let mut made = Vec::new();
    match apply(base, delta, RESULT_BYTES_MAX, &mut made) {
        Ok(()) => {
            let header = header(delta).expect("it was applied");
            assert_eq!(header.base_size, base.len() as u64);
            assert_eq!(header.result_size, made.len() as u64);
            assert_eq!(Some(&made), by_instructions(base, delta).as_ref());
        }
        Err(_) => assert!(made.len() as u64 <= RESULT_BYTES_MAX),
    }
    // The same bytes once more, taken for an object.
    let object = delta;
    if let Some(delta) = encode_delta(base, object) {
        apply(base, &delta, RESULT_BYTES_MAX, &mut made).expect("it was just made");
        assert_eq!(made, object);
    }
}

fn by_instructions(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut made = Vec::new();
    for instruction in instructions(delta, base.len()).ok()? {
        let instruction = instruction.ok()?;
        assert!(!instruction.is_empty());
        match instruction {
            Instruction::Copy(range) => made.extend_from_slice(&base[range]),
            Instruction::Insert(bytes) => made.extend_from_slice(bytes),
        }
    }
    Some(made)
}
