//! Names of checkpoints, and their payloads with checksums.

use super::progress::SearchProgress;
use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;

/// Version of names and payloads, raised when the same request gets other bytes.
const VERSION: usize = 3;

/// Name of a checkpoint whose content depends on these fields and on nothing else: their digest.
pub fn checkpoint_name(identity: impl FnOnce(&mut IdentityWriter<'_>)) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut sink = |bytes: &[u8]| {
        hasher.update(bytes);
    };
    let mut fields = IdentityWriter::new(&mut sink);
    fields.write_text("search");
    fields.write_usize(VERSION);
    identity(&mut fields);
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Loads the payload that was saved under a name; `None` if it is absent or its checksum is wrong.
pub fn load(progress: &mut dyn SearchProgress, name: &str) -> Result<Option<Vec<i32>>> {
    let Some(store) = progress.checkpoint_store() else { return Ok(None) };
    Ok(store.load(name)?.and_then(|sealed| unseal(name, sealed)))
}

/// Saves a payload under a name, with a checksum.
pub fn save(progress: &mut dyn SearchProgress, name: &str, payload: Vec<i32>) -> Result<()> {
    let Some(store) = progress.checkpoint_store() else { return Ok(()) };
    store.save(name, seal(name, payload))
}

/// Appends the checksum of a payload and its name.
pub fn seal(name: &str, mut payload: Vec<i32>) -> Vec<i32> {
    payload.push(checksum(name, &payload));
    payload
}

/// Payload without its checksum; `None` if that is wrong.
pub fn unseal(name: &str, mut sealed: Vec<i32>) -> Option<Vec<i32>> {
    let found = sealed.pop()?;
    (found == checksum(name, &sealed)).then_some(sealed)
}

/// Checksum of a payload and its name.
fn checksum(name: &str, payload: &[i32]) -> i32 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    for piece in payload.chunks(1 << 12) {
        let bytes: Vec<u8> = piece.iter().flat_map(|number| number.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
    i32::from_le_bytes([a, b, c, d])
}
