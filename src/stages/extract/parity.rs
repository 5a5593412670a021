//! Comparison with torchvision: committed values of formulas, and photographs where they are.
//!
//! `tests/golden/extract.py` wrote the values and says how the check on photographs is run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::Deserialize;

use super::{Network, preprocess};
use crate::io::image::{Picture, decode};
use crate::kernels::resize::resize_and_crop;
use crate::kernels::sample::Sample;
use crate::model::cnn::{Cnn, Output};

#[derive(Deserialize)]
struct Golden {
    resized: Vec<Resized>,
    decoded: Vec<Decoded>,
    networks: Vec<Values>,
}

#[derive(Deserialize)]
struct Resized {
    size: [usize; 2],
    resize: usize,
    crop: usize,
    digest: String,
    middle: Vec<u8>,
}

#[derive(Deserialize)]
struct Decoded {
    name: String,
    bytes: String,
    size: [usize; 2],
    rgb: String,
}

#[derive(Deserialize)]
struct Values {
    name: Network,
    parameters: usize,
    names: String,
    #[serde(default)]
    average: Vec<Vec<f32>>,
    #[serde(default)]
    scores: Vec<Vec<f32>>,
}

fn golden() -> Golden {
    serde_json::from_value(test_data::golden_json("extract.json")).unwrap()
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

fn formula_picture(width: usize, height: usize) -> Picture {
    let mut rgb = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let third = if (x / 9 + y / 11) % 2 == 0 { 20 + x % 60 } else { 230 - y % 50 };
        rgb.extend([(3 * x + 5 * y) % 256, x * y / 7 % 256, third].map(|value| u8::try_from(value).unwrap()));
    }
    Picture { width, height, rgb }
}

/// A safetensors file of the weights that `load_formula` on the Python side makes.
fn formula_weights(network: Network) -> Vec<u8> {
    let parameters: Vec<(String, Vec<usize>, Vec<u8>)> = network
        .architecture()
        .parameters()
        .into_iter()
        .map(|parameter| {
            let count: usize = parameter.shape.iter().product();
            let mut sample = Sample::new(fnv(parameter.name.as_bytes()), &[]);
            #[expect(clippy::cast_precision_loss, reason = "a parameter has far fewer than 2^53 values")]
            let wide = (6.0 / (count / parameter.shape[0]) as f64).sqrt();
            let positive = parameter.name.ends_with("running_var") || parameter.name.ends_with("weight");
            #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "24 bits fit both")]
            let bytes = (0..count).flat_map(|_| {
                let unit = (sample.next_u64() >> 40) as f64 / f64::from(1 << 23) - 1.0;
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

/// Largest absolute difference, and the largest relative to the largest value of a row.
fn differences<'r>(got: &'r [f32], wanted: impl Iterator<Item = &'r Vec<f32>>, width: usize) -> (f32, f32) {
    // `f32::max` passes over NaN.
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
fn resized_pictures_are_torchvisions_to_the_bit() {
    for case in golden().resized {
        let [width, height] = case.size;
        let got = resize_and_crop(&formula_picture(width, height).rgb, width, height, case.resize, case.crop);
        assert_eq!(got[got.len() / 2..][..60], case.middle, "{width} × {height}");
        assert_eq!(format!("{:016x}", fnv(&got)), case.digest, "{width} × {height}");
    }
}

#[test]
fn decoded_pictures_are_pils_to_the_bit() {
    for case in golden().decoded {
        let got = decode(&BASE64_STANDARD.decode(&case.bytes).unwrap()).unwrap();
        assert_eq!([got.width, got.height], case.size, "{}", case.name);
        assert_eq!(got.rgb, BASE64_STANDARD.decode(&case.rgb).unwrap(), "{}", case.name);
    }
}

#[test]
fn parameters_have_torchvisions_names_and_shapes() {
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
fn networks_compute_what_torchvisions_do() {
    let mut pixels = Vec::new();
    for (width, height) in [(160, 120), (120, 190)] {
        preprocess::append(&formula_picture(width, height), 112, 96, &mut pixels);
    }
    for case in golden().networks.into_iter().filter(|case| !case.average.is_empty()) {
        let network = load(case.name, &formula_weights(case.name));
        for (output, wanted) in [(Output::Average, &case.average), (Output::Scores, &case.scores)] {
            let got = network.compute(&pixels, 96, output).unwrap();
            assert_eq!(got.len(), 2 * network.width(output));
            let (_, relative) = differences(&got, wanted.iter(), network.width(output));
            assert!(relative < 1e-5, "{:?} {output:?}: {relative}", case.name);
        }
    }
}

#[derive(Deserialize)]
struct Photographs {
    squares: BTreeMap<String, String>,
    pixels: BTreeMap<String, String>,
    features: BTreeMap<String, Reference>,
}

#[derive(Deserialize)]
struct Reference {
    average: Vec<Vec<f32>>,
    scores: Vec<Vec<f32>>,
}

/// CRC-32 as zlib computes it.
fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 }))
        .collect();
    !bytes.iter().fold(!0, |crc, &byte| table[((crc ^ u32::from(byte)) & 255) as usize] ^ (crc >> 8))
}

/// Prints the figures of the check on photographs.
#[test]
fn photographs_give_torchvisions_features() {
    let (Some(folder), Some(flickr), Some(weights)) =
        (std::env::var_os("PAIRLOOM_PARITY"), std::env::var_os("FLICKR8K"), std::env::var_os("SQUEEZENET"))
    else {
        test_data::impossible("photographs against torchvision need PAIRLOOM_PARITY, FLICKR8K and SQUEEZENET");
        return;
    };
    let reference = std::fs::read(PathBuf::from(folder).join("photographs.json")).unwrap();
    let reference: Photographs = serde_json::from_slice(&reference).unwrap();
    let images = Path::new(&flickr).join("images");
    let picture = |name: &str| decode(&std::fs::read(images.join(name)).unwrap()).unwrap();
    let square = |name: &str| {
        let picture = picture(name);
        resize_and_crop(&picture.rgb, picture.width, picture.height, 256, 224)
    };

    let equal = reference.squares.iter().filter(|(name, digest)| format!("{:08x}", crc(&square(name))) == **digest);
    let equal = equal.count();
    println!(
        "{equal} of {} photographs are equal to torchvision's after resizing and cutting",
        reference.squares.len()
    );
    assert_eq!(equal, reference.squares.len());

    let mut pixels = Vec::new();
    for (name, wanted) in &reference.pixels {
        let wanted = BASE64_STANDARD.decode(wanted).unwrap();
        assert!(square(name).iter().zip(&wanted).all(|(a, b)| a.abs_diff(*b) <= 1), "{name}");
        preprocess::append(&picture(name), 256, 224, &mut pixels);
    }
    for (title, wanted) in &reference.features {
        let (network, weights) = match title.as_str() {
            "trained squeezenet1_0" => (Network::SqueezeNet1_0, std::fs::read(&weights).unwrap()),
            "squeezenet1_0" => (Network::SqueezeNet1_0, formula_weights(Network::SqueezeNet1_0)),
            _ => (Network::ResNet18, formula_weights(Network::ResNet18)),
        };
        let network = load(network, &weights);
        for (output, wanted) in [(Output::Average, &wanted.average), (Output::Scores, &wanted.scores)] {
            let got = network.compute(&pixels, 224, output).unwrap();
            assert_eq!(got.len(), wanted.len() * wanted[0].len());
            let (absolute, relative) = differences(&got, wanted.iter(), network.width(output));
            println!(
                "{title}, {output:?}: largest difference {absolute:.2e}, {relative:.2e} of the largest value of its row"
            );
            assert!(relative < 1e-5);
        }
    }
}
