//! Pseudo-random permutation that is computed for each index, without a table.
//!
//! A Feistel network over the smallest number of bits that holds `n`, applied until the value is below `n` (cycle
//! walking): Black, Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002. The widths of the two halves can
//! differ by one bit, so that less than half of the values are skipped.

use crate::random::Rng;

/// Rounds of the network. Four give a pseudo-random permutation of a large domain (Luby and Rackoff, 1988); more make
/// small domains, of a few samples, nearly uniform too.
const ROUNDS: usize = 8;

/// Minimum number of bits, since smaller halves mix badly. For a few samples, more values are skipped in exchange.
const MIN_BITS: u32 = 8;

/// A permutation of `0..n`.
#[derive(Debug, Clone)]
pub struct Permutation {
    n: u64,
    /// Bits of the two halves.
    high: u32,
    low: u32,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` for a seed and a path of numbers, as in [`Rng::new`].
    #[must_use]
    pub fn new(n: usize, seed: u64, path: &[u64]) -> Self {
        let mut rng = Rng::new(seed, path);
        let keys = std::array::from_fn(|_| rng.next_u64());
        let n = n as u64;
        let bits = (u64::BITS - n.saturating_sub(1).leading_zeros()).max(MIN_BITS);
        Self { n, high: bits / 2, low: bits - bits / 2, keys }
    }

    /// The value at `place`. Takes about 20 ns on average.
    ///
    /// # Panics
    /// `place` is not below `n`.
    #[must_use]
    pub fn at(&self, place: usize) -> usize {
        let mut value = place as u64;
        assert!(value < self.n, "place {value} of a permutation of {}", self.n);
        loop {
            value = self.scramble(value);
            if value < self.n {
                return usize::try_from(value).expect("below a usize");
            }
        }
    }

    /// A bijection of all values of `high + low` bits.
    fn scramble(&self, value: u64) -> u64 {
        let (mut left, mut right) = (value >> self.low, value & mask(self.low));
        // The halves swap, with their widths, in every round. After an even number of rounds the widths are as at
        // first.
        for (round, key) in self.keys.iter().enumerate() {
            let width = if round % 2 == 0 { self.high } else { self.low };
            (left, right) = (right, left ^ (mix(right ^ key) & mask(width)));
        }
        (left << self.low) | right
    }
}

fn mask(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
