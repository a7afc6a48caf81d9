//! Reading the operator's files again when somebody asks for it.

use super::site::Site;
use std::sync::Arc;
use tokio::task::spawn_blocking;

/// Reads the files of users and rules of a server again.
#[derive(Clone)]
pub struct Reloader(pub(super) Arc<Site>);

impl Reloader {
    /// Reads them, changed or not. What is broken stays as it was, and the log says so.
    pub async fn reload(&self) {
        let site = Arc::clone(&self.0);
        // A panic in it is in the log, and what was read before stands.
        let _ = spawn_blocking(move || site.reload()).await;
    }
}
