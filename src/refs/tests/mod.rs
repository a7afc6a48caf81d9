//! Tests of refs as a whole, mostly with stock git as the judge.

mod batches;
mod faults;
mod in_flight;
mod oracle;
mod order;
mod races;
mod replay;
mod transactions;
mod witness;
