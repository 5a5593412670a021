//! Inputs that a model scores: check of the kind of images, and captions of a split as token ids.

use std::collections::{BTreeSet, HashSet};

use pairloom_base::error::{Error, Result};
use pairloom_model::trained_model::TrainedModel;
use pairloom_spec::input_spec::ImageInput;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Captions of a split, in the order of their table.
#[derive(Debug, Default)]
pub(super) struct TokenizedCaptions {
    pub(super) ids: Vec<i64>,
    pub(super) image_ids: Vec<i64>,
    /// Token ids, as the model reads them.
    pub(super) token_ids: Vec<Vec<i32>>,
}

impl TokenizedCaptions {
    /// Reads the captions of a split from the input `captions`; `table` names it in messages.
    ///
    /// # Errors
    /// No caption of the split, one that appears twice, or one that is too long for the model.
    pub(super) fn read(
        trained: &TrainedModel,
        (split, table): (&str, &str),
        cx: &mut StageContext<'_>,
    ) -> Result<Self> {
        let mut captions = Self::default();
        let (mut splits, mut seen) = (BTreeSet::new(), HashSet::new());
        while let Some(batch) = cx.read_next("captions")? {
            let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
            let (in_split, texts) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
            for row in 0..batch.num_rows() {
                if in_split.value(row) != split {
                    splits.insert(in_split.value(row).to_owned());
                    continue;
                }
                let id = ids.value(row);
                if !seen.insert(id) {
                    return Err(Error::data(format!("caption {id} appears twice")));
                }
                let token_ids = trained.token_ids(texts.value(row));
                captions.token_ids.push(token_ids.map_err(|error| error.context(format!("caption {id}")))?);
                captions.ids.push(id);
                captions.image_ids.push(image_ids.value(row));
            }
        }
        if captions.ids.is_empty() {
            return Err(no_rows_of_split("caption", split, table, &splits));
        }
        trained.add_image_words(&mut captions.token_ids, &captions.image_ids);
        Ok(captions)
    }
}

/// Error: a table has no rows of a split, but of `splits`.
pub(super) fn no_rows_of_split(what: &str, split: &str, table: &str, splits: &BTreeSet<String>) -> Error {
    let there: Vec<String> = splits.iter().map(|split| format!("`{split}`")).collect();
    let hint =
        if there.is_empty() { "the table has no rows".to_owned() } else { format!("it has {}", there.join(", ")) };
    Error::data(format!("no {what} of split `{split}` in `{table}`")).hint(hint)
}

/// Checks that a model reads images of this kind.
///
/// # Errors
/// It reads the other kind.
pub(super) fn check_image_input(model: &TrainedModel, got: ImageInput) -> Result<()> {
    let expected = model.input_spec().image_input();
    if got == expected {
        return Ok(());
    }
    let (got, expected) = (got.name(), expected.name());
    Err(Error::data(format!("the model reads `{expected}` of images, got `{got}`"))
        .hint(format!("set `{expected}` in place of `{got}`")))
}
