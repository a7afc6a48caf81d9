//! The rules for the content of `.gitmodules`.

use super::config::{self, Item};
use super::finding::{Refused, Report};
use super::message::FsckId;
use super::submodule;
use bstr::ByteSlice;

/// Looks at every variable of every submodule.
pub(super) fn check(data: &[u8], report: &mut Report<'_>) -> Result<(), Refused> {
    let mut refused = Ok(());
    let mut section = None;
    let read = config::read(data, |item| match item {
        Item::Section(name) => section = Submodule::of_section(name),
        Item::Variable { key, value } => {
            if let Some(submodule) = &section {
                refused = refused.and(submodule.check_variable(key, value, report));
            }
        }
    });
    if read.is_err() {
        let parse = report.add(FsckId::GitmodulesParse, "could not parse gitmodules blob");
        refused = refused.and(parse);
    }
    refused
}

/// The section of one submodule.
struct Submodule {
    name: Vec<u8>,
    is_name_safe: bool,
    /// What every variable of the section is to git, whatever its name: a NUL in that of the
    /// section hides it.
    key: Option<Vec<u8>>,
}

impl Submodule {
    fn of_section(section: &[u8]) -> Option<Self> {
        let seen = before_nul(section);
        let name = seen.strip_prefix(b"submodule.")?;
        let (name, key) = if seen.len() == section.len() {
            (name, None)
        } else {
            let (name, key) = name.rsplit_once_str(b".")?;
            (name, Some(key.to_vec()))
        };
        Some(Self { name: name.to_vec(), is_name_safe: submodule::is_name_safe(name), key })
    }

    fn check_variable(
        &self,
        key: &[u8],
        value: Option<&[u8]>,
        report: &mut Report<'_>,
    ) -> Result<(), Refused> {
        let mut refused = Ok(());
        if !self.is_name_safe {
            let text = "disallowed submodule name: ";
            refused = report.add_bytes(FsckId::GitmodulesName, text, &self.name);
        }
        let Some(value) = value.map(before_nul) else { return refused };
        let (is_safe, message, text) = match self.key.as_deref().unwrap_or(key) {
            b"url" => {
                (submodule::is_url_safe(value), FsckId::GitmodulesUrl, "disallowed submodule url: ")
            }
            b"path" => (
                !submodule::looks_like_option(value),
                FsckId::GitmodulesPath,
                "disallowed submodule path: ",
            ),
            b"update" => (
                !submodule::is_command(value),
                FsckId::GitmodulesUpdate,
                "disallowed submodule update setting: ",
            ),
            _ => return refused,
        };
        if !is_safe {
            refused = refused.and(report.add_bytes(message, text, value));
        }
        refused
    }
}

/// What git sees of it: strings of C end there.
fn before_nul(bytes: &[u8]) -> &[u8] {
    bytes.find_byte(0).and_then(|end| bytes.get(..end)).unwrap_or(bytes)
}
