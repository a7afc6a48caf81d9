//! A run as JSON, for programs. Times are seconds; the names are those of [`Summary`].

use crate::load::summary::Summary;

/// The run as one JSON object, ended by a line feed.
pub fn json(summary: &Summary) -> String {
    let text = serde_json::to_string_pretty(summary);
    // Strings, numbers and lists of them: nothing in it that JSON could not say.
    text.map_or_else(|error| format!("{{\"error\": \"{error}\"}}\n"), |text| format!("{text}\n"))
}
