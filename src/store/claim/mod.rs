//! Mutual exclusion between processes that use a store: one process at a time builds an artefact, and no artefacts are
//! removed while a run uses the store.
//!
//! In a folder, claims are locks of the operating system ([`lock`](super::lock)). They are released when the process
//! ends, however it ends, and leave nothing behind that affects a later run. At a URL, claims are leases ([`lease`]):
//! objects that their holder rewrites every ten seconds. If an object has not changed for a minute, another process
//! takes the lease over. Processes on the same machine need not wait: a file lock in the user's cache folder shows
//! whether the holder is alive.
//!
//! A process that was suspended for longer than a minute does no harm when it continues. It can neither renew its lease
//! nor overwrite objects of its successor ([`ArtefactClaim::publish`](locks::ArtefactClaim::publish)), and the entries
//! of the journal are created, never replaced.
//!
//! On network disks whose locks other machines may not see, each process that claims an artefact writes a token, and one
//! whose token was replaced cannot publish. So of two builders the later one finishes and the earlier one ends with an
//! error. Between the look at the token and the renaming of a file there is a moment in which the earlier one can replace
//! a file of the later one; its digest then differs, and readers refuse it.

pub mod locks;
mod lease;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod state_machine_tests;

pub use lease::check_conditional_writes;
pub use locks::{ArtefactClaim, StoreLock, claim_artefact, lock_for_reading, lock_for_run, try_lock_for_removal};
