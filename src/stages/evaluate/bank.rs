//! The bank: queries and items that are not the test's, from which methods learn where the hubs are.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pool::read_side;
use crate::error::{Error, Result};
use crate::model::similarity::Similarity;
use crate::stage::{Cx, Input, Problem, TableRef};
use crate::tables;

/// Images and captions that are not the test's. Either embeddings of another split, or the memory bank of a training.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bank {
    /// Images in the joint space.
    pub images: Option<TableRef>,
    /// Captions in the joint space.
    pub captions: Option<TableRef>,
    /// The split of both that is the bank.
    #[serde(default = "train")]
    pub split: String,
    /// A `memory_bank`, in place of embeddings; its last epoch. The model has changed a little since that epoch began.
    pub memory: Option<TableRef>,
}

fn train() -> String {
    "train".to_owned()
}

/// Names of the inputs.
const IMAGES: &str = "bank.images";
const CAPTIONS: &str = "bank.captions";
const MEMORY: &str = "bank.memory";

impl Bank {
    pub(super) fn inputs(&self) -> Vec<Input> {
        let all = [
            (IMAGES, &self.images, tables::image_embeddings::table()),
            (CAPTIONS, &self.captions, tables::caption_embeddings::table()),
            (MEMORY, &self.memory, tables::memory_bank::table()),
        ];
        all.into_iter()
            .filter_map(|(name, from, table)| Some(Input::table(name, from.as_ref()?, table.schema())))
            .collect()
    }

    pub(super) fn problems(&self, split: &str) -> Vec<Problem> {
        let hint = "either `images` and `captions`, or `memory`";
        match (&self.images, &self.captions, &self.memory) {
            (Some(_), Some(_), None) if self.split == split => {
                let message = format!("got `{split}`, which is what is ranked");
                vec![Problem::new("bank.split", message).hint("a bank is not of the test: `train` or `val`")]
            }
            (Some(_), Some(_), None) | (None, None, Some(_)) => vec![],
            _ => vec![Problem::new("bank", "names too few tables, or too many").hint(hint)],
        }
    }

    /// How results call it.
    pub(super) fn name(&self) -> &str {
        if self.memory.is_some() { "memory" } else { &self.split }
    }
}

/// The vectors of a bank, row-major.
#[derive(Debug, Default)]
pub(super) struct BankVectors {
    pub(super) images: Vec<f32>,
    pub(super) captions: Vec<f32>,
}

impl BankVectors {
    /// Reads them.
    ///
    /// # Errors
    /// No rows, another width than the test's, or a vector that is not of unit length.
    pub(super) fn read(bank: &Bank, width: usize, similarity: Similarity, cx: &mut Cx<'_>) -> Result<Self> {
        let (this, widths) = if bank.memory.is_some() {
            memory(cx)?
        } else {
            let (images, image_width, _) = read_side(cx, IMAGES, "image_id", &bank.split, similarity)?;
            let (captions, caption_width, _) = read_side(cx, CAPTIONS, "caption_id", &bank.split, similarity)?;
            (Self { images: images.vectors, captions: captions.vectors }, [image_width, caption_width])
        };
        match widths.into_iter().find(|&other| other != width) {
            Some(other) => {
                Err(Error::data(format!("the bank has vectors of width {other}, the test of width {width}"))
                    .hint("both must come from one model"))
            }
            None => Ok(this),
        }
    }
}

/// The last epoch of a memory bank: each image once, all captions.
fn memory(cx: &mut Cx<'_>) -> Result<(BankVectors, [usize; 2])> {
    let mut bank = BankVectors::default();
    let (mut last, mut widths) = (None, [0; 2]);
    let mut images = std::collections::HashSet::new();
    while let Some(batch) = cx.next(MEMORY)? {
        let epochs = batch["epoch"].as_primitive::<Int64Type>();
        let (sets, ids) = (tables::ids(&batch, "data_set")?, tables::ids(&batch, "image_id")?);
        let (image, image_width) = tables::floats(&batch, "image")?;
        let (caption, caption_width) = tables::floats(&batch, "caption")?;
        widths = [image_width, caption_width];
        for row in 0..batch.num_rows() {
            let epoch = Some(epochs.value(row));
            if epoch > last {
                (last, bank) = (epoch, BankVectors::default());
                images.clear();
            }
            if epoch == last {
                if images.insert((sets.value(row), ids.value(row))) {
                    bank.images.extend_from_slice(&image[row * image_width..][..image_width]);
                }
                bank.captions.extend_from_slice(&caption[row * caption_width..][..caption_width]);
            }
        }
    }
    if last.is_none() {
        return Err(
            Error::data("the memory bank has no rows").hint("the training ended before its first epoch with a bank")
        );
    }
    Ok((bank, widths))
}
