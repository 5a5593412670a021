//! Comparison of CLIP with `open_clip`. `tests/golden/clip.py` wrote the golden values.

use serde::Deserialize;

use super::network::{ImageNetwork, NetworkOutput};
use super::testing::{differences, fnv, formula_image, formula_weights};
use super::transformer::{TextEncoder, text_tower_architecture};
use pairloom_kernels::normalize;
use pairloom_kernels::resize::{CropPlace, resize_and_crop};
use pairloom_spec::networks::{ClipSizes, Layer, Network, NetworkParameterSpec};

#[derive(Deserialize)]
struct ClipGolden {
    texts: Vec<Vec<i32>>,
    pixels: Vec<(usize, f32)>,
    outputs: Vec<ClipOutputs>,
    networks: Vec<ClipNames>,
}

#[derive(Deserialize)]
struct ClipOutputs {
    quick_gelu: bool,
    images: Vec<Vec<f32>>,
    texts: Vec<Vec<f32>>,
}

#[derive(Deserialize)]
struct ClipNames {
    name: Network,
    names: String,
}

fn golden() -> ClipGolden {
    serde_json::from_value(test_data::golden_json("clip.json")).unwrap()
}

/// Small CLIP for tests.
pub(super) const SMALL: ClipSizes = ClipSizes {
    patch: 16,
    side: 48,
    image_width: 64,
    image_blocks: 3,
    text_width: 96,
    text_blocks: 2,
    embedding: 40,
    words: 300,
    head: 32,
};

/// Parameters of both towers.
fn parameters(architecture: &pairloom_spec::networks::Architecture) -> Vec<NetworkParameterSpec> {
    let text = text_tower_architecture(architecture.text.as_ref().expect("a text tower"));
    [architecture.parameters(), text.parameters()].concat()
}

#[test]
fn both_towers_equal_open_clip() {
    let golden = golden();
    for case in golden.outputs {
        let activation = if case.quick_gelu { Layer::QuickGelu } else { Layer::Gelu };
        let architecture = SMALL.architecture(&activation);
        let weights = formula_weights(parameters(&architecture));
        let mut pixels = Vec::new();
        for (width, height) in [(160, 120), (120, 190)] {
            let square = architecture.input.square(CropPlace::Centre);
            let square = resize_and_crop(&formula_image(width, height).rgb, width, height, square);
            let mut channels = vec![0.0; square.len()];
            normalize::to_channels(&square, 48, architecture.input.statistics, false, &mut channels);
            pixels.extend(channels);
        }
        for (place, expected) in &golden.pixels {
            assert_eq!(pixels[*place], *expected, "value {place}");
        }
        let image_tower = ImageNetwork::from_file(architecture.clone(), &weights, tch::Device::Cpu).unwrap();
        let images = image_tower.compute(&pixels, 48, NetworkOutput::Embedding).unwrap();
        let text_tower = architecture.text.as_ref().expect("a text tower");
        let text_tower = TextEncoder::from_tower(text_tower, &weights, tch::Device::Cpu).unwrap();
        let texts = text_tower.encode(&golden.texts).unwrap();
        for (title, got, expected) in [("images", images, case.images), ("texts", texts, case.texts)] {
            assert_eq!(got.len(), expected.len() * 40);
            let (_, relative) = differences(&got, expected.iter(), 40);
            println!("{title}, QuickGELU {}: {relative:.1e}", case.quick_gelu);
            assert!(relative < 1e-5, "{title}, QuickGELU {}: {relative}", case.quick_gelu);
        }
        // The vector of a text does not depend on the longer texts of its batch.
        let alone = text_tower.encode(&golden.texts[1..2]).unwrap();
        let together = text_tower.encode(&golden.texts).unwrap();
        assert!(alone.iter().zip(&together[40..80]).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

#[test]
fn parameters_have_the_names_and_shapes_of_open_clip() {
    for case in golden().networks {
        let mut parameters = parameters(&case.name.architecture());
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        let lines: String = parameters.iter().map(|p| format!("{} {:?}\n", p.name, p.shape)).collect();
        assert_eq!(format!("{:016x}", fnv(lines.as_bytes())), case.names, "{}", case.name.name());
    }
}
