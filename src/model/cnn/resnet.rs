//! ResNet (He et al., "Deep residual learning for image recognition", 2015) as in torchvision: the stride of a
//! bottleneck is on its 3 × 3 convolution ("ResNet v1.5").

use super::architecture::{Architecture, CnnInit, Layer};

/// ResNet-18: 512-d features, 11,689,512 parameters.
#[must_use]
pub fn resnet18() -> Architecture {
    resnet([2, 2, 2, 2], ResidualBlock::Basic)
}

/// ResNet-34: 512-d features, 21,797,672 parameters.
#[must_use]
pub fn resnet34() -> Architecture {
    resnet([3, 4, 6, 3], ResidualBlock::Basic)
}

/// ResNet-50: 2,048-d features, 25,557,032 parameters.
#[must_use]
pub fn resnet50() -> Architecture {
    resnet([3, 4, 6, 3], ResidualBlock::Bottleneck)
}

/// ResNet-101: 2,048-d features, 44,549,160 parameters.
#[must_use]
pub fn resnet101() -> Architecture {
    resnet([3, 4, 23, 3], ResidualBlock::Bottleneck)
}

/// ResNet-152: 2,048-d features, 60,192,808 parameters.
#[must_use]
pub fn resnet152() -> Architecture {
    resnet([3, 8, 36, 3], ResidualBlock::Bottleneck)
}

/// Kind of residual block.
#[derive(Clone, Copy)]
enum ResidualBlock {
    /// Two 3 × 3 convolutions.
    Basic,
    /// Convolutions of 1 × 1, 3 × 3 and 1 × 1, the last with four times the channels.
    Bottleneck,
}

/// Architecture of a ResNet with this number of blocks in each of its four stages.
fn resnet(blocks: [usize; 4], block: ResidualBlock) -> Architecture {
    let mut body = conv_norm("conv1", "bn1", (3, 64), 7, 2);
    body.extend([Layer::Relu, Layer::MaxPool { padding: 1, ceil: false }]);
    let mut width = 64;
    for (stage, (count, inner)) in blocks.into_iter().zip([64, 128, 256, 512]).enumerate() {
        for index in 0..count {
            let stride = if stage > 0 && index == 0 { 2 } else { 1 };
            let name = format!("layer{}.{index}", stage + 1);
            let (layers, out) = block.layers(&name, width, inner, stride);
            let shortcut = if stride > 1 || width != out {
                let name = format!("{name}.downsample");
                conv_norm(&format!("{name}.0"), &format!("{name}.1"), (width, out), 1, stride)
            } else {
                vec![]
            };
            body.extend([Layer::Sum(vec![layers, shortcut]), Layer::Relu]);
            width = out;
        }
    }
    let classes = 1000;
    let head = vec![Layer::GlobalAverage, Layer::Linear { name: "fc".to_owned(), widths: (width, classes) }];
    Architecture { backbone: body, width, head, classes }
}

impl ResidualBlock {
    /// Layers of a block, and its number of output channels.
    fn layers(self, name: &str, from: usize, inner: usize, stride: i64) -> (Vec<Layer>, usize) {
        let (plan, out) = match self {
            ResidualBlock::Basic => (vec![(from, inner, 3, stride), (inner, inner, 3, 1)], inner),
            ResidualBlock::Bottleneck => {
                (vec![(from, inner, 1, 1), (inner, inner, 3, stride), (inner, inner * 4, 1, 1)], inner * 4)
            }
        };
        let mut layers = Vec::new();
        for (index, (from, to, kernel, stride)) in plan.into_iter().enumerate() {
            if index > 0 {
                layers.push(Layer::Relu);
            }
            let number = index + 1;
            layers.extend(conv_norm(
                &format!("{name}.conv{number}"),
                &format!("{name}.bn{number}"),
                (from, to),
                kernel,
                stride,
            ));
        }
        (layers, out)
    }
}

fn conv_norm(conv: &str, norm: &str, channels: (usize, usize), kernel: usize, stride: i64) -> Vec<Layer> {
    // Half of the kernel, so that only the stride changes the size.
    let padding = match kernel {
        7 => 3,
        3 => 1,
        _ => 0,
    };
    let init = CnnInit::NormalFanOut;
    vec![
        Layer::Conv { name: conv.to_owned(), channels, kernel, stride, padding, bias: false, init },
        Layer::BatchNorm { name: norm.to_owned(), channels: channels.1 },
    ]
}
