//! Rows of `ratings`, collected from a file.

use arrow::array::StringArray;

use super::super::part_rows::RATING_PART_ROWS;
use pairloom_base::error::Result;
use pairloom_stage::StageContext;
use pairloom_tables::{Nullable, ratings};

/// Rating of a pair.
#[derive(Debug)]
pub(super) struct Rating {
    pub(super) caption_id: i64,
    pub(super) image_id: i64,
    pub(super) rating: f64,
    pub(super) sampling: String,
    /// Person who gave it, if the file names people.
    pub(super) rater: Option<String>,
}

/// Writes `ratings`, in the order of the file.
pub(super) fn write(rows: &[Rating], cx: &mut StageContext<'_>) -> Result<()> {
    for rows in rows.chunks(RATING_PART_ROWS) {
        let part = ratings::TableColumns {
            caption_id: rows.iter().map(|row| row.caption_id).collect::<Vec<_>>().into(),
            image_id: rows.iter().map(|row| row.image_id).collect::<Vec<_>>().into(),
            rating: rows.iter().map(|row| row.rating).collect::<Vec<_>>().into(),
            sampling: StringArray::from_iter_values(rows.iter().map(|row| &row.sampling)),
            rater: Nullable(StringArray::from_iter(rows.iter().map(|row| row.rater.as_deref()))),
        };
        cx.write("ratings", part.into_batch()?)?;
    }
    Ok(())
}
