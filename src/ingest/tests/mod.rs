//! Whole packs through [`ingest`](super::ingest), against stock git and against attacks.

mod history;

mod bases;
mod early;
mod from_git;
mod fsck;
mod hostile;
mod limits;
mod random;
mod real_store;
mod splits;
mod threads;
