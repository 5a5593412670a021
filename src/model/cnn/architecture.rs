//! What a network is made of, as plain data, and the parameters that follow from it.

/// A network.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Picture (3 channels) to feature maps.
    pub body: Vec<Layer>,
    /// Channels of the feature maps: the width of a feature.
    pub width: usize,
    /// Feature maps to the scores of the classes.
    pub head: Vec<Layer>,
    /// Classes.
    pub classes: usize,
}

/// A layer. Names are those of the parameters in a file, without `.weight` or `.bias`.
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
        /// Step, in both directions.
        stride: i64,
        /// Zeros around the input.
        padding: i64,
        /// Whether a bias is added.
        bias: bool,
        /// How random weights are drawn.
        init: Init,
    },
    /// Batch normalisation with the running mean and variance.
    BatchNorm {
        /// Name.
        name: String,
        /// Channels.
        channels: usize,
    },
    /// max(x, 0).
    Relu,
    /// Maximum over squares of side 3, in steps of 2.
    MaxPool {
        /// Border around the input.
        padding: i64,
        /// Whether squares that reach over the edge count.
        ceil: bool,
    },
    /// Mean over all positions: N × C × H × W to N × C.
    GlobalAverage,
    /// Product with a matrix, plus a bias.
    Linear {
        /// Name.
        name: String,
        /// Values in and out.
        widths: (usize, usize),
    },
    /// The channels of the branches, one after the other.
    Concat(Vec<Vec<Layer>>),
    /// The sum of the branches; an empty branch is the input itself.
    Sum(Vec<Vec<Layer>>),
}

/// How a random parameter is drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Init {
    /// All of this value.
    Constant(f32),
    /// Uniform in ±√(`gain` / fan-in); He's for ReLU is gain 6, `nn.Linear`'s is 1.
    UniformFanIn(f64),
    /// Normal with variance 2 / fan-out (He et al., "Delving deep into rectifiers", 2015).
    NormalFanOut,
    /// Normal with this standard deviation.
    Normal(f64),
}

/// A parameter of a network.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Name, with `.weight` and the like.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// How it is drawn.
    pub init: Init,
    /// Inputs that one output of its layer depends on.
    pub fan_in: usize,
}

impl Architecture {
    /// The parameters, in the order of the layers.
    #[must_use]
    pub fn parameters(&self) -> Vec<Parameter> {
        let mut all = Vec::new();
        collect(&self.body, &mut all);
        collect(&self.head, &mut all);
        all
    }
}

fn collect(layers: &[Layer], all: &mut Vec<Parameter>) {
    for layer in layers {
        match layer {
            Layer::Conv { name, channels: (from, to), kernel, bias, init, .. } => {
                let fan_in = from * kernel * kernel;
                all.push(parameter(name, "weight", &[*to, *from, *kernel, *kernel], *init, fan_in));
                if *bias {
                    all.push(parameter(name, "bias", &[*to], Init::Constant(0.0), fan_in));
                }
            }
            Layer::BatchNorm { name, channels } => {
                for (what, value) in [("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)] {
                    all.push(parameter(name, what, &[*channels], Init::Constant(value), *channels));
                }
            }
            Layer::Linear { name, widths: (from, to) } => {
                all.push(parameter(name, "weight", &[*to, *from], Init::UniformFanIn(1.0), *from));
                all.push(parameter(name, "bias", &[*to], Init::UniformFanIn(1.0), *from));
            }
            Layer::Concat(branches) | Layer::Sum(branches) => branches.iter().for_each(|branch| collect(branch, all)),
            Layer::Relu | Layer::MaxPool { .. } | Layer::GlobalAverage => {}
        }
    }
}

fn parameter(layer: &str, what: &str, shape: &[usize], init: Init, fan_in: usize) -> Parameter {
    Parameter { name: format!("{layer}.{what}"), shape: shape.to_vec(), init, fan_in }
}
