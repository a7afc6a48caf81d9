//! Ctrl-C: once to stop and tell what there is, twice to end at once.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Whether somebody wants the run to end.
#[derive(Clone, Debug)]
pub(super) struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Listens for SIGINT and SIGTERM from now on. The second ends the process with status 130.
    pub(super) fn listen() -> io::Result<Self> {
        let interrupt = Self(Arc::default());
        let set = interrupt.clone();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (mut interrupts, mut terminations) = {
            let _inside = runtime.enter();
            (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
        };
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    tokio::select! {
                        _ = interrupts.recv() => {}
                        _ = terminations.recv() => {}
                    }
                    if set.0.swap(true, Ordering::SeqCst) {
                        std::process::exit(INTERRUPTED);
                    }
                    // Nobody can be told if that fails.
                    drop(io::stderr().write_all(STOPPING));
                }
            });
        })?;
        Ok(interrupt)
    }

    /// Whether the run is to end.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// The exit status of a process that ended for SIGINT, as shells have it.
const INTERRUPTED: i32 = 130;
const STOPPING: &[u8] = b"packhouse: stopping; a second Ctrl-C ends at once\n";
