//! Recalls of a run, as a paper's table shows them, with rsum by chance.

use arrow::array::{Array, RecordBatch};

use super::console::align_columns;
use pairloom_base::error::Result;
use pairloom_kernels::measure::recall::{expected_by_chance, rsum};
use pairloom_storage::parquet;
use pairloom_store::record::{RunRecord, StageRecord};
use pairloom_store::{Artefact, Store};
use pairloom_tables as tables;

/// Rows that are shown; SQL has the others.
const MOST_ROWS: usize = 12;

/// Rows of the table `name` of a stage; none if it has no result.
pub(super) fn stage_rows(store: &Store, stage: &StageRecord, name: &str) -> Result<Vec<RecordBatch>> {
    let artefact = store.artefact(&stage.kind, &stage.key);
    let Some(manifest) = artefact.manifest()? else { return Ok(vec![]) };
    let parts = manifest.tables.get(name).into_iter().flatten();
    let read = |part: &pairloom_store::Part| {
        parquet::decode_whole(artefact.read(&Artefact::part_name(name, part.index), part.bytes, &part.digest)?)
    };
    parts.map(read).collect()
}

/// Table of the recalls of all evaluations of a run, one row a stage, protocol and method; empty without evaluations.
pub(super) fn recall_table(store: &Store, record: &RunRecord) -> Result<String> {
    let mut lines: Vec<Vec<String>> = Vec::new();
    let mut left_out = 0;
    for stage in record.stages.iter().filter(|stage| stage.kind == "evaluate") {
        for batch in stage_rows(store, stage, "summary")? {
            let cutoffs = tables::summary::cutoffs(&batch.schema());
            let mut title = vec!["stage".to_owned(), "protocol".to_owned(), "method".to_owned()];
            title.extend(["i2t", "t2i"].iter().flat_map(|side| cutoffs.iter().map(move |k| format!("{side} R@{k}"))));
            title.extend(["rsum".to_owned(), "by chance".to_owned()]);
            // Evaluations with other cut-offs have a title of their own.
            if lines.iter().rev().find(|line| line[0] == "stage") != Some(&title) {
                lines.push(title);
            }
            for row in 0..batch.num_rows() {
                if lines.len() > MOST_ROWS {
                    left_out += 1;
                    continue;
                }
                let mut line = vec![stage.name.clone()];
                line.push(tables::text_column(&batch, "protocol")?.value(row).to_owned());
                let (methods, parameters) =
                    (tables::text_column(&batch, "method")?, tables::text_column(&batch, "parameters")?);
                let parameters =
                    if parameters.is_valid(row) { format!(" {}", parameters.value(row)) } else { String::new() };
                line.push(format!("{}{parameters}", methods.value(row)));
                for side in ["i2t", "t2i"] {
                    for k in &cutoffs {
                        line.push(format!("{:.1}", tables::float_column(&batch, &format!("{side}_r{k}"))?.value(row)));
                    }
                }
                line.push(format!("{:.1}", tables::float_column(&batch, "rsum")?.value(row)));
                let [images, captions] = ["n_images", "n_captions"].map(|name| tables::int_column(&batch, name));
                let [images, captions] = [images?.value(row), captions?.value(row)].map(usize::try_from);
                let chance = rsum_by_chance(images.unwrap_or(0), captions.unwrap_or(0), &cutoffs);
                line.push(chance.map_or_else(String::new, |rsum| format!("{rsum:.1}")));
                lines.push(line);
            }
        }
    }
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let is_number: Vec<bool> = (0..columns).map(|column| column > 2).collect();
    let more =
        if left_out == 0 { String::new() } else { format!("and {left_out} more rows in the tables `summary`\n") };
    Ok(format!("{}{more}", align_columns(&lines, &is_number)))
}

/// rsum of a random order, with the captions spread evenly over the images.
fn rsum_by_chance(images: usize, captions: usize, cutoffs: &[usize]) -> Option<f64> {
    let each = (captions + images / 2).checked_div(images)?;
    Some(rsum(&expected_by_chance(captions, each, cutoffs)?, &expected_by_chance(images, 1, cutoffs)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 4 images with one caption each, one of 4 items is right: R@1 = 25 and R@2 = 50 in both directions.
    #[test]
    fn chance_is_the_share_of_the_pool() {
        assert_eq!(rsum_by_chance(4, 4, &[1, 2]), Some(150.0));
        assert_eq!(rsum_by_chance(0, 0, &[1]), None);
    }
}
