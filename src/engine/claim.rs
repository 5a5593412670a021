//! Who builds an artefact: one process at a time.
//!
//! A claim is a lock that the operating system holds for the process, so it ends with the process however that ends, and
//! leaves nothing behind that a later run could stumble over. Stores that are no folder will claim by a conditional put;
//! the journal refuses a second writer in any case.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::Path;
use std::time::Duration;

use crate::engine::cancel::Cancel;
use crate::engine::store::{Artefact, Store};
use crate::error::{Error, Result};

/// A lock that is given back on drop.
#[derive(Debug)]
pub struct Claim {
    _lock: File,
}

/// Waits until no other process builds the artefact; calls `waiting` once if it has to wait.
///
/// # Errors
/// The lock cannot be made, or the run was cancelled.
pub fn claim(artefact: &Artefact, cancel: &Cancel, waiting: impl FnOnce()) -> Result<Claim> {
    let mut waiting = Some(waiting);
    loop {
        cancel.proceed()?;
        if let Some(claim) = try_claim(artefact)? {
            return Ok(claim);
        }
        if let Some(waiting) = waiting.take() {
            waiting();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The claim, if no other process has it.
fn try_claim(artefact: &Artefact) -> Result<Option<Claim>> {
    lock(&artefact.folder(), File::try_lock)
}

/// The right to use any artefact of the store, shared with other runs, given back on drop. Waits while somebody removes
/// artefacts.
///
/// # Errors
/// The lock cannot be made, or the run was cancelled.
pub fn hold(store: &Store, cancel: &Cancel) -> Result<Claim> {
    loop {
        cancel.proceed()?;
        if let Some(claim) = lock(store.objects().folder(), File::try_lock_shared)? {
            return Ok(claim);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The right to remove artefacts: only while no run uses the store.
///
/// # Errors
/// The lock cannot be made.
pub fn alone(store: &Store) -> Result<Option<Claim>> {
    lock(store.objects().folder(), File::try_lock)
}

fn lock(folder: &Path, how: impl FnOnce(&File) -> Result<(), TryLockError>) -> Result<Option<Claim>> {
    let path = folder.join("lock");
    std::fs::create_dir_all(folder).map_err(|error| Error::io("make the folder", folder, &error))?;
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(|error| Error::io("open the lock", &path, &error))?;
    match how(&file) {
        Ok(()) => Ok(Some(Claim { _lock: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path, &error)),
    }
}
