//! `core.sharedRepository`: who besides the owner may use the files of a repository.

use super::super::config::GitConfig;
use super::super::disk::Disk;
use super::super::durable_file::DurableFile;
use super::error::RepositoryError;
use std::io;
use std::path::Path;

/// How files and directories of a repository get their permission bits (git-config(1)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SharedPermissions {
    /// As the umask says.
    #[default]
    Umask,
    /// These bits besides what the umask leaves.
    Add(u32),
    /// Exactly these bits for files, whatever the umask.
    Exact(u32),
}

impl SharedPermissions {
    pub(super) fn read(config: &GitConfig) -> Result<Self, RepositoryError> {
        let Some(entry) = config.entry("core.sharedRepository") else { return Ok(Self::Umask) };
        let Some(value) = &entry.value else { return Ok(Self::GROUP) };
        match value.as_slice() {
            b"umask" => return Ok(Self::Umask),
            b"group" => return Ok(Self::GROUP),
            b"all" | b"world" | b"everybody" => return Ok(Self::EVERYBODY),
            _ => {}
        }
        let octal = std::str::from_utf8(value).ok().and_then(|v| u32::from_str_radix(v, 8).ok());
        match octal {
            Some(0) => Ok(Self::Umask),
            // The numbers of git before 1.5 or so.
            Some(1) => Ok(Self::GROUP),
            Some(2) => Ok(Self::EVERYBODY),
            Some(mode) if mode & 0o600 == 0o600 => Ok(Self::Exact(mode & 0o666)),
            Some(mode) => Err(RepositoryError::SharedMode { mode }),
            None => {
                let shared = config.boolean("core.sharedRepository")?.unwrap_or_default();
                Ok(if shared { Self::GROUP } else { Self::Umask })
            }
        }
    }

    /// The bits for a file that was created with `mode` less the umask.
    pub fn file_mode(self, mode: u32) -> u32 {
        let (bits, kept) = match self {
            Self::Umask => return mode,
            Self::Add(bits) => (bits, mode),
            Self::Exact(bits) => (bits, mode & !0o777),
        };
        let bits = if mode & 0o200 == 0 { bits & !0o222 } else { bits };
        let bits = if mode & 0o100 == 0 { bits } else { bits | (bits & 0o444) >> 2 };
        kept | bits
    }

    /// The bits for a directory that was created with `mode` less the umask.
    pub fn directory_mode(self, mode: u32) -> u32 {
        if self == Self::Umask {
            return mode;
        }
        let mode = self.file_mode(mode);
        let mode = mode | (mode & 0o444) >> 2;
        // New files shall belong to the group that has access, not to their writer's own.
        if mode & 0o060 == 0 { mode } else { mode | 0o2000 }
    }

    /// Gives a file that was just created the bits it shall have.
    pub fn share_file(self, file: &DurableFile) -> io::Result<()> {
        if self == Self::Umask {
            return Ok(());
        }
        let mode = file.mode()?;
        let shared = self.file_mode(mode);
        if shared == mode { Ok(()) } else { file.set_mode(shared) }
    }

    /// Gives a directory that was just created the bits it shall have.
    pub fn share_directory(self, disk: &Disk, path: &Path) -> io::Result<()> {
        if self == Self::Umask {
            return Ok(());
        }
        let Some(stat) = disk.stat(path)? else { return Err(io::ErrorKind::NotFound.into()) };
        let shared = self.directory_mode(stat.mode);
        if shared == stat.mode { Ok(()) } else { disk.set_mode(path, shared) }
    }

    const GROUP: Self = Self::Add(0o660);
    const EVERYBODY: Self = Self::Add(0o664);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &str) -> Result<SharedPermissions, RepositoryError> {
        let text = format!("[core]\nsharedRepository{value}\n");
        SharedPermissions::read(&GitConfig::from_text(text.as_bytes()).unwrap())
    }

    #[test]
    fn every_spelling_is_read() {
        for (value, expected) in [
            ("", SharedPermissions::GROUP),
            (" = true", SharedPermissions::GROUP),
            (" = 1", SharedPermissions::GROUP),
            (" = group", SharedPermissions::GROUP),
            (" = all", SharedPermissions::EVERYBODY),
            (" = 2", SharedPermissions::EVERYBODY),
            (" = false", SharedPermissions::Umask),
            (" = umask", SharedPermissions::Umask),
            (" = 0", SharedPermissions::Umask),
            (" = 0640", SharedPermissions::Exact(0o640)),
            (" = 0755", SharedPermissions::Exact(0o644)),
        ] {
            assert_eq!(read(value).unwrap(), expected, "{value}");
        }
        assert!(matches!(read(" = 0444"), Err(RepositoryError::SharedMode { mode: 0o444 })));
        assert!(matches!(read(" = friends"), Err(RepositoryError::Config(_))));
    }

    #[test]
    fn the_bits_are_those_that_git_gives() {
        let group = SharedPermissions::GROUP;
        assert_eq!(group.file_mode(0o644), 0o664);
        assert_eq!(group.file_mode(0o444), 0o444);
        assert_eq!(group.file_mode(0o400), 0o440);
        assert_eq!(group.directory_mode(0o755), 0o2775);
        let exact = SharedPermissions::Exact(0o640);
        assert_eq!(exact.file_mode(0o664), 0o640);
        assert_eq!(exact.file_mode(0o444), 0o440);
        assert_eq!(exact.directory_mode(0o777), 0o2750);
        assert_eq!(SharedPermissions::Exact(0o600).directory_mode(0o777), 0o700);
        assert_eq!(SharedPermissions::Umask.directory_mode(0o700), 0o700);
    }
}
