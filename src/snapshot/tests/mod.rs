//! What a snapshot promises, asked of repositories that stock git made.

mod damage;
mod following;
mod freshness;
mod indexes;
mod loose;
mod multi_pack_index;
mod quarantine;
mod races;
mod reading;
