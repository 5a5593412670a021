//! Random number generator: a pure function of a seed, independent of library versions.
//!
//! SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.

/// Random number generator (SplitMix64).
#[derive(Debug, Clone)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// A generator for a seed and a path of numbers, such as `&[epoch]`. Different paths give independent streams.
    #[must_use]
    pub fn new(seed: u64, path: &[u64]) -> Self {
        let mut this = Self { state: seed };
        for &step in path {
            this.state = this.next_u64() ^ step.wrapping_mul(0xff51_afd7_ed55_8ccd);
        }
        this
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A uniform random integer of `0..n`, with a bias below n / 2⁶⁴.
    ///
    /// # Panics
    /// `n` is 0.
    pub fn uniform_below(&mut self, n: usize) -> usize {
        assert!(n > 0, "no integer is in 0..0");
        #[expect(clippy::cast_possible_truncation, reason = "the high half of the product is below n")]
        let high = ((u128::from(self.next_u64()) * n as u128) >> 64) as usize;
        high
    }

    /// A uniform random number in `[0, 1)`, a multiple of 2⁻⁵³.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit an f64")]
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Two independent normal numbers with mean 0 and this standard deviation (Box and Muller, "A note on the generation
    /// of random normal deviates", 1958).
    pub fn normal_pair(&mut self, deviation: f64) -> [f64; 2] {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt() * deviation;
        let (sine, cosine) = (std::f64::consts::TAU * self.uniform()).sin_cos();
        [radius * cosine, radius * sine]
    }

    /// Shuffles `items` (Fisher and Yates): every order is equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.uniform_below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs for seed 1234567, from the reference implementation (Vigna, `splitmix64.c`).
    #[test]
    fn numbers_match_the_reference_implementation() {
        let mut rng = Rng::new(1_234_567, &[]);
        let got: Vec<u64> = (0..5).map(|_| rng.next_u64()).collect();
        assert_eq!(
            got,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ]
        );
    }

    /// Mean 0, variance 4, and 4.55 % beyond two deviations.
    #[test]
    #[expect(clippy::cast_precision_loss, reason = "counts are small")]
    fn normal_numbers_have_the_moments_and_tails_of_the_distribution() {
        let mut rng = Rng::new(3, &[]);
        let values: Vec<f64> = (0..20_000).flat_map(|_| rng.normal_pair(2.0)).collect();
        let mean =
            |moment: &dyn Fn(f64) -> f64| values.iter().map(|&value| moment(value)).sum::<f64>() / values.len() as f64;
        assert!(mean(&|x| x).abs() < 0.03 && (mean(&|x| x * x) - 4.0).abs() < 0.08);
        assert!((mean(&|x| f64::from(u8::from(x.abs() > 4.0))) - 0.0455).abs() < 0.003);
    }

    #[test]
    fn a_shuffle_keeps_every_item() {
        let mut items: Vec<usize> = (0..1000).collect();
        Rng::new(1, &[2]).shuffle(&mut items);
        assert_ne!(items, (0..1000).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..1000).collect::<Vec<_>>());
    }
}
