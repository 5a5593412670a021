//! Logical plan of a top-k join, with its method against hubs.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, ScalarValue, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, JoinType, LogicalPlan, SortExpr, UserDefinedLogicalNodeCore, build_join_schema};
use serde_json::{Map, Value};

use crate::topk_join_function::TOPK_JOIN;
use crate::vectors::VectorMeasure;
use pairloom_retrieval::Method;

/// Name of the column with the rank of an item, from 1.
pub(crate) const RANK: &str = "__rank";

/// Name of the column with the measure of the two vectors.
pub(crate) const MEASURE: &str = "__measure";

/// Columns beside those of the two inputs.
pub(super) fn added_fields() -> [Field; 2] {
    [Field::new(RANK, DataType::Int64, false), Field::new(MEASURE, DataType::Float64, false)]
}

/// Shape of the lists of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ListShape {
    /// Length of a list.
    pub k: usize,
    /// Rows of a list, from the first, that are left out.
    pub skip: usize,
    /// True if a query without a row has one whose other columns are missing.
    pub is_outer: bool,
}

impl ListShape {
    /// Lists of k rows.
    pub(super) fn of_nearest(k: usize) -> Self {
        Self { k, skip: 0, is_outer: false }
    }
}

/// For each row of `queries` the `k` rows of `items` whose vectors are nearest, the nearest first.
///
/// The columns are those of `queries`, those of `items`, [`RANK`] and [`MEASURE`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TopKJoin {
    pub queries: LogicalPlan,
    pub items: LogicalPlan,
    pub measure: VectorMeasure,
    pub(super) shape: ListShape,
    /// Parameter of the statement that is k, until it has its value.
    pub(super) k_parameter: Option<Expr>,
    /// Columns of the vectors with their tables, for messages.
    pub(super) vector_names: [Arc<str>; 2],
    /// Order of items with equal measures: expressions on `items`. Equal ones keep the order of `items`.
    pub ties: Vec<SortExpr>,
    /// Method that corrects cosines, as JSON; `None` for the measure itself.
    pub method: Option<String>,
    /// Rows that the method learns from in place of the queries, and of the items.
    pub banks: Vec<LogicalPlan>,
    /// Vectors of the banks: expressions on them.
    pub bank_vectors: Vec<Expr>,
    /// Vector of a query: an expression on `queries`.
    pub query_vector: Expr,
    /// Vector of an item: an expression on `items`.
    pub item_vector: Expr,
    /// Condition that a pair must satisfy: an expression on both.
    pub condition: Option<Expr>,
    schema: DFSchemaRef,
}

impl TopKJoin {
    /// Creates a join of `[queries, items]` with their vectors.
    ///
    /// # Errors
    /// Both inputs have a column of the same qualified name.
    pub(crate) fn try_new(
        [queries, items]: [LogicalPlan; 2],
        measure: VectorMeasure,
        k: usize,
        [query_vector, item_vector]: [Expr; 2],
        condition: Option<Expr>,
    ) -> Result<Self> {
        let shape = ListShape::of_nearest(k);
        let schema = joined_schema(&queries, &items, shape)?;
        let (ties, method, banks, bank_vectors) = (Vec::new(), None, Vec::new(), Vec::new());
        let vector_names = [&query_vector, &item_vector].map(|vector| Arc::from(vector.to_string()));
        Ok(Self {
            queries,
            items,
            measure,
            shape,
            k_parameter: None,
            vector_names,
            ties,
            method,
            banks,
            bank_vectors,
            query_vector,
            item_vector,
            condition,
            schema,
        })
    }
}

/// Columns of a join.
fn joined_schema(queries: &LogicalPlan, items: &LogicalPlan, shape: ListShape) -> Result<DFSchemaRef> {
    let added = DFSchema::from_unqualified_fields(added_fields().to_vec().into(), HashMap::new())?;
    let of_items = items.schema().join(&added)?;
    let join_type = if shape.is_outer { JoinType::Left } else { JoinType::Inner };
    // It finds a column of the same name in both.
    queries.schema().join(&of_items)?;
    Ok(Arc::new(build_join_schema(queries.schema(), &of_items, &join_type)?))
}

impl TopKJoin {
    /// The same join by corrected cosines.
    pub(crate) fn with_method(self, method: Option<String>) -> Self {
        Self { method, ..self }
    }

    /// The same join with lists of another shape.
    ///
    /// # Errors
    /// As [`Self::try_new`].
    pub(super) fn with_shape(self, shape: ListShape) -> Result<Self> {
        Ok(Self { schema: joined_schema(&self.queries, &self.items, shape)?, shape, ..self })
    }

    /// The same join with an order of items with equal measures.
    pub(super) fn with_ties(self, ties: Vec<SortExpr>) -> Self {
        Self { ties, ..self }
    }

    /// The same join, whose k is a parameter of the statement.
    pub(crate) fn with_k_parameter(self, k_parameter: Option<Expr>) -> Self {
        Self { k_parameter, ..self }
    }

    /// The same join, whose messages name the vectors so.
    pub(crate) fn with_vector_names(self, vector_names: [Arc<str>; 2]) -> Self {
        Self { vector_names, ..self }
    }

    /// The same join, whose method learns from banks.
    pub(crate) fn with_banks(self, banks: Vec<LogicalPlan>, bank_vectors: Vec<Expr>) -> Self {
        Self { banks, bank_vectors, ..self }
    }
}

/// The k of a table function.
///
/// # Errors
/// It is no whole number from 1.
pub(crate) fn join_k(value: &ScalarValue) -> Result<usize> {
    match value {
        ScalarValue::Int64(Some(k)) if *k > 0 => Ok(usize::try_from(*k).unwrap_or(usize::MAX)),
        other => plan_err!("k of `{TOPK_JOIN}` is {other}, expected a whole number from 1"),
    }
}

impl PartialOrd for TopKJoin {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        (self == other).then_some(Ordering::Equal)
    }
}

impl UserDefinedLogicalNodeCore for TopKJoin {
    fn name(&self) -> &'static str {
        "TopKJoin"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        [&self.queries, &self.items].into_iter().chain(&self.banks).collect()
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        let vectors = [&self.query_vector, &self.item_vector];
        let ties = self.ties.iter().map(|tie| &tie.expr);
        let others = ties.chain(&self.condition).chain(&self.k_parameter);
        vectors.into_iter().chain(&self.bank_vectors).chain(others).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, shape, ties, method, query_vector, item_vector, condition, .. } = self;
        let name = if shape.is_outer { "outer TopKJoin" } else { "TopKJoin" };
        write!(f, "{name}: k={}, {}({query_vector}, {item_vector})", shape.k, measure.name())?;
        if shape.skip > 0 {
            write!(f, ", skip {}", shape.skip)?;
        }
        ties.iter().try_for_each(|tie| write!(f, ", then {tie}"))?;
        method.as_ref().map_or(Ok(()), |method| write!(f, ", method {method}"))?;
        condition.as_ref().map_or(Ok(()), |condition| write!(f, ", where {condition}"))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let ([queries, items, banks @ ..], [query_vector, item_vector, more @ ..]) = (&*inputs, &*exprs) else {
            return internal_err!("a top-k join has two inputs and two vectors at least");
        };
        let Some((bank_vectors, more)) = more.split_at_checked(banks.len()) else {
            return internal_err!("a bank of a top-k join has no vectors");
        };
        let Some((ties, others)) = more.split_at_checked(self.ties.len()) else {
            return internal_err!("an order of a top-k join has no expression");
        };
        let ties = self.ties.iter().zip(ties).map(|(tie, expr)| SortExpr { expr: expr.clone(), ..tie.clone() });
        let (condition, k) = others.split_at(usize::from(self.condition.is_some()));
        // A value has the name of its parameter.
        let (k, k_parameter) = match k.first().map(|k| k.clone().unalias()) {
            Some(Expr::Literal(value, _)) => (join_k(&value)?, None),
            other => (self.shape.k, other),
        };
        let vectors = [query_vector.clone(), item_vector.clone()];
        let inputs = [queries.clone(), items.clone()];
        let join = Self::try_new(inputs, self.measure, k, vectors, condition.first().cloned())?;
        let join = join.with_shape(ListShape { k, ..self.shape })?.with_ties(ties.collect());
        let join = join.with_k_parameter(k_parameter).with_vector_names(self.vector_names.clone());
        Ok(join.with_method(self.method.clone()).with_banks(banks.to_vec(), bank_vectors.to_vec()))
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let [queries, items] = [&self.queries, &self.items].map(|side| side.schema().fields().len());
        let of_queries = output_columns.iter().copied().filter(|&column| column < queries).collect();
        let of_items = output_columns.iter().filter(|&&column| (queries..queries + items).contains(&column));
        let of_both = [of_queries, of_items.map(|column| column - queries).collect()];
        Some(of_both.into_iter().chain(self.banks.iter().map(|_| vec![])).collect())
    }
}

/// Method of a text: its name, or JSON in the form of a pipeline file, `{"csls": {"k": 5}}`.
///
/// # Errors
/// There is no such method, or a setting of it is wrong.
pub(crate) fn join_method(text: &str) -> Result<Method> {
    let expected = "expected its name, or its settings as in a pipeline file: `{\"csls\": {\"k\": 5}}`";
    let value = if text.trim_start().starts_with('{') {
        match serde_json::from_str(text) {
            Ok(value) => value,
            Err(error) => return plan_err!("the method `{text}` is no JSON ({error}), {expected}"),
        }
    } else {
        Value::String(text.trim().to_owned())
    };
    serde_json::from_value(with_settings(value)).or_else(|error| plan_err!("the method `{text}`: {error}; {expected}"))
}

/// Method with settings, also of the methods within it. Those that are left out have their defaults.
fn with_settings(method: Value) -> Value {
    match method {
        Value::String(name) => Value::Object(Map::from_iter([(name, Value::Object(Map::new()))])),
        Value::Object(mut method) => {
            for (setting, value) in method.values_mut().filter_map(Value::as_object_mut).flatten() {
                match (setting.as_str(), value) {
                    ("over", inner) => *inner = with_settings(inner.take()),
                    ("methods", Value::Array(inner)) => {
                        for one in inner {
                            *one = with_settings(one.take());
                        }
                    }
                    _ => {}
                }
            }
            Value::Object(method)
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_retrieval::methods::{Csls, RelaxedGreedy};

    #[test]
    fn methods_within_a_method_are_names_or_settings_as_in_a_pipeline_file() {
        let over = |over: Csls| {
            Method::RelaxedGreedy(RelaxedGreedy {
                lambda: 2.0,
                over: Box::new(Method::Csls(over)),
                ..RelaxedGreedy::default()
            })
        };
        let named = r#"{"relaxed_greedy": {"lambda": 2.0, "over": "csls"}}"#;
        assert_eq!(join_method(named).unwrap(), over(Csls::default()));
        let set = r#"{"relaxed_greedy": {"lambda": 2.0, "over": {"csls": {"k": 3}}}}"#;
        assert_eq!(join_method(set).unwrap(), over(Csls { k: 3, ..Csls::default() }));
        let best = join_method(r#"{"best_of": {"methods": ["nns", {"csls": {"k": 3}}]}}"#).unwrap();
        assert_eq!(best.name(), "best_of");
        for wrong in ["nope", r#"{"relaxed_greedy": {"over": "nope"}}"#, "{\"csls\"", r#"{"csls": 3}"#] {
            let error = join_method(wrong).unwrap_err().to_string();
            assert!(error.contains("expected its name, or its settings as in a pipeline file"), "{error}");
        }
    }
}
