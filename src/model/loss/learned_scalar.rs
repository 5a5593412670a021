//! Scalars of a loss that are trained together with the model, such as a temperature.
//!
//! They are parameters of the optimiser: their gradients count in the global norm, and they have moments. Weight decay
//! leaves them alone, since it would draw a temperature towards 1.

use serde::{Deserialize, Serialize};

/// Scalar of a loss that is trained together with the model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LearnedScalar {
    /// Name, unique within the loss.
    pub name: String,
    /// Value before the first step.
    pub initial: f64,
    /// Largest value. A step that goes beyond ends there.
    pub largest: Option<f64>,
}

impl LearnedScalar {
    /// Creates a scalar without a largest value.
    #[must_use]
    pub fn new(name: &str, initial: f64) -> Self {
        Self { name: name.to_owned(), initial, largest: None }
    }
}
