//! Cut-offs of measures: the default ones, and those that the columns of a table have in their names.

use arrow::datatypes::Schema;

/// Default cut-offs of recall.
pub const DEFAULT_CUTOFFS: [usize; 3] = [1, 5, 10];

/// Returns the numbers that follow `prefix` in the names of columns, ascending.
pub(super) fn cutoffs(schema: &Schema, prefix: &str) -> Vec<usize> {
    let after = |name: &str| name.strip_prefix(prefix)?.parse().ok();
    let mut cutoffs: Vec<usize> = schema.fields().iter().filter_map(|field| after(field.name())).collect();
    cutoffs.sort_unstable();
    cutoffs
}
