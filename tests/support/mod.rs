//! What the suites share: scratch repositories, stock git, hand-made packs and requests, programs
//! that stand in for those that check signatures, and a reader of answers. Nothing here but `local` uses packhouse, so that a fault in it cannot hide
//! itself.

pub mod answer;
pub mod git;
pub mod local;
pub mod objects;
pub mod request;
pub mod signing;
