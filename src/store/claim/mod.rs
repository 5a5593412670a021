//! Who may do what with a store at the same time: one process builds an artefact, and nobody removes artefacts while a run
//! uses the store.
//!
//! In a folder these rights are locks of the operating system ([`lock`](super::lock)). They end with the process however that ends, and
//! leave nothing behind that a later run could stumble over. At a URL they are objects that their holder writes anew every
//! ten seconds ([`lease`]): who sees one stand still for a minute takes it over. On one machine nobody waits that long: a
//! lock in the user's cache folder tells whether the holder lives.
//!
//! A process that was stopped for longer than that and wakes up cannot do harm. It can neither renew its right nor write
//! over what its successor has written ([`Claim::publish`](rights::Claim::publish)), and the entries of the journal are
//! created, never replaced.

pub mod rights;
mod lease;
mod probe;
#[cfg(test)]
mod tests;

pub use probe::check_writable;
pub use rights::{Claim, Hold, alone, claim, hold};
