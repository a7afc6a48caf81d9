//! The load generator, from outside: against the null server, a real one, and none at all.

mod failures;
mod generator;
mod real_server;
mod reports;
mod verification;
