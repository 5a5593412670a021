//! Verification of results: reads every part and file, and compares its digest with the recorded one.

use super::artefact::{Artefact, Manifest};
use pairloom_base::error::{Error, ErrorCategory, Result};

/// Reads all parts and files of a complete artefact, and returns the errors of those that are damaged or missing. The
/// artefact is then marked, so that the next run builds it again. `progress` gets the bytes of each object.
///
/// # Errors
/// The store cannot be read.
pub fn verify_artefact(artefact: &Artefact, manifest: &Manifest, progress: &dyn Fn(u64)) -> Result<Vec<Error>> {
    let mut damage = Vec::new();
    for (name, bytes, digest) in manifest.objects() {
        match artefact.read(&name, bytes, digest) {
            Ok(_) => {}
            Err(error) if error.category() == ErrorCategory::Data => damage.push(error),
            Err(error) => return Err(error),
        }
        progress(bytes);
    }
    Ok(damage)
}
