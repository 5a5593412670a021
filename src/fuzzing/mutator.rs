//! Damages files: the same ones for the same seed.

use pairloom_kernels::random::Rng;

/// Limits of the types of numbers, and of encodings of variable length.
const NUMBERS: [u64; 9] = [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, u64::MAX];

/// Source of damaged files.
pub(super) struct Mutator {
    random: Rng,
}

impl Mutator {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Rng::new(seed, &[]) }
    }

    fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { self.random.uniform_below(n) }
    }

    /// One of the files with one to four changes.
    pub(super) fn damaged(&mut self, files: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = files[self.below(files.len())].clone();
        for _ in 0..=self.below(4) {
            self.change(&mut bytes, files);
        }
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, files: &[Vec<u8>]) {
        let place = self.below(bytes.len());
        match self.below(8) {
            0 if !bytes.is_empty() => bytes[place] ^= 1 << self.below(8),
            1 if !bytes.is_empty() => bytes[place] = self.below(256).to_le_bytes()[0],
            2 => bytes.truncate(place),
            3 => {
                let number = NUMBERS[self.below(NUMBERS.len())].to_le_bytes();
                let width = 1 << self.below(4);
                for (byte, new) in bytes[place..].iter_mut().zip(&number[..width]) {
                    *byte = *new;
                }
            }
            4 => {
                let end = (place + self.below(64)).min(bytes.len());
                bytes.drain(place..end);
            }
            5 => {
                let piece = bytes[place..(place + self.below(64)).min(bytes.len())].to_vec();
                let at = self.below(bytes.len());
                bytes.splice(at..at, piece);
            }
            6 => {
                let other = &files[self.below(files.len())];
                let from = self.below(other.len());
                bytes.truncate(place);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => {
                let piece: Vec<u8> = (0..self.below(16)).map(|_| self.below(256).to_le_bytes()[0]).collect();
                bytes.splice(place..place, piece);
            }
        }
    }
}
