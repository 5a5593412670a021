//! `correlations`: how well scores agree with people.

use arrow::datatypes::DataType;

use super::{Column, Table};

/// One row a score and a set of pairs.
#[must_use]
pub fn table() -> Table {
    let number = |name, about| Column::new(name, DataType::Float64, about);
    Table {
        name: "correlations",
        about: "One row a score and a set of rated pairs: how well the score agrees with the ratings.",
        columns: vec![
            Column::new("score", DataType::Utf8, "The score, as the pipeline names it."),
            Column::new(
                "pairs",
                DataType::Utf8,
                "Which rated pairs: `all`, or those of a name that the pipeline gives, such as `non_gt`.",
            ),
            Column::new("n", DataType::Int64, "Rated pairs."),
            number("pearson", "Pearson's r; 0 where the score is constant, as all coefficients."),
            number("spearman", "Spearman's rho: Pearson's r of the ranks, ties at their mean rank."),
            number("kendall_b", "Kendall's tau-b, which corrects for ties on either side."),
            number("kendall_c", "Kendall's tau-c (Stuart), for tables that are not square."),
            Column::optional(
                "published",
                DataType::Float64,
                "Pearson's r that a paper gives, as the pipeline says it.",
            ),
        ],
    }
}
