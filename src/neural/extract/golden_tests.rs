//! Comparison with torchvision: on formula images with golden values, and on photographs if they are available.
//!
//! `tests/golden/extract.py` wrote the golden values and describes how to run the check on photographs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;

use super::batches;
use pairloom_images::image::decode;
use pairloom_kernels::resize::{CropPlace, resize_and_crop};
use pairloom_model::networks::testing::{differences, fnv, formula_image, formula_weights};
use pairloom_model::networks::{ImageNetwork, NetworkOutput};
use pairloom_spec::networks::{Network, NetworkInput};

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

fn imagenet(resize: usize, crop: usize) -> NetworkInput {
    NetworkInput { resize, crop, ..NetworkInput::IMAGENET }
}

fn load(network: Network, weights: &[u8]) -> ImageNetwork {
    ImageNetwork::from_file(network.architecture(), weights, tch::Device::Cpu).unwrap()
}

#[test]
fn resized_images_equal_torchvision_to_the_bit() {
    for case in golden().resized {
        let [width, height] = case.size;
        let got = resize_and_crop(
            &formula_image(width, height).rgb,
            width,
            height,
            imagenet(case.resize, case.crop).square(CropPlace::Centre),
        );
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
        batches::append_normalized(&formula_image(width, height), &imagenet(112, 96), &mut pixels);
    }
    for case in golden().networks.into_iter().filter(|case| !case.average.is_empty()) {
        let network = load(case.name, &formula_weights(case.name.architecture().parameters()));
        for (output, expected) in
            [(NetworkOutput::PooledFeatures, &case.average), (NetworkOutput::ClassScores, &case.scores)]
        {
            let got = network.compute(&pixels, 96, output).unwrap();
            assert_eq!(got.len(), 2 * network.output_width(output));
            let (_, relative) = differences(&got, expected.iter(), network.output_width(output));
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
        resize_and_crop(&image.rgb, image.width, image.height, NetworkInput::IMAGENET.square(CropPlace::Centre))
    };

    let equal = reference.squares.iter().filter(|(name, digest)| format!("{:08x}", crc(&square(name))) == **digest);
    let equal = equal.count();
    println!(
        "{equal} of {} photographs are equal to torchvision's after resizing and cropping",
        reference.squares.len()
    );
    assert_eq!(equal, reference.squares.len());

    let mut pixels = Vec::new();
    for (name, expected) in &reference.pixels {
        let expected = BASE64_STANDARD.decode(expected).unwrap();
        assert!(square(name).iter().zip(&expected).all(|(a, b)| a.abs_diff(*b) <= 1), "{name}");
        batches::append_normalized(&decode_image(name), &NetworkInput::IMAGENET, &mut pixels);
    }
    for (title, expected) in &reference.features {
        let (network, weights) = match title.as_str() {
            "trained squeezenet1_0" => (Network::SqueezeNet1_0, std::fs::read(&weights).unwrap()),
            "squeezenet1_0" => {
                (Network::SqueezeNet1_0, formula_weights(Network::SqueezeNet1_0.architecture().parameters()))
            }
            _ => (Network::ResNet18, formula_weights(Network::ResNet18.architecture().parameters())),
        };
        let network = load(network, &weights);
        for (output, expected) in
            [(NetworkOutput::PooledFeatures, &expected.average), (NetworkOutput::ClassScores, &expected.scores)]
        {
            let got = network.compute(&pixels, 224, output).unwrap();
            assert_eq!(got.len(), expected.len() * expected[0].len());
            let (absolute, relative) = differences(&got, expected.iter(), network.output_width(output));
            println!(
                "{title}, {output:?}: largest difference {absolute:.2e}, {relative:.2e} of the largest value of its row"
            );
            assert!(relative < 1e-5);
        }
    }
}
