//! Section of `correlations`: correlation of scores with human ratings, beside published values.

use arrow::array::Array;

use super::document::{PageBlock, Section};
use super::table::PageTable;
use pairloom_base::error::Result;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

const NOTE: &str =
    "Correlation of each score with the n ratings of the same pairs. A score that is the same for all pairs has 0.";

/// Section of the table `input`.
pub(super) fn section(cx: &mut StageContext<'_>, input: &str) -> Result<Section> {
    let numbers = ["n", "paper: Pearson", "here: Pearson", "difference", "Spearman", "τ-b", "τ-c"];
    let mut table = PageTable::new(&["score", "pairs"], &numbers);
    while let Some(batch) = cx.read_next(input)? {
        let (scores, pairs) = (tables::text_column(&batch, "score")?, tables::text_column(&batch, "pairs")?);
        let (n, published) = (tables::int_column(&batch, "n_ratings")?, tables::float_column(&batch, "published")?);
        let pearson = tables::float_column(&batch, "pearson")?;
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
                cells.push(format!("{:.4}", tables::float_column(&batch, name)?.value(row)));
            }
            table.push(cells);
        }
    }
    Ok(Section::new("Agreement with people", vec![PageBlock::Table(table), PageBlock::Note(NOTE.to_owned())]))
}
