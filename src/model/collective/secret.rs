//! Secret by which the ranks of a group know each other.
//!
//! Addresses in the store are signed with it, so a rank connects to ranks only. A process that connects to a rank in the
//! place of another is found out before any rows are exchanged: each rank then sends a random number, and each proves to
//! the others that it knows the secret and got the same numbers.

use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::random_bytes;

/// Key that follows from the token of the ranks.
pub(super) struct RankSecret([u8; blake3::KEY_LEN]);

impl RankSecret {
    pub(super) fn of(token: &str) -> Self {
        Self(blake3::derive_key("pairloom 2026 collectives of ranks", token.as_bytes()))
    }

    pub(super) fn bytes(&self) -> &[u8; blake3::KEY_LEN] {
        &self.0
    }

    /// Checks that all processes of a group know the secret. `gather` gathers bytes of all ranks; `own` is this rank.
    ///
    /// # Errors
    /// A process does not know it, or is lost.
    pub(super) fn check(&self, own: usize, gather: impl Fn(&[u8]) -> Result<Vec<Vec<u8>>>) -> Result<()> {
        let numbers = gather(&random_bytes::<32>()?)?.concat();
        let proof = |rank: usize| keyed_hash(&self.0, &rank.to_le_bytes(), &numbers);
        let proofs = gather(proof(own).as_bytes())?;
        let wrong = proofs
            .iter()
            .enumerate()
            .find(|(rank, got)| !blake3::Hash::from_slice(got).is_ok_and(|got| got == proof(*rank)));
        match wrong {
            None => Ok(()),
            Some((rank, _)) => {
                Err(Error::peer(format!("a process without the token of the ranks took the place of rank {rank}")))
            }
        }
    }
}

/// Signature of a value. It includes the name, so that a value cannot be moved to another name.
pub(super) fn keyed_hash(secret: &[u8; blake3::KEY_LEN], name: &[u8], value: &[u8]) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(secret);
    hasher.update(&(name.len() as u64).to_le_bytes()).update(name).update(value);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_process_without_the_secret_is_named() {
        let secret = RankSecret::of("a");
        let other = |token: &str, place: usize, own: &[u8], numbers: &[u8]| {
            // Random numbers first, then the proof over those of both ranks.
            let proof = keyed_hash(RankSecret::of(token).bytes(), &1usize.to_le_bytes(), numbers);
            if place == 0 { vec![own.to_vec(), vec![7; 32]] } else { vec![own.to_vec(), proof.as_bytes().to_vec()] }
        };
        for (token, is_right) in [("a", true), ("b", false)] {
            let (calls, numbers) = (Cell::new(0), Cell::new(vec![]));
            let checked = secret.check(0, |own| {
                let all = other(token, calls.replace(calls.get() + 1), own, &numbers.take());
                numbers.set(all.concat());
                Ok(all)
            });
            match checked {
                Ok(()) => assert!(is_right),
                Err(error) => assert!(!is_right && error.to_string().ends_with("took the place of rank 1"), "{error}"),
            }
        }
    }
}
