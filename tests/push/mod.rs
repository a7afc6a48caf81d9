//! The stock git client against a real server.

mod authorization;
mod basics;
mod by_gix;
mod credentials;
mod shallow;
mod surroundings;
pub mod work;
