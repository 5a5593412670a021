//! Comparison of the columns of a table with the columns that an input requires.

use arrow::datatypes::{DataType, SchemaRef};

/// Lists the columns of `wanted` that `got` lacks or has with another type; empty if it has them all.
///
/// Columns may be in another order, and `got` may have more of them. A fixed-size list of width 0 in `wanted` or `got`
/// matches every width, and vectors of half precision fit where those of f32 are wanted: they are read as f32.
#[must_use]
pub fn missing_columns(wanted: &SchemaRef, got: &SchemaRef) -> Vec<String> {
    let mut problems = Vec::new();
    for field in wanted.fields() {
        match got.field_with_name(field.name()) {
            Err(_) => problems.push(format!("column `{}` ({}) is missing", field.name(), field.data_type())),
            Ok(found) if !same_type(field.data_type(), found.data_type()) => problems.push(format!(
                "column `{}` is {}, wanted {}",
                field.name(),
                found.data_type(),
                field.data_type()
            )),
            Ok(_) => {}
        }
    }
    problems
}

fn same_type(wanted: &DataType, got: &DataType) -> bool {
    match (wanted, got) {
        (DataType::FixedSizeList(w, w_width), DataType::FixedSizeList(g, g_width)) => {
            let are_halves = (w.data_type(), g.data_type()) == (&DataType::Float32, &DataType::Float16);
            let same_width = w_width == g_width || *w_width == 0 || *g_width == 0;
            same_width && (are_halves || same_type(w.data_type(), g.data_type()))
        }
        _ => wanted == got,
    }
}
