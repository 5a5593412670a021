//! Agreement of scores with people, of `correlations`: what a paper gives beside what was measured here.

use arrow::array::Array;

use super::document::{Block, Section};
use super::table::Table;
use crate::error::Result;
use crate::stage::Cx;
use crate::tables;

const NOTE: &str =
    "Correlation of each score with the ratings of the same pairs. A score that is the same for all pairs has 0.";

/// The section of one table of correlations.
pub(super) fn section(cx: &mut Cx<'_>, input: &str) -> Result<Section> {
    let numbers = ["n", "paper: Pearson", "here: Pearson", "difference", "Spearman", "τ-b", "τ-c"];
    let mut table = Table::new(&["score", "pairs"], &numbers);
    while let Some(batch) = cx.next(input)? {
        let (scores, pairs) = (tables::texts(&batch, "score")?, tables::texts(&batch, "pairs")?);
        let (n, published) = (tables::ids(&batch, "n")?, tables::numbers(&batch, "published")?);
        let pearson = tables::numbers(&batch, "pearson")?;
        for row in 0..batch.num_rows() {
            let here = pearson.value(row);
            let paper = published.is_valid(row).then(|| published.value(row));
            let mut cells = vec![
                scores.value(row).to_owned(),
                pairs.value(row).to_owned(),
                n.value(row).to_string(),
                paper.map_or_else(String::new, |paper| format!("{paper:.3}")),
                format!("{here:.4}"),
                paper.map_or_else(String::new, |paper| format!("{:+.4}", here - paper)),
            ];
            for name in ["spearman", "kendall_b", "kendall_c"] {
                cells.push(format!("{:.4}", tables::numbers(&batch, name)?.value(row)));
            }
            table.push(cells);
        }
    }
    Ok(Section::new("Agreement with people", vec![Block::Table(table), Block::Note(NOTE.to_owned())]))
}
