//! VGG (Simonyan and Zisserman, "Very deep convolutional networks for large-scale image recognition", 2015) as in
//! torchvision.
//!
//! Its feature vector is fc7, the second linear layer of the classifier after the ReLU, as in VSE++, which removes the
//! last linear layer. Dropout does nothing, as in evaluation.

use super::architecture::{Architecture, FilePart, NetworkInput};
use super::architecture::{Convolution, Layer};

/// VGG-16: 4,096-d features, 138,357,544 parameters.
pub(super) fn vgg16() -> Architecture {
    vgg([2, 2, 3, 3, 3])
}

/// VGG-19: 4,096-d features, 143,667,240 parameters.
pub(super) fn vgg19() -> Architecture {
    vgg([2, 2, 4, 4, 4])
}

/// VGG with this number of convolutions before each pooling.
fn vgg(convolutions: [usize; 5]) -> Architecture {
    let mut backbone = Vec::new();
    // Place in torchvision's `features`, where a ReLU and a pooling have places too.
    let (mut place, mut from) = (0, 3);
    for (count, to) in convolutions.into_iter().zip([64, 128, 256, 512, 512]) {
        for _ in 0..count {
            let conv = Convolution::new(format!("features.{place}"), (from, to), 3);
            backbone.extend([Layer::Conv(Convolution { padding: (1, 1), bias: true, ..conv }), Layer::Relu]);
            (place, from) = (place + 2, to);
        }
        backbone.push(Layer::MaxPool { kernel: 2, stride: 2, padding: 0, ceil: false });
        backbone.push(Layer::named(format!("features.{place}"), to));
        place += 1;
    }
    let width = 4096;
    let embedding = vec![
        Layer::GridAverage(7),
        Layer::Flatten,
        Layer::linear_of_small_weights("classifier.0", (512 * 7 * 7, width)),
        Layer::Relu,
        Layer::named("classifier.1", width),
        Layer::linear_of_small_weights("classifier.3", (width, width)),
        Layer::Relu,
        Layer::named("classifier.4", width),
    ];
    Architecture {
        backbone,
        width: 512,
        embedding,
        embedding_width: width,
        head: vec![Layer::linear_of_small_weights("classifier.6", (width, 1000))],
        classes: 1000,
        input: NetworkInput::IMAGENET,
        file_part: FilePart::Whole,
        text: None,
    }
}
