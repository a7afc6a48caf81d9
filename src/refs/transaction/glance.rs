//! A look at a ref without its lock: whether an edit is bound to fail.

use super::edit::Expected;
use crate::model::RefName;
use crate::refs::error::RefError;
use crate::refs::store::RefStore;

/// What a look without a lock tells of an edit.
#[derive(Clone, Debug)]
pub enum Glance {
    /// The ref is as expected. It may be otherwise by the time its lock is held.
    Stands,
    /// The ref is not as expected: a transaction that looked at this moment would have failed with
    /// this error.
    Refused(RefError),
    /// The ref is symbolic, or cannot be read: only a transaction can tell.
    Unclear,
}

impl RefStore {
    /// Compares a ref with what an edit expects of it. It costs one read of its file; packed-refs
    /// is shared.
    pub fn glance(&self, name: &RefName, expected: Expected) -> Glance {
        match self.resolve(name) {
            Ok(resolved) if !resolved.is_symbolic() => {
                let compared = expected.check(name.as_bstr(), resolved.target(), resolved.id);
                compared.map_or_else(Glance::Refused, |()| Glance::Stands)
            }
            Ok(_) | Err(_) => Glance::Unclear,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::testing::{TestRepository, commit, name};
    use crate::refs::{Change, RefEdit, RefTransaction};

    const X: &str = "refs/heads/x";

    #[test]
    fn a_glance_says_what_a_transaction_says() {
        let (zero, one) = (commit(0), commit(1));
        for packed in [None, Some(zero)] {
            for loose in [None, Some(zero)] {
                for expected in
                    [Expected::MustNotExist, Expected::MustBe(zero), Expected::MustBe(one)]
                {
                    let repository = TestRepository::new();
                    if let Some(id) = packed {
                        repository.write("packed-refs", format!("{id} {X}\n"));
                    }
                    if let Some(id) = loose {
                        repository.set(X, id);
                    }
                    let store = repository.store();
                    let glance = store.glance(&name(X), expected);
                    let change = Change::Set(one);
                    let edit = RefEdit { name: name(X), expected, change, message: "push".into() };
                    let result = RefTransaction::new(&store).apply_each(&[edit]).remove(0);
                    match (glance, result) {
                        (Glance::Stands, Ok(_)) => {}
                        (Glance::Refused(ours), Err(theirs)) => {
                            assert_eq!(ours.to_string(), theirs.to_string());
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn symbolic_and_broken_refs_are_left_to_the_transaction() {
        let repository = TestRepository::new();
        repository.set(X, commit(0));
        repository.write("refs/heads/s", format!("ref: {X}\n"));
        repository.write("refs/heads/b", "no id\n");
        for text in ["refs/heads/s", "refs/heads/b"] {
            let glance = repository.store().glance(&name(text), Expected::MustBe(commit(1)));
            assert!(matches!(glance, Glance::Unclear), "{text} {glance:?}");
        }
    }
}
