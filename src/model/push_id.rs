//! The name of one push in logs, hooks and messages.

use std::fmt;

/// Identifies one push in the log line, the metrics and the messages to the client.
///
/// 64 bits, printed as 16 hex digits. The value is handed in: drawing it is the edge's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PushId(u64);

impl PushId {
    /// Names a push by `bits`, which the caller draws at random.
    pub fn new(bits: u64) -> Self {
        Self(bits)
    }
}

impl fmt::Display for PushId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_sixteen_digits() {
        assert_eq!(PushId::new(0xab).to_string(), "00000000000000ab");
    }
}
