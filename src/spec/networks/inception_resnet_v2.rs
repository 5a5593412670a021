//! Inception-ResNet-v2 (Szegedy et al., "Inception-v4, Inception-ResNet and the impact of residual connections on
//! learning", 2016) as in timm.

use super::architecture::{Architecture, NetworkInput};
use super::architecture::{Convolution, Layer, NetworkInit};
use pairloom_kernels::normalize::ChannelStatistics;
use pairloom_kernels::resize::Interpolation;

/// PyTorch's default initialisation of a convolution.
const DEFAULT: NetworkInit = NetworkInit::UniformFanIn(1.0);

/// Unit of a branch: its number of input channels, output channels, kernel and padding.
type Unit = (usize, usize, (usize, usize), (i64, i64));

/// Inception-ResNet-v2: 1,536-d features, 55,843,464 parameters.
pub(super) fn inception_resnet_v2() -> Architecture {
    let mut body = Vec::new();
    unit("conv2d_1a", (3, 32, (3, 3), (0, 0)), 2, &mut body);
    unit("conv2d_2a", (32, 32, (3, 3), (0, 0)), 1, &mut body);
    unit("conv2d_2b", (32, 64, (3, 3), (1, 1)), 1, &mut body);
    body.push(Layer::MAX_POOL_3);
    unit("conv2d_3b", (64, 80, (1, 1), (0, 0)), 1, &mut body);
    unit("conv2d_4a", (80, 192, (3, 3), (0, 0)), 1, &mut body);
    body.push(Layer::MAX_POOL_3);
    body.extend([mixed_5b(), Layer::named("mixed_5b", 320)]);
    for index in 0..10 {
        block_35(&format!("repeat.{index}"), &mut body);
    }
    body.extend([Layer::named("repeat", 320), mixed_6a(), Layer::named("mixed_6a", 1088)]);
    for index in 0..20 {
        block_17(&format!("repeat_1.{index}"), &mut body);
    }
    body.extend([Layer::named("repeat_1", 1088), mixed_7a(), Layer::named("mixed_7a", 2080)]);
    for index in 0..9 {
        block_8(&format!("repeat_2.{index}"), 0.2, &mut body);
        body.push(Layer::Relu);
    }
    body.push(Layer::named("repeat_2", 2080));
    block_8("block8", 1.0, &mut body);
    body.push(Layer::named("block8", 2080));
    unit("conv2d_7b", (2080, 1536, (1, 1), (0, 0)), 1, &mut body);
    body.push(Layer::named("conv2d_7b", 1536));
    let head = vec![Layer::GlobalAverage, Layer::linear("classif", (1536, 1000))];
    let input = NetworkInput {
        // timm's share of the crop is 0.8975.
        resize: 333,
        crop: 299,
        fixed: false,
        interpolation: Interpolation::Bicubic,
        statistics: ChannelStatistics::HALVES,
    };
    Architecture { input, ..Architecture::of_maps(body, 1536, head, 1000) }
}

/// Convolution, batch normalisation and ReLU.
fn unit(name: &str, (from, to, kernel, padding): Unit, stride: i64, layers: &mut Vec<Layer>) {
    let conv = Convolution::new(format!("{name}.conv"), (from, to), 1);
    layers.extend([
        Layer::Conv(Convolution { kernel, stride, padding, init: DEFAULT, ..conv }),
        Layer::BatchNorm { name: format!("{name}.bn"), channels: to, epsilon: 1e-3 },
        Layer::Relu,
    ]);
}

/// Branch of units, of which the last has the stride. A branch of several units is a `Sequential`.
fn branch(name: &str, units: &[Unit], last_stride: i64) -> Vec<Layer> {
    let mut layers = Vec::new();
    for (index, &one) in units.iter().enumerate() {
        let name = if units.len() == 1 { name.to_owned() } else { format!("{name}.{index}") };
        let stride = if index + 1 == units.len() { last_stride } else { 1 };
        unit(&name, one, stride, &mut layers);
    }
    layers
}

const fn one(from: usize, to: usize) -> Unit {
    (from, to, (1, 1), (0, 0))
}

const fn three(from: usize, to: usize) -> Unit {
    (from, to, (3, 3), (1, 1))
}

/// 3 × 3 without padding.
const fn narrowing(from: usize, to: usize) -> Unit {
    (from, to, (3, 3), (0, 0))
}

fn mixed_5b() -> Layer {
    let pooled = {
        let mut layers = vec![Layer::AveragePool3];
        unit("mixed_5b.branch3.1", one(192, 64), 1, &mut layers);
        layers
    };
    Layer::Concat(vec![
        branch("mixed_5b.branch0", &[one(192, 96)], 1),
        branch("mixed_5b.branch1", &[one(192, 48), (48, 64, (5, 5), (2, 2))], 1),
        branch("mixed_5b.branch2", &[one(192, 64), three(64, 96), three(96, 96)], 1),
        pooled,
    ])
}

fn mixed_6a() -> Layer {
    Layer::Concat(vec![
        branch("mixed_6a.branch0", &[narrowing(320, 384)], 2),
        branch("mixed_6a.branch1", &[one(320, 256), three(256, 256), narrowing(256, 384)], 2),
        vec![Layer::MAX_POOL_3],
    ])
}

fn mixed_7a() -> Layer {
    Layer::Concat(vec![
        branch("mixed_7a.branch0", &[one(1088, 256), narrowing(256, 384)], 2),
        branch("mixed_7a.branch1", &[one(1088, 256), narrowing(256, 288)], 2),
        branch("mixed_7a.branch2", &[one(1088, 256), three(256, 288), narrowing(288, 320)], 2),
        vec![Layer::MAX_POOL_3],
    ])
}

fn block_35(name: &str, layers: &mut Vec<Layer>) {
    let branches = vec![
        branch(&format!("{name}.branch0"), &[one(320, 32)], 1),
        branch(&format!("{name}.branch1"), &[one(320, 32), three(32, 32)], 1),
        branch(&format!("{name}.branch2"), &[one(320, 32), three(32, 48), three(48, 64)], 1),
    ];
    layers.extend([residual(name, branches, (128, 320), 0.17), Layer::Relu]);
}

fn block_17(name: &str, layers: &mut Vec<Layer>) {
    let lines = [one(1088, 128), (128, 160, (1, 7), (0, 3)), (160, 192, (7, 1), (3, 0))];
    let branches =
        vec![branch(&format!("{name}.branch0"), &[one(1088, 192)], 1), branch(&format!("{name}.branch1"), &lines, 1)];
    layers.extend([residual(name, branches, (384, 1088), 0.1), Layer::Relu]);
}

/// Block without the ReLU at its end, which the last one lacks.
fn block_8(name: &str, scale: f64, layers: &mut Vec<Layer>) {
    let lines = [one(2080, 192), (192, 224, (1, 3), (0, 1)), (224, 256, (3, 1), (1, 0))];
    let branches =
        vec![branch(&format!("{name}.branch0"), &[one(2080, 192)], 1), branch(&format!("{name}.branch1"), &lines, 1)];
    layers.push(residual(name, branches, (448, 2080), scale));
}

/// `scale` times a 1 × 1 convolution of the concatenated branches, plus the input.
fn residual(name: &str, branches: Vec<Vec<Layer>>, channels: (usize, usize), scale: f64) -> Layer {
    let conv = Convolution::new(format!("{name}.conv2d"), channels, 1);
    let conv = Layer::Conv(Convolution { bias: true, init: DEFAULT, ..conv });
    Layer::Sum(vec![vec![Layer::Concat(branches), conv, Layer::Scale(scale)], vec![]])
}
