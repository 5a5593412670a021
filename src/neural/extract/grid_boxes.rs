//! Boxes of the cells of a grid.

use arrow::array::{Int64Array, RecordBatch, StringArray};

use super::earlier::{BlockRows, KeptRows};
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_images::image::EncodedImages;
use pairloom_kernels::resize::cropped_square;
use pairloom_spec::stages::extract::Extract;
use pairloom_stage::{MapOutput, MappedRows};
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, region_boxes};

/// Computes the rows of `region_boxes` for the images of `batch`, from the sizes in their headers. An image whose
/// header cannot be read has none.
///
/// # Errors
/// An image cannot be read for another reason than its content.
pub(super) fn grid_boxes(
    stage: &Extract,
    batch: &RecordBatch,
    images: &EncodedImages<'_>,
    mut rows: BlockRows,
    side: usize,
) -> Result<MapOutput> {
    let ids = tables::int_column(batch, "image_id")?;
    let splits = tables::text_column(batch, "split")?;
    let input = stage.input();
    let copied = rows.count_known();
    for row in std::mem::take(&mut rows.new) {
        match images.size(row) {
            Ok((width, height)) => {
                let square = cropped_square(width, height, input.resize, input.crop);
                rows.set(row, &cells(square, side).collect::<Vec<_>>());
            }
            Err(error) if error.category() == ErrorCategory::Data => {}
            Err(error) => return Err(error.context(format!("image `{}`", images.shown_name(row)))),
        }
    }
    rows.repeat();
    let warnings = std::mem::take(&mut rows.warnings);
    let KeptRows { kept, values: boxes, row_keys, part_key } = rows.finish();
    let columns = region_boxes::TableColumns {
        image_id: Int64Array::from_iter_values(kept.iter().map(|&row| ids.value(row))),
        split: StringArray::from_iter_values(kept.iter().map(|&row| splits.value(row))),
        boxes: RegionColumn::new(boxes, side * side, 4)?,
    };
    Ok(MapOutput { rows: MappedRows::New(columns.into_batch()?), warnings, row_keys, part_key, copied })
}

/// Divides a rectangle into `side` × `side` cells: left, top, right and bottom of each, row by row.
fn cells(within: [f64; 4], side: usize) -> impl Iterator<Item = f32> {
    let [left, top, right, bottom] = within;
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "boxes are f32, sides small")]
    let edge = move |from: f64, to: f64, place: usize| (from + (to - from) * (place as f64 / side as f64)) as f32;
    (0..side * side).flat_map(move |cell| {
        let (row, column) = (cell / side, cell % side);
        let horizontal = [column, column + 1].map(|place| edge(left, right, place));
        let vertical = [row, row + 1].map(|place| edge(top, bottom, place));
        [horizontal[0], vertical[0], horizontal[1], vertical[1]]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_in_rows_from_the_top_left() {
        let boxes: Vec<f32> = cells([0.0, 0.25, 1.0, 0.75], 2).collect();
        let wanted = [[0.0, 0.25, 0.5, 0.5], [0.5, 0.25, 1.0, 0.5], [0.0, 0.5, 0.5, 0.75], [0.5, 0.5, 1.0, 0.75]];
        assert_eq!(boxes, wanted.concat());
    }
}
