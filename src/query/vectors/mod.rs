//! Functions on vectors: distances, norms, averages, and the best k of a group.
//!
//! A vector is a list of numbers, of fixed or varying length. They replace DataFusion's functions of the same names,
//! which copy every vector to lists of f64.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, DocSection, Documentation, ScalarUDF};

use self::average::VectorAverage;
use self::best_rows::{BOTTOMK, BestBy, TopKAggregate};
use self::norm::{NormFunction, VectorFunction};

pub(super) use best_rows::TOPK;
pub(super) use column::{ListVectors, number_type};
pub(super) use measure::{VectorMeasure, measure_function};

mod average;
mod best_rows;
mod column;
mod measure;
mod norm;
#[cfg(test)]
mod tests;

/// Adds the functions to a session. They replace those of the same names.
///
/// # Errors
/// The session takes no functions.
pub(super) fn register_vector_functions(session: &mut dyn FunctionRegistry) -> Result<()> {
    for measure in VectorMeasure::ALL {
        session.register_udf(Arc::new(measure_function(measure)))?;
    }
    for function in [NormFunction::Norm, NormFunction::Normalize] {
        session.register_udf(Arc::new(ScalarUDF::new_from_impl(VectorFunction::new(function))))?;
    }
    session.register_udaf(Arc::new(AggregateUDF::new_from_impl(VectorAverage::new())))?;
    for largest in [true, false] {
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(BestBy::new(largest))))?;
        session.register_udaf(Arc::new(AggregateUDF::new_from_impl(TopKAggregate::new(largest))))?;
    }
    Ok(())
}

/// True for an aggregate function of the best rows of a group.
pub(super) fn is_best_of(function: &AggregateUDF) -> bool {
    ["max_by", "min_by", TOPK, BOTTOMK].contains(&function.name())
}

/// True for a function of two vectors.
pub(super) fn is_vector_function(function: &ScalarUDF) -> bool {
    VectorMeasure::from_name(function.name()).is_some()
}

/// Section of the documentation.
const SECTION: DocSection = DocSection { include: true, label: "Vector Functions", description: None };

/// Documentation of a function, for `SHOW FUNCTIONS`.
pub(super) fn documentation(description: &str, syntax: &str) -> Documentation {
    Documentation::builder(SECTION, description, syntax).build()
}
