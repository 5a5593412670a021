//! MobileNetV2 (Sandler et al., "MobileNetV2: inverted residuals and linear bottlenecks", 2018) as in torchvision.

use super::architecture::Architecture;
use super::architecture::{Layer, conv_norm};

/// MobileNetV2: 1,280-d features, 3,504,872 parameters.
pub(super) fn mobilenet_v2() -> Architecture {
    let mut body = conv_norm("features.0.0", "features.0.1", (3, 32), 3, 2, 1);
    body.extend([Layer::Relu6, Layer::named("features.0", 32)]);
    let (mut place, mut from) = (1, 32);
    // Expansion, output channels, blocks, stride of the first block.
    for (expansion, to, count, first_stride) in
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    {
        for index in 0..count {
            let stride = if index == 0 { first_stride } else { 1 };
            let name = format!("features.{place}");
            let block = inverted_residual(&name, (from, to), expansion, stride);
            if stride == 1 && from == to {
                body.push(Layer::Sum(vec![block, vec![]]));
            } else {
                body.extend(block);
            }
            body.push(Layer::named(name, to));
            (place, from) = (place + 1, to);
        }
    }
    let (width, classes) = (1280, 1000);
    body.extend(conv_norm("features.18.0", "features.18.1", (from, width), 1, 1, 1));
    body.extend([Layer::Relu6, Layer::named("features.18", width)]);
    let scores = Layer::linear_of_small_weights("classifier.1", (width, classes));
    Architecture::of_maps(body, width, vec![Layer::GlobalAverage, scores], classes)
}

/// Block: a 1 × 1 convolution to more channels, a 3 × 3 convolution of each channel, and a 1 × 1 convolution.
fn inverted_residual(name: &str, (from, to): (usize, usize), expansion: usize, stride: i64) -> Vec<Layer> {
    let inner = from * expansion;
    let mut layers = Vec::new();
    let mut place = 0;
    if expansion > 1 {
        layers.extend(conv_norm(&format!("{name}.conv.0.0"), &format!("{name}.conv.0.1"), (from, inner), 1, 1, 1));
        layers.push(Layer::Relu6);
        place = 1;
    }
    let prefix = format!("{name}.conv.{place}");
    layers.extend(conv_norm(&format!("{prefix}.0"), &format!("{prefix}.1"), (inner, inner), 3, stride, inner));
    layers.push(Layer::Relu6);
    let (conv, norm) = (format!("{name}.conv.{}", place + 1), format!("{name}.conv.{}", place + 2));
    layers.extend(conv_norm(&conv, &norm, (inner, to), 1, 1, 1));
    layers
}
