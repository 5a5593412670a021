//! Nearest neighbour: the scores as they are, what all methods are compared with.

use super::method::{Correction, Method, Needs};
use super::problems::Problems;
use super::shift::Shift;

/// The score itself. Needs nothing; inductive. Cost: none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NearestNeighbour;

impl Method for NearestNeighbour {
    fn problems(&self) -> Problems {
        Problems::new()
    }

    fn needs(&self) -> Needs {
        Needs::default()
    }

    fn correction(&self, _: &[Vec<f64>], _: &[Vec<f64>]) -> Box<dyn Correction> {
        Box::new(Shift::new(Vec::new(), Vec::new()))
    }
}
