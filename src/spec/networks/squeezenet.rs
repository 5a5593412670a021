//! SqueezeNet (Iandola et al., "SqueezeNet: AlexNet-level accuracy with 50x fewer parameters", 2016) as in torchvision.

use super::architecture::Architecture;
use super::architecture::{Convolution, Layer, NetworkInit};

/// He's uniform distribution, for layers before a ReLU.
const HE: NetworkInit = NetworkInit::UniformFanIn(6.0);

/// SqueezeNet 1.0: 512-d features, 1,248,424 parameters.
pub(super) fn squeezenet1_0() -> Architecture {
    squeezenet((96, 7), [3, 4, 5, 7, 8, 9, 10, 12], [5, 10])
}

/// SqueezeNet 1.1: 512-d features, 1,235,496 parameters, less than half of the arithmetic of 1.0.
pub(super) fn squeezenet1_1() -> Architecture {
    squeezenet((64, 3), [3, 4, 6, 7, 9, 10, 11, 12], [4, 7])
}

/// SqueezeNet with the channels and kernel of its first convolution, the indices of its fire modules in `features`, and
/// those that pooling follows.
fn squeezenet((first, kernel): (usize, usize), fires: [usize; 8], pooled: [usize; 2]) -> Architecture {
    let pool = Layer::MaxPool { kernel: 3, stride: 2, padding: 0, ceil: true };
    let first_conv =
        Convolution { stride: 2, bias: true, init: HE, ..Convolution::new("features.0", (3, first), kernel) };
    let mut body = vec![Layer::Conv(first_conv), Layer::Relu, pool.clone()];
    let mut from = first;
    // (squeezed channels, output channels of each branch).
    let sizes = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)];
    for (index, (squeezed, expanded)) in fires.into_iter().zip(sizes) {
        let name = format!("features.{index}");
        body.extend(fire(&name, from, squeezed, expanded));
        from = 2 * expanded;
        body.push(Layer::named(name, from));
        if pooled.contains(&index) {
            body.push(pool.clone());
        }
    }
    let scores = conv("classifier.1", (512, 1000), 1, NetworkInit::Normal(0.01));
    Architecture::of_maps(body, 512, vec![scores, Layer::Relu, Layer::GlobalAverage], 1000)
}

/// Fire module: a 1 × 1 convolution to few channels, then 1 × 1 and 3 × 3 convolutions to many.
fn fire(name: &str, from: usize, squeezed: usize, expanded: usize) -> [Layer; 3] {
    let expand =
        |part: &str, kernel| vec![conv(&format!("{name}.{part}"), (squeezed, expanded), kernel, HE), Layer::Relu];
    [
        conv(&format!("{name}.squeeze"), (from, squeezed), 1, HE),
        Layer::Relu,
        Layer::Concat(vec![expand("expand1x1", 1), expand("expand3x3", 3)]),
    ]
}

fn conv(name: &str, channels: (usize, usize), kernel: usize, init: NetworkInit) -> Layer {
    let padding = i64::from(kernel == 3);
    let padding = (padding, padding);
    Layer::Conv(Convolution { padding, bias: true, init, ..Convolution::new(name, channels, kernel) })
}
