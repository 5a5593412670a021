//! Logical plan of a top-k join.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field};
use datafusion::common::{DFSchema, DFSchemaRef, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use crate::sql::vectors::VectorMeasure;

/// Name of the column with the rank of an item, from 1.
pub(in crate::sql) const RANK: &str = "__rank";

/// Name of the column with the measure of the two vectors.
pub(in crate::sql) const MEASURE: &str = "__measure";

/// Columns that the parts of a join have after all others: the measure, and the indices of the query and the item.
pub(super) const MERGE_COLUMNS: [&str; 3] = ["__measure_of_part", "__query", "__item"];

/// Columns beside those of the two inputs.
pub(super) fn added_fields() -> [Field; 2] {
    [Field::new(RANK, DataType::Int64, false), Field::new(MEASURE, DataType::Float64, false)]
}

/// For each row of `queries` the `k` rows of `items` whose vectors are nearest, the nearest first.
///
/// The columns are those of `queries`, those of `items`, [`RANK`] and [`MEASURE`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::sql) struct TopKJoin {
    pub queries: LogicalPlan,
    pub items: LogicalPlan,
    pub measure: VectorMeasure,
    pub k: usize,
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
    pub(in crate::sql) fn try_new(
        [queries, items]: [LogicalPlan; 2],
        measure: VectorMeasure,
        k: usize,
        [query_vector, item_vector]: [Expr; 2],
        condition: Option<Expr>,
    ) -> Result<Self> {
        let added = DFSchema::from_unqualified_fields(added_fields().to_vec().into(), HashMap::new())?;
        let schema = Arc::new(queries.schema().join(items.schema())?.join(&added)?);
        let (method, banks, bank_vectors) = (None, Vec::new(), Vec::new());
        Ok(Self {
            queries,
            items,
            measure,
            k,
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

impl TopKJoin {
    /// The same join by corrected cosines.
    pub(in crate::sql) fn with_method(self, method: Option<String>) -> Self {
        Self { method, ..self }
    }

    /// The same join, whose method learns from banks.
    pub(in crate::sql) fn with_banks(self, banks: Vec<LogicalPlan>, bank_vectors: Vec<Expr>) -> Self {
        Self { banks, bank_vectors, ..self }
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
        vectors.into_iter().chain(&self.bank_vectors).chain(&self.condition).cloned().collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { measure, k, method, query_vector, item_vector, condition, .. } = self;
        write!(f, "TopKJoin: k={k}, {}({query_vector}, {item_vector})", measure.name())?;
        method.as_ref().map_or(Ok(()), |method| write!(f, ", method {method}"))?;
        condition.as_ref().map_or(Ok(()), |condition| write!(f, ", where {condition}"))
    }

    fn with_exprs_and_inputs(&self, exprs: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let ([queries, items, banks @ ..], [query_vector, item_vector, more @ ..]) = (&*inputs, &*exprs) else {
            return internal_err!("a top-k join has two inputs and two vectors at least");
        };
        let Some((bank_vectors, condition)) = more.split_at_checked(banks.len()) else {
            return internal_err!("a bank of a top-k join has no vectors");
        };
        let vectors = [query_vector.clone(), item_vector.clone()];
        let inputs = [queries.clone(), items.clone()];
        let join = Self::try_new(inputs, self.measure, self.k, vectors, condition.first().cloned())?;
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
