//! Random bytes for secrets.

use crate::error::{Error, Result};

/// Random bytes of the operating system, for tokens and keys. Results never depend on them.
///
/// # Errors
/// The operating system has none.
pub fn random_bytes<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::internal(format!("the operating system gives no random bytes: {error}")))?;
    Ok(bytes)
}

/// `N` random bytes as hexadecimal digits, for tokens and names that no other process has.
///
/// # Errors
/// As [`random_bytes`].
pub fn random_hex<const N: usize>() -> Result<String> {
    Ok(random_bytes::<N>()?.iter().map(|byte| format!("{byte:02x}")).collect())
}
