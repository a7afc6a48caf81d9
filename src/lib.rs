//! packhouse: a smart git receive server that stores pushes as packs.
//!
//! The modules stand on floors; a module names only modules of floors below its own, or of its
//! own floor where docs/ARCHITECTURE.md draws an arrow. `tests/tidy.rs` enforces it.
//!
//! ```text
//! floor 6  edges   cli   http ← auth   load
//! floor 5  job     receive
//! floor 4  face    report
//! floor 3  engine  ingest → snapshot     connectivity → snapshot     refs     hooks
//! floor 2  world   repo
//! floor 1  pure    wire   pack   fsck → links   access
//! floor 0  words   model
//! ```

pub mod access;
pub mod auth;
pub mod cli;
pub mod connectivity;
pub mod fsck;
pub mod hooks;
pub mod http;
pub mod ingest;
pub mod links;
pub mod load;
pub mod model;
pub mod pack;
pub mod receive;
pub mod refs;
pub mod repo;
pub mod report;
pub mod snapshot;
pub mod wire;
