//! Functions on vectors: distances, norms, averages, and the best k of a group.
//!
//! A vector is a list of numbers, of fixed or varying length. They replace DataFusion's functions of the same names,
//! which copy every vector to lists of f64.

mod average;
mod best_by;
mod best_rows;
mod column;
mod documentation;
mod measure;
mod measure_call;
mod norm;
mod register;
#[cfg(test)]
mod tests;
mod topk;

pub(super) use column::{ListVectors, number_type};
pub(super) use measure::VectorMeasure;
pub(super) use measure_call::measure_function;
pub(super) use register::{is_best_of, is_vector_function, register_vector_functions};
pub(super) use topk::TOPK;
