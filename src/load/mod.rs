//! The load generator: many concurrent pushers against any smart HTTP git server.
//!
//! A client and nothing else: it speaks the protocol of git's own client, checks afterwards that
//! everything acknowledged is there, and knows no module of the server. How it measures, and what
//! it does not measure, is told in docs/LOAD.md.
//!
//! | module | holds |
//! |---|---|
//! | [`settings`], [`mix`], [`target`], [`tls`] | what a run is told |
//! | `content`, `parcel`, `supply` | what is pushed, made ahead |
//! | `connection`, `discovery`, `answer`, `push` | one push on the wire |
//! | `pace`, `pusher`, `side`, [`run`](mod@run), `compare` | who pushes when |
//! | `series`, `recorder`, `timing`, `health` | what is counted |
//! | `ledger`, `verify`, `git` | what was promised, and whether it was kept |
//! | [`summary`], [`report`], [`files`], `numbers`, `progress` | what is told |
//! | [`null_server`] | a server that keeps nothing, to measure the generator with |

mod answer;
mod compare;
mod connection;
mod content;
mod discovery;
pub mod files;
mod git;
mod health;
mod interrupt;
mod ledger;
pub mod mix;
pub mod null_server;
mod numbers;
mod pace;
mod parcel;
mod progress;
mod push;
mod pusher;
mod recorder;
pub mod report;
pub mod run;
mod series;
pub mod settings;
mod side;
pub mod summary;
mod supply;
pub mod target;
mod timing;
pub mod tls;
mod verify;

pub use content::Texture;
pub use run::run;
