//! HEAD of a repository that a push creates.

use super::locking::{create_lock, note_lock};
use super::temporary::Temporary;
use crate::model::RefName;
use crate::refs::error::{Doing, RefError};
use crate::refs::lock::take_lock;
use crate::refs::store::RefStore;
use crate::repo::Component;
use bstr::BStr;

impl RefStore {
    /// Points HEAD at a ref, which need not exist, and makes that durable. No reflog is written.
    pub fn set_head(&self, target: &RefName) -> Result<(), RefError> {
        let context = self.context();
        let (disk, settings) = (&context.disk, &context.settings);
        let head = BStr::new("HEAD");
        let mut value = b"ref: ".to_vec();
        value.extend_from_slice(target.as_bstr());
        value.push(b'\n');
        let mut temporary = Temporary::write(context, &self.temporary_place(head), &value)?;
        let path = context.lock_path(head);
        let note = note_lock(context, &path, Some(&temporary));
        let lock = take_lock(disk, path.clone(), settings.ref_lock_timeout, |path| {
            create_lock(context, path, Some((&temporary, &note)))
        })
        .map_err(|error| RefError::Locked {
            name: head.into(),
            path,
            reason: (&error).into(),
        })?;
        let path = context.ref_path(head);
        temporary.rename_to(&path).doing("rename to", &path)?;
        drop(lock);
        disk.flush_directory(&context.git_dir, Component::Reference)
            .doing("flush", &context.git_dir)
            .map_err(|error| error.after_the_move(head))
    }
}
