//! Specification of a parameter of an image network.

/// Initialisation of a parameter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum NetworkInit {
    /// A constant.
    Constant(f32),
    /// Uniform in ±√(`gain` / fan-in), with gain 6 for He's initialisation before a ReLU and 1 for the default of
    /// PyTorch's layers.
    UniformFanIn(f64),
    /// Normal with variance 2 / fan-out (He et al., "Delving deep into rectifiers", 2015).
    NormalFanOut,
    /// Normal with this standard deviation.
    Normal(f64),
}

/// Specification of a parameter of an image network.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkParameterSpec {
    /// Name, with `.weight` and the like.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
    /// Initialisation.
    pub init: NetworkInit,
    /// Number of inputs that one output of the layer depends on.
    pub fan_in: usize,
}
