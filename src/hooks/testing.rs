//! Hooks for the tests of this module.

use super::run::{Feed, Hook, HookError, HookVerdict, Hooks};
use crate::repo::{Disk, Environment};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt;

pub(super) struct Scene {
    pub(super) root: tempfile::TempDir,
    pub(super) hooks: Hooks,
}

pub(super) fn scene() -> Scene {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir(root.path().join("hooks")).unwrap();
    let mut environment = Environment::empty();
    environment.set("PATH", std::env::var_os("PATH").unwrap());
    environment.set("GIT_WORK_TREE", "/nowhere");
    let hooks = Hooks::new(Disk::default(), root.path().to_owned(), None, environment);
    Scene { root, hooks }
}

impl Scene {
    pub(super) fn write(&self, name: &str, text: &str, mode: u32) {
        let path = self.root.path().join("hooks").join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(super) fn run(
        &self,
        name: &str,
        arguments: &[&str],
        feed: Feed<'_>,
    ) -> (Result<HookVerdict, HookError>, String) {
        let Some(Hook::Executable(path)) = self.hooks.find(name).unwrap() else {
            panic!("'{name}' is not there")
        };
        let arguments: Vec<&OsStr> = arguments.iter().map(OsStr::new).collect();
        let mut text = Vec::new();
        let verdict = self.hooks.run(&path, &arguments, feed, &[], &mut |bytes| {
            text.extend_from_slice(bytes);
        });
        (verdict, String::from_utf8(text).unwrap())
    }
}
