//! SqueezeNet 1.0: Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016, as torchvision
//! has it.

use super::architecture::{Architecture, Init, Layer};

/// He's uniform distribution for layers that a ReLU follows.
const HE: Init = Init::UniformFanIn(6.0);

/// SqueezeNet 1.0: 512-d features, 1,248,424 parameters.
#[must_use]
pub fn squeezenet1_0() -> Architecture {
    let pool = Layer::MaxPool { padding: 0, ceil: true };
    let mut body = vec![conv("features.0", (3, 96), 7, 2, HE), Layer::Relu, pool.clone()];
    // (channels in, channels between, channels out of each branch); a pooling follows the modules 5 and 10.
    for (index, from, squeezed, expanded) in [
        (3, 96, 16, 64),
        (4, 128, 16, 64),
        (5, 128, 32, 128),
        (7, 256, 32, 128),
        (8, 256, 48, 192),
        (9, 384, 48, 192),
        (10, 384, 64, 256),
        (12, 512, 64, 256),
    ] {
        body.extend(fire(&format!("features.{index}"), from, squeezed, expanded));
        if matches!(index, 5 | 10) {
            body.push(pool.clone());
        }
    }
    let scores = conv("classifier.1", (512, 1000), 1, 1, Init::Normal(0.01));
    Architecture { body, width: 512, head: vec![scores, Layer::Relu, Layer::GlobalAverage], classes: 1000 }
}

/// A fire module: few channels, then many out of kernels of side 1 and 3.
fn fire(name: &str, from: usize, squeezed: usize, expanded: usize) -> [Layer; 3] {
    let expand =
        |part: &str, kernel| vec![conv(&format!("{name}.{part}"), (squeezed, expanded), kernel, 1, HE), Layer::Relu];
    [
        conv(&format!("{name}.squeeze"), (from, squeezed), 1, 1, HE),
        Layer::Relu,
        Layer::Concat(vec![expand("expand1x1", 1), expand("expand3x3", 3)]),
    ]
}

fn conv(name: &str, channels: (usize, usize), kernel: usize, stride: i64, init: Init) -> Layer {
    let padding = i64::from(kernel == 3);
    Layer::Conv { name: name.to_owned(), channels, kernel, stride, padding, bias: true, init }
}
