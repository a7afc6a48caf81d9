//! Which kinds of files are flushed before a push is acknowledged.

/// What a flush makes durable, in the words of git's `core.fsync` (git-config(1)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Loose object files.
    LooseObject,
    /// Packs.
    Pack,
    /// Pack indexes, reverse indexes and keep files.
    PackMetadata,
    /// Refs, packed-refs, reflogs, `shallow`, HEAD and a fresh repository.
    Reference,
}

impl Component {
    fn bit(self) -> u8 {
        match self {
            Self::LooseObject => 1,
            Self::Pack => 2,
            Self::PackMetadata => 4,
            Self::Reference => 8,
        }
    }
}

/// The set of components that are flushed. [`FlushPolicy::FULL`] is packhouse's promise;
/// anything less is what an operator asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlushPolicy {
    components: u8,
    directories: bool,
}

impl FlushPolicy {
    /// Everything: files and the directory entries that name them.
    pub const FULL: Self = Self { components: 0b1111, directories: true };

    /// git's own defaults (`core.fsync=default`): packs and their metadata, no loose objects, no
    /// refs, no directories. For comparisons.
    pub const GIT: Self = Self { components: 0b0110, directories: false };

    /// Nothing at all.
    pub const NONE: Self = Self { components: 0, directories: false };

    /// This policy with one component added or taken away.
    #[must_use]
    pub fn with(self, component: Component, flushed: bool) -> Self {
        let components = if flushed {
            self.components | component.bit()
        } else {
            self.components & !component.bit()
        };
        Self { components, ..self }
    }

    /// Whether files of this kind are flushed.
    pub fn flushes(self, component: Component) -> bool {
        self.components & component.bit() != 0
    }

    /// Whether the directories that name files of this kind are flushed.
    pub fn flushes_directories_of(self, component: Component) -> bool {
        self.directories && self.flushes(component)
    }
}

impl Default for FlushPolicy {
    fn default() -> Self {
        Self::FULL
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_can_be_taken_away_and_put_back() {
        let weak = FlushPolicy::FULL.with(Component::Reference, false);
        assert!(!weak.flushes(Component::Reference));
        assert!(!weak.flushes_directories_of(Component::Reference));
        assert!(weak.flushes(Component::Pack));
        assert_eq!(weak.with(Component::Reference, true), FlushPolicy::FULL);
    }

    #[test]
    fn git_flushes_packs_and_no_directory() {
        assert!(FlushPolicy::GIT.flushes(Component::PackMetadata));
        assert!(!FlushPolicy::GIT.flushes(Component::LooseObject));
        assert!(!FlushPolicy::GIT.flushes_directories_of(Component::Pack));
    }
}
