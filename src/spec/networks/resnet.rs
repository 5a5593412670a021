//! ResNet (He et al., "Deep residual learning for image recognition", 2015) as in torchvision: the stride of a
//! bottleneck is on its 3 × 3 convolution ("ResNet v1.5"); and ResNeXt (Xie et al., "Aggregated residual
//! transformations for deep neural networks", 2017), also in the widths of the weakly supervised weights (WSL; Mahajan
//! et al., "Exploring the limits of weakly supervised pretraining", 2018).

use super::architecture::Architecture;
use super::architecture::{Layer, conv_norm};

/// ResNet-18: 512-d features, 11,689,512 parameters.
pub(super) fn resnet18() -> Architecture {
    resnet([2, 2, 2, 2], ResidualBlock::Basic)
}

/// ResNet-34: 512-d features, 21,797,672 parameters.
pub(super) fn resnet34() -> Architecture {
    resnet([3, 4, 6, 3], ResidualBlock::Basic)
}

/// ResNet-50: 2,048-d features, 25,557,032 parameters.
pub(super) fn resnet50() -> Architecture {
    resnet([3, 4, 6, 3], PLAIN)
}

/// ResNet-101: 2,048-d features, 44,549,160 parameters.
pub(super) fn resnet101() -> Architecture {
    resnet([3, 4, 23, 3], PLAIN)
}

/// ResNet-152: 2,048-d features, 60,192,808 parameters.
pub(super) fn resnet152() -> Architecture {
    resnet([3, 8, 36, 3], PLAIN)
}

/// ResNeXt-50 32×4d: 2,048-d features, 25,028,904 parameters.
pub(super) fn resnext50_32x4d() -> Architecture {
    resnet([3, 4, 6, 3], ResidualBlock::Bottleneck { groups: 32, group_width: 4 })
}

/// ResNeXt-101 32×8d: 2,048-d features, 88,791,336 parameters.
pub(super) fn resnext101_32x8d() -> Architecture {
    resnext101(8)
}

/// ResNeXt-101 32×16d: 2,048-d features, 194 million parameters.
pub(super) fn resnext101_32x16d() -> Architecture {
    resnext101(16)
}

/// ResNeXt-101 32×32d: 2,048-d features, 468 million parameters.
pub(super) fn resnext101_32x32d() -> Architecture {
    resnext101(32)
}

/// ResNeXt-101 32×48d: 2,048-d features, 829 million parameters.
pub(super) fn resnext101_32x48d() -> Architecture {
    resnext101(48)
}

fn resnext101(group_width: usize) -> Architecture {
    resnet([3, 4, 23, 3], ResidualBlock::Bottleneck { groups: 32, group_width })
}

/// Kind of residual block.
#[derive(Clone, Copy)]
enum ResidualBlock {
    /// Two 3 × 3 convolutions.
    Basic,
    /// Convolutions of 1 × 1, 3 × 3 and 1 × 1, the last with four times the channels of the stage.
    Bottleneck {
        /// Groups of the 3 × 3 convolution.
        groups: usize,
        /// Channels of a group in the first stage.
        group_width: usize,
    },
}

/// Bottleneck of a ResNet.
const PLAIN: ResidualBlock = ResidualBlock::Bottleneck { groups: 1, group_width: 64 };

/// Architecture of a ResNet with this number of blocks in each of its four stages.
fn resnet(blocks: [usize; 4], block: ResidualBlock) -> Architecture {
    let mut body = conv_norm("conv1", "bn1", (3, 64), 7, 2, 1);
    body.extend([Layer::Relu, Layer::MaxPool { kernel: 3, stride: 2, padding: 1, ceil: false }]);
    let mut width = 64;
    for (stage, (count, inner)) in (1..).zip(blocks.into_iter().zip([64, 128, 256, 512])) {
        for index in 0..count {
            let stride = if stage > 1 && index == 0 { 2 } else { 1 };
            let name = format!("layer{stage}.{index}");
            let (layers, out) = block.layers(&name, width, inner, stride);
            let shortcut = if stride > 1 || width != out {
                let name = format!("{name}.downsample");
                conv_norm(&format!("{name}.0"), &format!("{name}.1"), (width, out), 1, stride, 1)
            } else {
                vec![]
            };
            body.extend([Layer::Sum(vec![layers, shortcut]), Layer::Relu]);
            width = out;
        }
        body.push(Layer::named(format!("layer{stage}"), width));
    }
    let classes = 1000;
    Architecture::of_maps(body, width, vec![Layer::GlobalAverage, Layer::linear("fc", (width, classes))], classes)
}

impl ResidualBlock {
    /// Layers of a block, and its number of output channels.
    fn layers(self, name: &str, from: usize, planes: usize, stride: i64) -> (Vec<Layer>, usize) {
        let (plan, out) = match self {
            ResidualBlock::Basic => (vec![(from, planes, 3, stride, 1), (planes, planes, 3, 1, 1)], planes),
            ResidualBlock::Bottleneck { groups, group_width } => {
                let (inner, out) = (planes * group_width / 64 * groups, planes * 4);
                (vec![(from, inner, 1, 1, 1), (inner, inner, 3, stride, groups), (inner, out, 1, 1, 1)], out)
            }
        };
        let mut layers = Vec::new();
        for (number, (from, to, kernel, stride, groups)) in (1..).zip(plan) {
            if number > 1 {
                layers.push(Layer::Relu);
            }
            let (conv, norm) = (format!("{name}.conv{number}"), format!("{name}.bn{number}"));
            layers.extend(conv_norm(&conv, &norm, (from, to), kernel, stride, groups));
        }
        (layers, out)
    }
}
