//! Names of checkpoints, and payloads sealed with them.

use super::progress::Progress;
use crate::error::Result;
use crate::kernels::identity::Fields;

/// Version of names and payloads: raised when the same question has other bytes than before.
const VERSION: usize = 2;

/// The name of what follows from these fields, and from nothing else: a digest.
pub fn name(identity: impl FnOnce(&mut Fields<'_>)) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut sink = |bytes: &[u8]| {
        hasher.update(bytes);
    };
    let mut fields = Fields::new(&mut sink);
    fields.text("search");
    fields.number(VERSION);
    identity(&mut fields);
    hasher.finalize().to_hex()[..32].to_owned()
}

/// The payload that was saved under a name, if it still is what was saved.
pub fn load(progress: &mut dyn Progress, name: &str) -> Result<Option<Vec<i32>>> {
    let Some(store) = progress.checkpoints() else { return Ok(None) };
    let unsealed = |mut payload: Vec<i32>| {
        let found = payload.pop()?;
        (found == seal(name, &payload)).then_some(payload)
    };
    Ok(store.load(name)?.and_then(unsealed))
}

/// Saves a payload under a name, sealed with it.
pub fn save(progress: &mut dyn Progress, name: &str, mut payload: Vec<i32>) -> Result<()> {
    let Some(store) = progress.checkpoints() else { return Ok(()) };
    payload.push(seal(name, &payload));
    store.save(name, payload)
}

/// Checksum of a payload and its name.
fn seal(name: &str, payload: &[i32]) -> i32 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    for piece in payload.chunks(1 << 12) {
        let bytes: Vec<u8> = piece.iter().flat_map(|number| number.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
    i32::from_le_bytes([a, b, c, d])
}
