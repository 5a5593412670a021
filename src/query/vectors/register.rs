//! Registration of the functions on vectors in a session.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF};

use super::average::VectorAverage;
use super::best_by::BestBy;
use super::measure::VectorMeasure;
use super::measure_call::measure_function;
use super::norm::{NormFunction, VectorFunction};
use super::topk::{BOTTOMK, TOPK, TopKAggregate};

/// Adds the functions to a session. They replace those of the same names.
///
/// # Errors
/// The session takes no functions.
pub(crate) fn register_vector_functions(session: &mut dyn FunctionRegistry) -> Result<()> {
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
pub(crate) fn is_best_of(function: &AggregateUDF) -> bool {
    ["max_by", "min_by", TOPK, BOTTOMK].contains(&function.name())
}

/// True for a function of two vectors.
pub(crate) fn is_vector_function(function: &ScalarUDF) -> bool {
    VectorMeasure::from_name(function.name()).is_some()
}
