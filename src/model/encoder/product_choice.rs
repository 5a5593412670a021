//! Choice of the products of a GRU in mixed precision, by a short measurement.
//!
//! The faster library depends on the processor: on those with AVX-512 alone our kernels were as fast as libtorch's, or up to
//! twice as fast; with AMX libtorch's are faster.

use std::time::{Duration, Instant};

use tch::{Device, Kind, Tensor};

use super::matmul::MatmulPrecision;
use super::pooling::to_i64;
use super::state_gradient::StateGradient;
use super::word_states::WordStatesTape;
use pairloom_kernels::product::{ElementType, has_avx512};

/// Captions and words of each, units of the state and width of word vectors that are measured.
const CAPTIONS: usize = 128;
const WORDS: usize = 4;
const STATE: i64 = 1_024;
const WORD: i64 = 300;
/// Measurements of each, of which the fastest counts.
const ROUNDS: usize = 3;
/// Largest share of our time that libtorch may take to be chosen. Close times choose our kernels, so that runs on one
/// machine agree in their bits.
const CLEARLY_FASTER: f64 = 0.8;

/// Returns true if libtorch is clearly faster than our kernels in a GRU in mixed precision on the CPU.
///
/// # Cost
/// Some 0.2 s on two cores.
pub fn is_libtorch_faster() -> bool {
    // Elsewhere libtorch is used in any case.
    if !has_avx512(ElementType::Bf16) {
        return false;
    }
    let [ours, theirs] = [MatmulPrecision::Mixed, MatmulPrecision::MixedByLibtorch].map(fastest_pass);
    theirs.as_secs_f64() < CLEARLY_FASTER * ours.as_secs_f64()
}

/// Time of the fastest forward and backward pass.
#[expect(clippy::disallowed_methods, reason = "the time decides on the library, and is no part of a result")]
fn fastest_pass(precision: MatmulPrecision) -> Duration {
    let options = (Kind::Float, Device::Cpu);
    let words: Vec<i32> = (0..).take(CAPTIONS * WORDS).collect();
    let captions: Vec<&[i32]> = words.chunks(WORDS).collect();
    let small = |size: &[i64]| Tensor::full(size, 0.01, options);
    let parameters = [
        small(&[to_i64(CAPTIONS * WORDS), WORD]),
        small(&[3 * STATE, WORD]),
        small(&[3 * STATE, STATE]),
        small(&[3 * STATE]),
        small(&[3 * STATE]),
    ];
    let gradient = small(&[to_i64(CAPTIONS), STATE]);
    let pass = |_| {
        let clock = Instant::now();
        let tape = WordStatesTape::forward(&captions, &parameters, precision);
        drop(tape.backward(StateGradient::LastWord(&gradient), &parameters, false, precision));
        clock.elapsed()
    };
    tch::no_grad(|| (0..ROUNDS).map(pass).min().unwrap_or_default())
}
