//! Images and weights that are defined by formulas, the same as in `tests/golden/formulas.py`.

#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use safetensors::tensor::{Dtype, TensorView, serialize};

use pairloom_images::image::DecodedImage;
use pairloom_kernels::random::Rng;
use pairloom_spec::networks::NetworkParameterSpec;

/// FNV-1a hash.
pub fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

/// Picture that `formula_image` of `tests/golden/formulas.py` draws.
pub fn formula_image(width: usize, height: usize) -> DecodedImage {
    let mut rgb = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let third = if (x / 9 + y / 11) % 2 == 0 { 20 + x % 60 } else { 230 - y % 50 };
        rgb.extend([(3 * x + 5 * y) % 256, x * y / 7 % 256, third].map(|value| u8::try_from(value).unwrap()));
    }
    DecodedImage { width, height, rgb }
}

/// Safetensors file of the weights that `load_formula` of `tests/golden/formulas.py` computes.
pub fn formula_weights(parameters: Vec<NetworkParameterSpec>) -> Vec<u8> {
    let parameters: Vec<(String, Vec<usize>, Vec<u8>)> = parameters
        .into_iter()
        .map(|parameter| {
            let count: usize = parameter.shape.iter().product();
            let mut rng = Rng::new(fnv(parameter.name.as_bytes()), &[]);
            #[expect(clippy::cast_precision_loss, reason = "a parameter has far fewer than 2^53 values")]
            let wide = (6.0 / (count / parameter.shape[0]) as f64).sqrt();
            let positive = parameter.name.ends_with("running_var") || parameter.name.ends_with("weight");
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "24 bits fit both")]
            let bytes = (0..count).flat_map(|_| {
                let unit = (rng.next_u64() >> 40) as f64 / f64::from(1 << 23) - 1.0;
                let value = match parameter.shape.len() {
                    1 if positive => 1.0 + 0.5 * unit,
                    1 => 0.1 * unit,
                    _ => unit * wide,
                };
                (value as f32).to_le_bytes()
            });
            let bytes = bytes.collect();
            (parameter.name, parameter.shape, bytes)
        })
        .collect();
    let views = parameters
        .iter()
        .map(|(name, shape, bytes)| (name, TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap()));
    serialize(views, &None).unwrap()
}

/// Returns the largest absolute difference, and the largest difference relative to the largest value of its row.
pub fn differences<'r>(got: &'r [f32], expected: impl Iterator<Item = &'r Vec<f32>>, width: usize) -> (f32, f32) {
    // `f32::max` ignores NaN.
    assert!(got.iter().all(|value| value.is_finite()));
    let mut largest = (0.0f32, 0.0f32);
    for (got, expected) in got.chunks_exact(width).zip(expected) {
        let scale = expected.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let difference = got.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        largest = (largest.0.max(difference), largest.1.max(difference / scale));
    }
    largest
}
