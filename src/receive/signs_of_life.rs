//! What a client hears while a large pack is worked on: progress, and packets that say nothing.
//!
//! git shows the progress of resolving deltas at once and by the terminal's leave; here it shows
//! only once it has taken two seconds, as git's other progress does, so that no ordinary push says
//! a word. An empty packet goes out when nothing else has for `receive.keepAlive` seconds, from when
//! the whole pack has come: before that the client is busy sending.

use super::channel::Channel;
use crate::model::UnpackProgress;
use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// What the client is to hear.
#[derive(Clone, Copy, Debug)]
pub(super) struct SignsOfLife {
    /// `receive.keepAlive`; none for never.
    pub(super) keep_alive: Option<Duration>,
    /// Whether the client wants to see progress.
    pub(super) shows_progress: bool,
}

/// Bytes of a pack from which a thread is started for it. One that is smaller is done before
/// anybody could miss a word.
const LARGE_BYTES: u64 = 1 << 20;

/// How long progress waits before it shows at all.
const PATIENCE: Duration = Duration::from_secs(2);

/// How often the thread looks.
const INTERVAL: Duration = Duration::from_millis(250);

impl SignsOfLife {
    /// Does `work` with the pack from `input`, and lets `answer` show how that goes on if the pack
    /// is large.
    pub(super) fn during<T>(
        self,
        answer: &mut Channel<'_>,
        progress: &UnpackProgress,
        input: &mut dyn Read,
        work: impl FnOnce(&mut dyn Read) -> T,
    ) -> T {
        if !answer.is_banded() || (self.keep_alive.is_none() && !self.shows_progress) {
            return work(input);
        }
        let (done, is_done) = channel::<()>();
        thread::scope(|scope| {
            let start = move || {
                let show = move || self.show(answer, progress, &is_done);
                // Where there is no thread to be had, the client waits in silence.
                drop(thread::Builder::new().spawn_scoped(scope, show));
            };
            let result = work(&mut Counted { input, bytes: 0, start: Some(start) });
            // The thread sees that the other end is gone.
            drop(done);
            result
        })
    }

    fn show(self, answer: &mut Channel<'_>, progress: &UnpackProgress, is_done: &Receiver<()>) {
        let mut came: Option<Instant> = None;
        let mut spoke = Instant::now();
        let mut shown = None;
        loop {
            let ended = is_done.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout);
            let Some((resolved, deltas)) = progress.resolved() else {
                if ended {
                    return;
                }
                continue;
            };
            let since = came.get_or_insert_with(|| {
                spoke = Instant::now();
                spoke
            });
            let all_done = resolved == deltas;
            let percent = (resolved * 100).checked_div(deltas);
            let is_long = shown.is_some() || since.elapsed() >= PATIENCE;
            let is_news = percent.is_some() && (percent != shown || (ended && all_done));
            if self.shows_progress && is_long && is_news {
                let percent = percent.unwrap_or_default();
                let end = if ended && all_done { ", done.\n" } else { "\r" };
                let text = format!("Resolving deltas: {percent:3}% ({resolved}/{deltas}){end}");
                answer.message(text.as_bytes());
                (shown, spoke) = (Some(percent), Instant::now());
            } else if self.keep_alive.is_some_and(|often| spoke.elapsed() >= often) {
                answer.keep_alive();
                spoke = Instant::now();
            }
            if ended {
                return;
            }
        }
    }
}

/// Starts something once enough bytes have come.
struct Counted<'a, F> {
    input: &'a mut dyn Read,
    bytes: u64,
    start: Option<F>,
}

impl<F: FnOnce()> Read for Counted<'_, F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.input.read(buffer)?;
        self.bytes = self.bytes.saturating_add(u64::try_from(length).unwrap_or(u64::MAX));
        if self.bytes >= LARGE_BYTES
            && let Some(start) = self.start.take()
        {
            start();
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Client;
    use super::*;

    #[derive(Default)]
    struct Heard(Vec<u8>);

    impl Client for Heard {
        fn begin(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.0.extend_from_slice(bytes);
            Ok(())
        }

        fn diagnose(&mut self, _: &[u8]) {}
    }

    /// What is heard while a pack of this many bytes is read and then resolved for so long.
    fn heard(signs: SignsOfLife, bytes: usize, milliseconds: u64) -> String {
        let mut client = Heard::default();
        let mut answer = Channel::new(&mut client, true);
        let progress = UnpackProgress::default();
        let pack = vec![0; bytes];
        let read = signs.during(&mut answer, &progress, &mut pack.as_slice(), |input| {
            let mut all = Vec::new();
            input.read_to_end(&mut all).unwrap();
            progress.note_arrival(8);
            progress.add_resolved(2);
            thread::sleep(Duration::from_millis(milliseconds));
            progress.add_resolved(6);
            all.len()
        });
        assert_eq!(read, bytes);
        String::from_utf8(client.0).unwrap()
    }

    const SHORT: Duration = Duration::from_millis(300);

    #[test]
    fn a_small_pack_and_one_that_is_done_soon_are_taken_in_silence() {
        let signs = SignsOfLife { keep_alive: Some(SHORT), shows_progress: true };
        assert_eq!(heard(signs, 1000, 700), "");
        let patient = SignsOfLife { keep_alive: Some(Duration::from_secs(5)), ..signs };
        assert_eq!(heard(patient, 2 << 20, 300), "");
    }

    #[test]
    fn empty_packets_go_out_while_a_large_pack_is_resolved() {
        let signs = SignsOfLife { keep_alive: Some(SHORT), shows_progress: false };
        let heard = heard(signs, 2 << 20, 1500);
        assert!(heard.len() >= 10 && heard.replace("0005\u{1}", "").is_empty(), "{heard:?}");
    }

    #[test]
    fn progress_shows_after_two_seconds_and_ends_with_a_word() {
        let signs = SignsOfLife { keep_alive: None, shows_progress: true };
        let heard = heard(signs, 2 << 20, 4000);
        assert!(heard.starts_with("0022\u{2}Resolving deltas:  25% (2/8)\r"), "{heard:?}");
        assert!(heard.ends_with("\u{2}Resolving deltas: 100% (8/8), done.\n"), "{heard:?}");
    }
}
