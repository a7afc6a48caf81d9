//! How the server stops: the stages, and who has to be waited for.

use std::sync::Arc;
use tokio::sync::watch;

/// How far the server has come in stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// It does not.
    Running,
    /// No new connections; what runs goes on.
    Draining,
    /// Pushes that have not committed yet are asked to stop.
    Cancelling,
}

/// The server's own side.
#[derive(Debug)]
pub(super) struct StopControl {
    stage: watch::Sender<Stage>,
    living: Arc<watch::Sender<usize>>,
}

/// The side of those who run: they see the stage, and may hold the end back.
#[derive(Clone, Debug)]
pub(super) struct StopSignal {
    stage: watch::Receiver<Stage>,
    living: Arc<watch::Sender<usize>>,
}

/// Holds the server's end back while it lives.
#[derive(Debug)]
pub(super) struct Alive(Arc<watch::Sender<usize>>);

impl StopControl {
    pub(super) fn new() -> Self {
        let living = Arc::new(watch::Sender::new(0));
        Self { stage: watch::Sender::new(Stage::Running), living }
    }

    pub(super) fn signal(&self) -> StopSignal {
        StopSignal { stage: self.stage.subscribe(), living: Arc::clone(&self.living) }
    }

    pub(super) fn enter(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Waits until nothing is alive.
    pub(super) async fn all_gone(&self) {
        // No error: the sender is ours.
        drop(self.living.subscribe().wait_for(|count| *count == 0).await);
    }
}

impl StopSignal {
    /// Resolves once the server stops.
    pub(super) async fn draining(&mut self) {
        self.reached(Stage::Draining).await;
    }

    /// Resolves once running pushes are asked to stop.
    pub(super) async fn cancelling(&mut self) {
        self.reached(Stage::Cancelling).await;
    }

    /// Holds the server's end back.
    pub(super) fn hold(&self) -> Alive {
        self.living.send_modify(|count| *count = count.saturating_add(1));
        Alive(Arc::clone(&self.living))
    }

    async fn reached(&mut self, stage: Stage) {
        // An error means that the server itself is gone, which is as good a reason.
        drop(self.stage.wait_for(|current| *current >= stage).await);
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tokio::time::timeout;

    const SHORT: Duration = Duration::from_millis(20);

    #[tokio::test]
    async fn the_end_waits_for_the_living() {
        let control = StopControl::new();
        let signal = control.signal();
        timeout(SHORT, control.all_gone()).await.unwrap();
        let (first, second) = (signal.hold(), signal.clone().hold());
        drop(first);
        assert!(timeout(SHORT, control.all_gone()).await.is_err());
        drop(second);
        timeout(SHORT, control.all_gone()).await.unwrap();
    }

    #[tokio::test]
    async fn stages_are_seen_also_by_those_who_come_late() {
        let control = StopControl::new();
        let mut signal = control.signal();
        assert!(timeout(SHORT, signal.draining()).await.is_err());
        control.enter(Stage::Draining);
        signal.draining().await;
        assert!(timeout(SHORT, signal.cancelling()).await.is_err());
        control.enter(Stage::Cancelling);
        control.signal().cancelling().await;
        signal.draining().await;
    }
}
