//! Comparison with torchvision: on formula images with golden values, and on photographs if they are available.
//!
//! `tests/golden/extract.py` wrote the golden values and describes how to run the check on photographs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::Deserialize;

use super::{Network, preprocess};
use crate::io::image::{DecodedImage, decode};
use crate::kernels::random::Rng;
use crate::kernels::resize::resize_and_crop;
use crate::model::cnn::{Cnn, CnnOutput};

#[derive(Deserialize)]
struct ExtractGolden {
    resized: Vec<ResizedGolden>,
    decoded: Vec<DecodedGolden>,
    networks: Vec<NetworkGolden>,
}

#[derive(Deserialize)]
struct ResizedGolden {
    size: [usize; 2],
    resize: usize,
    crop: usize,
    digest: String,
    middle: Vec<u8>,
}

#[derive(Deserialize)]
struct DecodedGolden {
    name: String,
    bytes: String,
    size: [usize; 2],
    rgb: String,
}

#[derive(Deserialize)]
struct NetworkGolden {
    name: Network,
    parameters: usize,
    names: String,
    #[serde(default)]
    average: Vec<Vec<f32>>,
    #[serde(default)]
    scores: Vec<Vec<f32>>,
}

fn golden() -> ExtractGolden {
    serde_json::from_value(test_data::golden_json("extract.json")).unwrap()
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn formula_image(width: usize, height: usize) -> DecodedImage {
    let mut rgb = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let third = if (x / 9 + y / 11) % 2 == 0 { 20 + x % 60 } else { 230 - y % 50 };
        rgb.extend([(3 * x + 5 * y) % 256, x * y / 7 % 256, third].map(|value| u8::try_from(value).unwrap()));
    }
    DecodedImage { width, height, rgb }
}

/// Safetensors file of the weights that `load_formula` of `tests/golden/extract.py` computes.
fn formula_weights(network: Network) -> Vec<u8> {
    let parameters: Vec<(String, Vec<usize>, Vec<u8>)> = network
        .architecture()
        .parameters()
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

fn load(network: Network, weights: &[u8]) -> Cnn {
    Cnn::from_file(network.architecture(), weights, tch::Device::Cpu).unwrap()
}

/// Returns the largest absolute difference, and the largest difference relative to the largest value of its row.
fn differences<'r>(got: &'r [f32], wanted: impl Iterator<Item = &'r Vec<f32>>, width: usize) -> (f32, f32) {
    // `f32::max` ignores NaN.
    assert!(got.iter().all(|value| value.is_finite()));
    let mut largest = (0.0f32, 0.0f32);
    for (got, wanted) in got.chunks_exact(width).zip(wanted) {
        let scale = wanted.iter().fold(0.0f32, |most, value| most.max(value.abs()));
        let difference = got.iter().zip(wanted).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        largest = (largest.0.max(difference), largest.1.max(difference / scale));
    }
    largest
}

#[test]
fn resized_images_equal_torchvision_to_the_bit() {
    for case in golden().resized {
        let [width, height] = case.size;
        let got = resize_and_crop(&formula_image(width, height).rgb, width, height, case.resize, case.crop);
        assert_eq!(got[got.len() / 2..][..60], case.middle, "{width} × {height}");
        assert_eq!(format!("{:016x}", fnv(&got)), case.digest, "{width} × {height}");
    }
}

#[test]
fn decoded_images_equal_pil_to_the_bit() {
    for case in golden().decoded {
        let got = decode(&BASE64_STANDARD.decode(&case.bytes).unwrap()).unwrap();
        assert_eq!([got.width, got.height], case.size, "{}", case.name);
        assert_eq!(got.rgb, BASE64_STANDARD.decode(&case.rgb).unwrap(), "{}", case.name);
    }
}

#[test]
fn parameters_have_the_names_and_shapes_of_torchvision() {
    for case in golden().networks {
        let mut parameters = case.name.architecture().parameters();
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        let lines: String = parameters.iter().map(|p| format!("{} {:?}\n", p.name, p.shape)).collect();
        assert_eq!(format!("{:016x}", fnv(lines.as_bytes())), case.names, "{:?}", case.name);
        let learned = parameters.iter().filter(|p| !p.name.contains("running_"));
        let count: usize = learned.map(|p| p.shape.iter().product::<usize>()).sum();
        assert_eq!(count, case.parameters, "{:?}", case.name);
    }
}

#[test]
fn network_outputs_equal_torchvision() {
    let mut pixels = Vec::new();
    for (width, height) in [(160, 120), (120, 190)] {
        preprocess::append_normalized(&formula_image(width, height), 112, 96, &mut pixels);
    }
    for case in golden().networks.into_iter().filter(|case| !case.average.is_empty()) {
        let network = load(case.name, &formula_weights(case.name));
        for (output, wanted) in [(CnnOutput::PooledFeatures, &case.average), (CnnOutput::ClassScores, &case.scores)] {
            let got = network.compute(&pixels, 96, output).unwrap();
            assert_eq!(got.len(), 2 * network.output_width(output));
            let (_, relative) = differences(&got, wanted.iter(), network.output_width(output));
            assert!(relative < 1e-5, "{:?} {output:?}: {relative}", case.name);
        }
    }
}

#[derive(Deserialize)]
struct PhotographGolden {
    squares: BTreeMap<String, String>,
    pixels: BTreeMap<String, String>,
    features: BTreeMap<String, PhotographFeatures>,
}

#[derive(Deserialize)]
struct PhotographFeatures {
    average: Vec<Vec<f32>>,
    scores: Vec<Vec<f32>>,
}

/// CRC-32 checksum, as in zlib.
fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 }))
        .collect();
    !bytes.iter().fold(!0, |crc, &byte| table[((crc ^ u32::from(byte)) & 255) as usize] ^ (crc >> 8))
}

/// Compares photographs with torchvision, and prints the differences.
#[test]
fn features_of_photographs_equal_torchvision() {
    let (Some(folder), Some(flickr), Some(weights)) =
        (std::env::var_os("PAIRLOOM_PARITY"), std::env::var_os("FLICKR8K"), std::env::var_os("SQUEEZENET"))
    else {
        test_data::impossible("photographs against torchvision need PAIRLOOM_PARITY, FLICKR8K and SQUEEZENET");
        return;
    };
    let reference = std::fs::read(PathBuf::from(folder).join("photographs.json")).unwrap();
    let reference: PhotographGolden = serde_json::from_slice(&reference).unwrap();
    let images = Path::new(&flickr).join("images");
    let decode_image = |name: &str| decode(&std::fs::read(images.join(name)).unwrap()).unwrap();
    let square = |name: &str| {
        let image = decode_image(name);
        resize_and_crop(&image.rgb, image.width, image.height, 256, 224)
    };

    let equal = reference.squares.iter().filter(|(name, digest)| format!("{:08x}", crc(&square(name))) == **digest);
    let equal = equal.count();
    println!(
        "{equal} of {} photographs are equal to torchvision's after resizing and cropping",
        reference.squares.len()
    );
    assert_eq!(equal, reference.squares.len());

    let mut pixels = Vec::new();
    for (name, wanted) in &reference.pixels {
        let wanted = BASE64_STANDARD.decode(wanted).unwrap();
        assert!(square(name).iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) <= 1), "{name}");
        preprocess::append_normalized(&decode_image(name), 256, 224, &mut pixels);
    }
    for (title, wanted) in &reference.features {
        let (network, weights) = match title.as_str() {
            "trained squeezenet1_0" => (Network::SqueezeNet1_0, std::fs::read(&weights).unwrap()),
            "squeezenet1_0" => (Network::SqueezeNet1_0, formula_weights(Network::SqueezeNet1_0)),
            _ => (Network::ResNet18, formula_weights(Network::ResNet18)),
        };
        let network = load(network, &weights);
        for (output, wanted) in [(CnnOutput::PooledFeatures, &wanted.average), (CnnOutput::ClassScores, &wanted.scores)]
        {
            let got = network.compute(&pixels, 224, output).unwrap();
            assert_eq!(got.len(), wanted.len() * wanted[0].len());
            let (absolute, relative) = differences(&got, wanted.iter(), network.output_width(output));
            println!(
                "{title}, {output:?}: largest difference {absolute:.2e}, {relative:.2e} of the largest value of its row"
            );
            assert!(relative < 1e-5);
        }
    }
}
