//! Everything that is tested from outside: with stock clients, raw requests, stock git as the
//! oracle, races, crashes and hostile bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::pedantic, reason = "tests are read by example, not by lint")]
#![expect(unreachable_pub, reason = "what the suites share is public to them")]

mod support;

mod budget;
mod crash;
mod fuzz;
mod hostile;
mod http;
mod load;
mod oracle;
mod properties;
mod push;
mod race;
mod stdio;
