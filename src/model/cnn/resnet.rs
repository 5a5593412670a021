//! ResNet: He et al., "Deep residual learning for image recognition", 2015, as torchvision has it: the stride of a
//! bottleneck is on its convolution of side 3 ("ResNet v1.5").

use super::architecture::{Architecture, Init, Layer};

/// ResNet-18: 512-d features, 11,689,512 parameters.
#[must_use]
pub fn resnet18() -> Architecture {
    resnet([2, 2, 2, 2], Block::Basic)
}

/// ResNet-34: 512-d features, 21,797,672 parameters.
#[must_use]
pub fn resnet34() -> Architecture {
    resnet([3, 4, 6, 3], Block::Basic)
}

/// ResNet-50: 2,048-d features, 25,557,032 parameters.
#[must_use]
pub fn resnet50() -> Architecture {
    resnet([3, 4, 6, 3], Block::Bottleneck)
}

/// ResNet-101: 2,048-d features, 44,549,160 parameters.
#[must_use]
pub fn resnet101() -> Architecture {
    resnet([3, 4, 23, 3], Block::Bottleneck)
}

/// ResNet-152: 2,048-d features, 60,192,808 parameters.
#[must_use]
pub fn resnet152() -> Architecture {
    resnet([3, 8, 36, 3], Block::Bottleneck)
}

#[derive(Clone, Copy)]
enum Block {
    /// Two convolutions of side 3.
    Basic,
    /// Convolutions of side 1, 3 and 1, the last with four times the channels.
    Bottleneck,
}

/// A network with this many blocks in each of its four stages.
fn resnet(blocks: [usize; 4], block: Block) -> Architecture {
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
    Architecture { body, width, head, classes }
}

impl Block {
    /// The layers of a block and the channels that come out of it.
    fn layers(self, name: &str, from: usize, inner: usize, stride: i64) -> (Vec<Layer>, usize) {
        let (plan, out) = match self {
            Block::Basic => (vec![(from, inner, 3, stride), (inner, inner, 3, 1)], inner),
            Block::Bottleneck => {
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
    // Half of the kernel, so that the size changes by the stride alone.
    let padding = match kernel {
        7 => 3,
        3 => 1,
        _ => 0,
    };
    let init = Init::NormalFanOut;
    vec![
        Layer::Conv { name: conv.to_owned(), channels, kernel, stride, padding, bias: false, init },
        Layer::BatchNorm { name: norm.to_owned(), channels: channels.1 },
    ]
}
