//! Who builds an artefact: one process at a time.
//!
//! A claim is a lock that the operating system holds for the process, so it ends with the process however that ends, and
//! leaves nothing behind that a later run could stumble over. Stores that are no folder will claim by a conditional put;
//! the journal refuses a second writer in any case.

use std::fs::{File, OpenOptions, TryLockError};
use std::time::Duration;

use crate::engine::cancel::Cancel;
use crate::engine::store::Artefact;
use crate::error::{Error, Result};

/// The right to build an artefact, given back on drop.
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
///
/// # Errors
/// The lock cannot be made.
pub fn try_claim(artefact: &Artefact) -> Result<Option<Claim>> {
    let folder = artefact.folder();
    let path = folder.join("lock");
    std::fs::create_dir_all(&folder).map_err(|error| Error::io("make the folder", &folder, &error))?;
    let open = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = open.map_err(|error| Error::io("open the lock", &path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Claim { _lock: file })),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(Error::io("lock", &path, &error)),
    }
}
