//! Architecture of a CNN as plain data, and the specifications of its parameters.

/// Architecture of a CNN.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Layers from a image (3 channels) to feature maps.
    pub backbone: Vec<Layer>,
    /// Number of channels of the feature maps, which is the width of a feature.
    pub width: usize,
    /// Layers from feature maps to class scores.
    pub head: Vec<Layer>,
    /// Number of classes.
    pub classes: usize,
}

/// Layer of a CNN. Its name is the prefix of its parameters in a file, without `.weight` or `.bias`.
#[derive(Debug, Clone, PartialEq)]
pub enum Layer {
    /// Convolution with a square kernel.
    Conv {
        /// Name.
        name: String,
        /// Channels in and out.
        channels: (usize, usize),
        /// Side of the kernel.
        kernel: usize,
        /// Stride, in both directions.
        stride: i64,
        /// Zero padding on each side.
        padding: i64,
        /// True if a bias is added.
        bias: bool,
        /// Initialisation of the weights.
        init: CnnInit,
    },
    /// Batch normalisation with running mean and variance.
    BatchNorm {
        /// Name.
        name: String,
        /// Channels.
        channels: usize,
    },
    /// max(x, 0).
    Relu,
    /// Max pooling with kernel 3 and stride 2.
    MaxPool {
        /// Padding on each side.
        padding: i64,
        /// True if windows that reach over the edge count.
        ceil: bool,
    },
    /// Global average pooling: N × C × H × W to N × C.
    GlobalAverage,
    /// Linear layer with a bias.
    Linear {
        /// Name.
        name: String,
        /// Values in and out.
        widths: (usize, usize),
    },
    /// Concatenation of the channels of the branches.
    Concat(Vec<Vec<Layer>>),
    /// Sum of the branches. An empty branch is the input itself.
    Sum(Vec<Vec<Layer>>),
}

/// Initialisation of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CnnInit {
    /// A constant.
    Constant(f32),
    /// Uniform in ±√(`gain` / fan-in), with gain 6 for He's initialisation before a ReLU and 1 for `nn.Linear`.
    UniformFanIn(f64),
    /// Normal with variance 2 / fan-out (He et al., "Delving deep into rectifiers", 2015).
    NormalFanOut,
    /// Normal with this standard deviation.
    Normal(f64),
}

/// Specification of a parameter of a CNN.
#[derive(Debug, Clone, PartialEq)]
pub struct CnnParameterSpec {
    /// Name, with `.weight` and the like.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Initialisation.
    pub init: CnnInit,
    /// Number of inputs that one output of the layer depends on.
    pub fan_in: usize,
}

impl Architecture {
    /// Specifications of the parameters, in the order of the layers.
    #[must_use]
    pub fn parameters(&self) -> Vec<CnnParameterSpec> {
        let mut all = Vec::new();
        collect(&self.backbone, &mut all);
        collect(&self.head, &mut all);
        all
    }
}

fn collect(layers: &[Layer], all: &mut Vec<CnnParameterSpec>) {
    for layer in layers {
        match layer {
            Layer::Conv { name, channels: (from, to), kernel, bias, init, .. } => {
                let fan_in = from * kernel * kernel;
                all.push(parameter(name, "weight", &[*to, *from, *kernel, *kernel], *init, fan_in));
                if *bias {
                    all.push(parameter(name, "bias", &[*to], CnnInit::Constant(0.0), fan_in));
                }
            }
            Layer::BatchNorm { name, channels } => {
                for (what, value) in [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)] {
                    all.push(parameter(name, what, &[*channels], CnnInit::Constant(value), *channels));
                }
            }
            Layer::Linear { name, widths: (from, to) } => {
                all.push(parameter(name, "weight", &[*to, *from], CnnInit::UniformFanIn(1.0), *from));
                all.push(parameter(name, "bias", &[*to], CnnInit::UniformFanIn(1.0), *from));
            }
            Layer::Concat(branches) | Layer::Sum(branches) => branches.iter().for_each(|branch| collect(branch, all)),
            Layer::Relu | Layer::MaxPool { .. } | Layer::GlobalAverage => {}
        }
    }
}

fn parameter(layer: &str, what: &str, shape: &[usize], init: CnnInit, fan_in: usize) -> CnnParameterSpec {
    CnnParameterSpec { name: format!("{layer}.{what}"), shape: shape.to_vec(), init, fan_in }
}
