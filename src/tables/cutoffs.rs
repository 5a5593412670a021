//! Cut-offs of tables: the usual ones, and those that a table has columns of.

use arrow::datatypes::Schema;

/// Cut-offs of recall, where settings give no others.
pub const CUTOFFS: [usize; 3] = [1, 5, 10];

/// The numbers that follow `prefix` in names of columns, ascending.
pub(super) fn cutoffs(schema: &Schema, prefix: &str) -> Vec<usize> {
    let after = |name: &str| name.strip_prefix(prefix)?.parse().ok();
    let mut cutoffs: Vec<usize> = schema.fields().iter().filter_map(|field| after(field.name())).collect();
    cutoffs.sort_unstable();
    cutoffs
}
