//! The ids of git's messages, and how much each matters unless somebody says otherwise.
//!
//! The list is that of git 2.47 (git-fsck(1), "FSCK MESSAGES"). Ids of refs and of faults that
//! cannot be met on receipt are in it too: they may be configured.

use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// Nobody hears of it.
    Ignore,
    /// It is told as a warning, and never refused by default.
    Info,
    /// It is told as a warning; a strict check refuses it.
    Warn,
    /// It is refused.
    Error,
    /// It is refused, and nobody can make it matter less: the rest of the object cannot be read.
    Fatal,
}

impl Level {
    /// Reads the word that configuration has for it: `error`, `warn` or `ignore`.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "error" => Some(Self::Error),
            "warn" => Some(Self::Warn),
            "ignore" => Some(Self::Ignore),
            _ => None,
        }
    }
}

macro_rules! messages {
    ($($name:ident $text:literal $level:ident $doc:literal)*) => {
        /// What a finding says, by the name that git has for it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum FsckId {
            $(#[doc = $doc] $name,)*
        }

        impl FsckId {
            /// Every id, the fatal ones first.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// The id as messages have it, such as `gitmodulesUrl`.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// How much it matters by default, in a check that is not strict.
            pub fn level(self) -> Level {
                match self {
                    $(Self::$name => Level::$level,)*
                }
            }
        }
    };
}

messages! {
    NulInHeader "nulInHeader" Fatal "A header has a NUL."
    UnterminatedHeader "unterminatedHeader" Fatal "The header does not end with a line."
    BadDate "badDate" Error "The date of an identity is no number."
    BadDateOverflow "badDateOverflow" Error "The date of an identity is out of range."
    BadEmail "badEmail" Error "The address of an identity is not closed."
    BadName "badName" Error "The name of an identity has a `>`."
    BadObjectSha1 "badObjectSha1" Error "The `object` line of a tag has no id."
    BadParentSha1 "badParentSha1" Error "A `parent` line of a commit has no id."
    BadRefFiletype "badRefFiletype" Error "A ref is no ordinary file."
    BadRefName "badRefName" Error "A ref has a malformed name."
    BadTimezone "badTimezone" Error "The time zone of an identity is malformed."
    BadTree "badTree" Error "A tree cannot be read."
    BadTreeSha1 "badTreeSha1" Error "The `tree` line of a commit has no id."
    BadType "badType" Error "The `type` line of a tag names no kind of object."
    DuplicateEntries "duplicateEntries" Error "Two entries of a tree have one name."
    MissingAuthor "missingAuthor" Error "A commit has no author."
    MissingCommitter "missingCommitter" Error "A commit has no committer."
    MissingEmail "missingEmail" Error "An identity has no address."
    MissingNameBeforeEmail "missingNameBeforeEmail" Error "An identity begins with its address."
    MissingObject "missingObject" Error "A tag has no `object` line."
    MissingSpaceBeforeDate "missingSpaceBeforeDate" Error "An identity's date is not set off."
    MissingSpaceBeforeEmail "missingSpaceBeforeEmail" Error "An identity's address is not set off."
    MissingTag "missingTag" Error "A tag ends within its `tag` line."
    MissingTagEntry "missingTagEntry" Error "A tag has no `tag` line."
    MissingTree "missingTree" Error "A commit has no `tree` line."
    MissingType "missingType" Error "A tag ends within its `type` line."
    MissingTypeEntry "missingTypeEntry" Error "A tag has no `type` line."
    MultipleAuthors "multipleAuthors" Error "A commit has several authors."
    TreeNotSorted "treeNotSorted" Error "The entries of a tree are not in order."
    UnknownType "unknownType" Error "An object is of no known kind."
    ZeroPaddedDate "zeroPaddedDate" Error "The date of an identity begins with a zero."
    GitmodulesMissing "gitmodulesMissing" Error "What `.gitmodules` names is not there."
    GitmodulesBlob "gitmodulesBlob" Error "`.gitmodules` names no blob."
    GitmodulesLarge "gitmodulesLarge" Error "A `.gitmodules` blob is too large to be read."
    GitmodulesName "gitmodulesName" Error "The name of a submodule leads out of its directory."
    GitmodulesSymlink "gitmodulesSymlink" Error "`.gitmodules` is a symbolic link."
    GitmodulesUrl "gitmodulesUrl" Error "The URL of a submodule is dangerous."
    GitmodulesPath "gitmodulesPath" Error "The path of a submodule looks like an option."
    GitmodulesUpdate "gitmodulesUpdate" Error "The update mode of a submodule is a command."
    GitattributesMissing "gitattributesMissing" Error "What `.gitattributes` names is not there."
    GitattributesLarge "gitattributesLarge" Error "A `.gitattributes` blob is too large."
    GitattributesLineLength "gitattributesLineLength" Error "A line of `.gitattributes` is too long."
    GitattributesBlob "gitattributesBlob" Error "`.gitattributes` names no blob."
    EmptyName "emptyName" Warn "An entry of a tree has no name."
    FullPathname "fullPathname" Warn "The name of an entry has a slash."
    HasDot "hasDot" Warn "An entry is named `.`."
    HasDotdot "hasDotdot" Warn "An entry is named `..`."
    HasDotgit "hasDotgit" Warn "An entry is `.git` to some file system."
    NullSha1 "nullSha1" Warn "An entry names the id of no object."
    ZeroPaddedFilemode "zeroPaddedFilemode" Warn "The mode of an entry begins with a zero."
    NulInCommit "nulInCommit" Warn "A commit has a NUL."
    LargePathname "largePathname" Warn "The name of an entry is very long."
    BadFilemode "badFilemode" Info "The mode of an entry is none that git writes."
    GitmodulesParse "gitmodulesParse" Info "A `.gitmodules` blob is no configuration."
    GitignoreSymlink "gitignoreSymlink" Info "`.gitignore` is a symbolic link."
    GitattributesSymlink "gitattributesSymlink" Info "`.gitattributes` is a symbolic link."
    MailmapSymlink "mailmapSymlink" Info "`.mailmap` is a symbolic link."
    BadTagName "badTagName" Info "The name of a tag is not fit for a ref."
    MissingTaggerEntry "missingTaggerEntry" Info "A tag has no tagger."
    ExtraHeaderEntry "extraHeaderEntry" Ignore "A tag has headers behind its tagger."
}

impl FsckId {
    /// Finds an id by its name, whose case does not matter: configuration keys lose theirs.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|id| id.as_str().eq_ignore_ascii_case(name))
    }
}

impl fmt::Display for FsckId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_found_whatever_its_case() {
        for id in FsckId::ALL {
            assert_eq!(FsckId::from_name(id.as_str()), Some(*id));
            assert_eq!(FsckId::from_name(&id.as_str().to_lowercase()), Some(*id));
        }
        assert_eq!(FsckId::from_name("badtree2"), None);
        assert_eq!(FsckId::from_name(""), None);
    }

    #[test]
    fn only_three_words_are_levels() {
        assert_eq!(Level::from_word("warn"), Some(Level::Warn));
        for word in ["Warn", "info", "fatal", "", "warn:10"] {
            assert_eq!(Level::from_word(word), None, "{word}");
        }
    }
}
