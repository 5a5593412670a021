//! SqueezeNet 1.0 (Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016) as in
//! torchvision.

use super::architecture::{Architecture, CnnInit, Layer};

/// He's uniform distribution, for layers before a ReLU.
const HE: CnnInit = CnnInit::UniformFanIn(6.0);

/// SqueezeNet 1.0: 512-d features, 1,248,424 parameters.
#[must_use]
pub fn squeezenet1_0() -> Architecture {
    let pool = Layer::MaxPool { padding: 0, ceil: true };
    let mut body = vec![conv("features.0", (3, 96), 7, 2, HE), Layer::Relu, pool.clone()];
    // (input channels, squeezed channels, output channels of each branch); pooling follows the modules 5 and 10.
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
    let scores = conv("classifier.1", (512, 1000), 1, 1, CnnInit::Normal(0.01));
    Architecture { backbone: body, width: 512, head: vec![scores, Layer::Relu, Layer::GlobalAverage], classes: 1000 }
}

/// Fire module: a 1 × 1 convolution to few channels, then 1 × 1 and 3 × 3 convolutions to many.
fn fire(name: &str, from: usize, squeezed: usize, expanded: usize) -> [Layer; 3] {
    let expand =
        |part: &str, kernel| vec![conv(&format!("{name}.{part}"), (squeezed, expanded), kernel, 1, HE), Layer::Relu];
    [
        conv(&format!("{name}.squeeze"), (from, squeezed), 1, 1, HE),
        Layer::Relu,
        Layer::Concat(vec![expand("expand1x1", 1), expand("expand3x3", 3)]),
    ]
}

fn conv(name: &str, channels: (usize, usize), kernel: usize, stride: i64, init: CnnInit) -> Layer {
    let padding = i64::from(kernel == 3);
    Layer::Conv { name: name.to_owned(), channels, kernel, stride, padding, bias: true, init }
}
