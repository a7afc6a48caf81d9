//! Reads what a server answered to a push.

/// The answer, taken apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The lines of the report: `unpack ok`, `ok refs/heads/main`, …
    pub report: Vec<String>,
    /// What went to band 2.
    pub messages: String,
    /// What went to band 3.
    pub fatal: String,
    /// Empty packets in band 1.
    pub keepalives: usize,
    /// Whether the stream ended as it should: a flush and nothing after.
    pub complete: bool,
}

impl Answer {
    /// Reads an answer framed in bands.
    pub fn from_bands(bytes: &[u8]) -> Self {
        let mut answer = Self::default();
        let mut report = Vec::new();
        let mut messages = Vec::new();
        let mut rest = bytes;
        while let Some((packet, after)) = next_packet(rest) {
            rest = after;
            match packet {
                None => {
                    answer.complete = rest.is_empty();
                    break;
                }
                Some([1]) => answer.keepalives += 1,
                Some([1, payload @ ..]) => report.extend_from_slice(payload),
                Some([2, payload @ ..]) => messages.extend_from_slice(payload),
                Some([3, payload @ ..]) => {
                    answer.fatal.push_str(&String::from_utf8_lossy(payload));
                }
                Some(other) => panic!("no band in {:?}", String::from_utf8_lossy(other)),
            }
        }
        answer.messages = String::from_utf8_lossy(&messages).into_owned();
        answer.report = report_lines(&report);
        answer
    }

    /// Reads an answer without bands.
    pub fn from_plain(bytes: &[u8]) -> Self {
        Self { report: report_lines(bytes), complete: bytes.ends_with(b"0000"), ..Self::default() }
    }

    /// The `ok` or `ng` line of a ref.
    pub fn of(&self, name: &str) -> &str {
        self.report
            .iter()
            .find(|line| line.split(' ').nth(1) == Some(name) && !line.starts_with("unpack "))
            .unwrap_or_else(|| panic!("no word of '{name}' in {self:?}"))
    }

    pub fn assert_all_ok(&self) {
        let good = self.report.iter().all(|line| {
            line == "unpack ok" || line.starts_with("ok ") || line.starts_with("option ")
        });
        assert!(good && !self.report.is_empty() && self.complete, "{self:?}");
    }
}

fn report_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut rest = bytes;
    while let Some((Some(packet), after)) = next_packet(rest) {
        lines.push(String::from_utf8_lossy(packet).trim_end_matches('\n').to_owned());
        rest = after;
    }
    lines
}

/// The payload of the next packet (`None` for a flush) and the bytes after it.
fn next_packet(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let digits = std::str::from_utf8(bytes.get(..4)?).ok()?;
    let length = usize::from_str_radix(digits, 16).ok()?;
    if length == 0 {
        return Some((None, &bytes[4..]));
    }
    Some((Some(bytes.get(4..length)?), &bytes[length..]))
}
