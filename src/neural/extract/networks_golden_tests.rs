//! Comparison of the networks with torchvision and timm. `tests/golden/networks.py` wrote the golden values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::batches;
use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_kernels::resize::{CropPlace, Interpolation, resize_and_crop};
use pairloom_model::networks::testing::{differences, fnv, formula_image, formula_weights};
use pairloom_model::networks::{ImageNetwork, NetworkOutput};
use pairloom_spec::networks::{Architecture, Convolution, Layer, LayerOutput, Network, NetworkInput};

#[derive(Deserialize)]
struct NetworksGolden {
    networks: Vec<OutputsGolden>,
    bicubic: Vec<SquareGolden>,
    ten_crops: Vec<TenCropsGolden>,
    inception_input: InputGolden,
}

#[derive(Deserialize)]
struct OutputsGolden {
    name: Network,
    parameters: usize,
    names: String,
    #[serde(default)]
    outputs: BTreeMap<String, Vec<Vec<f32>>>,
}

#[derive(Deserialize)]
struct SquareGolden {
    size: [usize; 2],
    resize: usize,
    crop: usize,
    digest: String,
}

#[derive(Deserialize)]
struct TenCropsGolden {
    size: [usize; 2],
    resize: usize,
    crop: usize,
    digests: Vec<String>,
}

#[derive(Deserialize)]
struct InputGolden {
    count: usize,
    values: Vec<(usize, f32)>,
}

fn golden() -> NetworksGolden {
    serde_json::from_value(test_data::golden_json("networks.json")).unwrap()
}

/// The same architecture with an eighth of the channels and classes.
fn eighth(architecture: Architecture) -> Architecture {
    let less = |channels: usize| if channels == 3 { 3 } else { channels / 8 };
    let narrow = |layers: Vec<Layer>| {
        let narrowed = layers.into_iter().map(|layer| match layer {
            Layer::Conv(conv) => {
                let (from, to) = conv.channels;
                Layer::Conv(Convolution { channels: (less(from), less(to)), ..conv })
            }
            Layer::Linear { name, widths: (from, to), init, bias_init } => {
                Layer::Linear { name, widths: (less(from), less(to)), init, bias_init }
            }
            Layer::Tap { name, width } => Layer::Tap { name, width: less(width) },
            other => other,
        });
        narrowed.collect()
    };
    Architecture {
        backbone: narrow(architecture.backbone),
        width: less(architecture.width),
        embedding: narrow(architecture.embedding),
        embedding_width: less(architecture.embedding_width),
        head: narrow(architecture.head),
        classes: less(architecture.classes),
        ..architecture
    }
}

#[test]
fn parameters_have_the_published_names_and_shapes() {
    for case in golden().networks {
        let mut parameters = case.name.architecture().parameters();
        parameters.sort_by(|a, b| a.name.cmp(&b.name));
        let lines: String = parameters.iter().map(|p| format!("{} {:?}\n", p.name, p.shape)).collect();
        assert_eq!(format!("{:016x}", fnv(lines.as_bytes())), case.names, "{}", case.name.name());
        let learned = parameters.iter().filter(|p| !p.name.contains("running_"));
        let count: usize = learned.map(|p| p.shape.iter().product::<usize>()).sum();
        assert_eq!(count, case.parameters, "{}", case.name.name());
    }
}

#[test]
fn outputs_and_named_layers_equal_the_published_code() {
    let input = NetworkInput { resize: 112, crop: 96, statistics: ChannelStatistics::HALVES, ..NetworkInput::IMAGENET };
    let mut pixels = Vec::new();
    for (width, height) in [(160, 120), (120, 190)] {
        batches::append_normalized(&formula_image(width, height), &input, &mut pixels);
    }
    for case in golden().networks.into_iter().filter(|case| !case.outputs.is_empty()) {
        let name = case.name.name();
        let whole = case.name.architecture();
        let architecture = if name.starts_with("vgg") { eighth(whole) } else { whole };
        let weights = formula_weights(architecture.parameters());
        let network = ImageNetwork::from_file(architecture.clone(), &weights, tch::Device::Cpu).unwrap();
        for (output, expected) in &case.outputs {
            let (part, kind) = match output.as_str() {
                "feature" => (network.share(), NetworkOutput::Embedding),
                "scores" => (network.share(), NetworkOutput::ClassScores),
                layer => {
                    let layers = architecture.named_layers();
                    let (_, found) = layers.iter().find(|(known, _)| *known == layer).expect("a layer");
                    let kind = match found {
                        LayerOutput::Maps(_) => NetworkOutput::PooledFeatures,
                        LayerOutput::Vector(_) => NetworkOutput::Embedding,
                    };
                    (network.share().up_to(layer).unwrap(), kind)
                }
            };
            let got = part.compute(&pixels, 96, kind).unwrap();
            let width = part.output_width(kind);
            assert_eq!(got.len(), 2 * width, "{name} {output}");
            // The golden file has the first values of each row.
            let (_, relative) = differences(&got, expected.iter(), width);
            println!("{name} {output}: {relative:.1e}");
            assert!(relative < 1e-5, "{name} {output}: {relative}");
        }
    }
}

#[test]
fn bicubic_squares_equal_torchvision_to_the_bit() {
    for case in golden().bicubic {
        let [width, height] = case.size;
        let input = NetworkInput {
            resize: case.resize,
            crop: case.crop,
            interpolation: Interpolation::Bicubic,
            ..NetworkInput::IMAGENET
        };
        let got = resize_and_crop(&formula_image(width, height).rgb, width, height, input.square(CropPlace::Centre));
        assert_eq!(format!("{:016x}", fnv(&got)), case.digest, "{width} × {height} to {}", case.resize);
    }
}

#[test]
fn ten_crops_equal_torchvision_to_the_bit() {
    for case in golden().ten_crops {
        let [width, height] = case.size;
        let input = NetworkInput { resize: case.resize, crop: case.crop, ..NetworkInput::IMAGENET };
        let image = formula_image(width, height);
        let digests = CropPlace::TEN.map(|(place, mirrored)| {
            let mut square = resize_and_crop(&image.rgb, width, height, input.square(place));
            if mirrored {
                square.chunks_exact_mut(3 * case.crop).for_each(|row| row.as_chunks_mut::<3>().0.reverse());
            }
            format!("{:016x}", fnv(&square))
        });
        assert_eq!(digests.as_slice(), case.digests, "{width} × {height}");
    }
}

#[test]
fn the_input_of_inception_equals_timm_to_the_bit() {
    let golden = golden().inception_input;
    let mut pixels = Vec::new();
    let input = Network::InceptionResNetV2.architecture().input;
    batches::append_normalized(&formula_image(500, 375), &input, &mut pixels);
    assert_eq!(pixels.len(), golden.count);
    for (place, expected) in golden.values {
        assert_eq!(pixels[place], expected, "value {place}");
    }
}
