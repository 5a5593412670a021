//! The bank: queries and items that are not the test's, from which methods learn where the hubs are.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::embeddings::read_side;
use crate::error::{Error, Result};
use crate::model::similarity::Similarity;
use crate::retrieval::VectorPair;
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
    images: Vec<f32>,
    captions: Vec<f32>,
    width: usize,
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
            let images = read_side(cx, IMAGES, "image_id", &bank.split, similarity)?;
            let captions = read_side(cx, CAPTIONS, "caption_id", &bank.split, similarity)?;
            let widths = [images.width, captions.width];
            (Self { images: images.vectors, captions: captions.vectors, width }, widths)
        };
        match widths.into_iter().find(|&other| other != width) {
            Some(other) => {
                Err(Error::data(format!("the bank has vectors of width {other}, the test of width {width}"))
                    .hint("both must come from one model"))
            }
            None => Ok(Self { width, ..this }),
        }
    }

    /// As retrieval knows them.
    pub(super) fn pair(&self) -> Result<VectorPair<'_>> {
        VectorPair::new(&self.images, &self.captions, self.width, " of the bank")
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};

    use super::super::Evaluate;
    use super::super::tests::{halves, random, stage, world};
    use super::*;
    use crate::retrieval::methods::{DbNorm, Nnn, QbNorm};
    use crate::retrieval::{Method, Protocol};

    /// A sample of a memory bank: epoch, data set, caption, image, and their vectors.
    type Sample = ([i64; 4], Vec<f32>, Vec<f32>);

    fn memory_bank(samples: &[Sample]) -> RecordBatch {
        let number =
            |place: usize| Arc::new(Int64Array::from_iter_values(samples.iter().map(|sample| sample.0[place])));
        let vectors = |of: fn(&Sample) -> &Vec<f32>| {
            tables::vectors(samples.iter().flat_map(|sample| of(sample).clone()).collect(), 5).expect("whole vectors")
        };
        let columns = vec![number(0) as _, number(1), number(2), number(3), vectors(|of| &of.1), vectors(|of| &of.2)];
        tables::batch(&tables::memory_bank::table().schema_of_width(5), columns).expect("columns fit")
    }

    /// A memory bank is what its last epoch has: each image once, and all captions. So it gives what embeddings of these give.
    #[test]
    fn a_memory_bank_is_its_last_epoch_with_each_image_once() {
        let (images, captions) = random(6, 5, 1);
        let of_bank = random(4, 5, 2);
        let (_, earlier) = random(3, 5, 3);
        let mut samples: Vec<Sample> =
            earlier.iter().map(|row| ([0, 0, row.0, row.1], row.3.clone(), row.3.clone())).collect();
        for (caption, image, _, vector) in &of_bank.1 {
            let of_image = of_bank.0.iter().find(|row| row.0 == *image).expect("an image").2.clone();
            samples.push(([1, 0, *caption, *image], of_image, vector.clone()));
        }
        let table = |name: &str| Some(TableRef::try_from(format!("fit.{name}")).expect("a table's name"));
        let methods = vec![
            Method::Nnn(Nnn { alpha: 0.75, k: 3 }),
            Method::QbNorm(QbNorm { beta: 20.0, k: 1 }),
            Method::DbNorm(DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: true }),
        ];
        let with = |bank: Bank| Evaluate { methods: methods.clone(), bank: Some(bank), ..stage(&[Protocol::All]) };
        let train = "train".to_owned();

        let mut remembered = world(&images, &captions);
        remembered.tables.insert("bank.memory".to_owned(), halves(&memory_bank(&samples)));
        let bank = Bank { images: None, captions: None, split: train.clone(), memory: table("memory_bank") };
        remembered.run(&with(bank)).expect("a memory bank");

        let mut embedded = world(&images, &captions);
        let in_train = of_bank.0.iter().map(|(id, _, vector)| (*id, "train", vector.clone())).collect();
        let captions_in_train =
            of_bank.1.iter().map(|(id, of, _, vector)| (*id, *of, "train", vector.clone())).collect();
        let of_train = world(&in_train, &captions_in_train).tables;
        for side in ["images", "captions"] {
            embedded.tables.insert(format!("bank.{side}"), of_train[side].clone());
        }
        let bank = Bank {
            images: table("image_embeddings"),
            captions: table("caption_embeddings"),
            split: train,
            memory: None,
        };
        embedded.run(&with(bank)).expect("embeddings");

        let (one, other) = (remembered.output("rankings"), embedded.output("rankings"));
        let hits = tables::CUTOFFS.map(|k| format!("hit_{k}"));
        for column in
            ["method", "query_id", "rank", "top_ids", "top_scores"].into_iter().chain(hits.iter().map(String::as_str))
        {
            assert_eq!(&one[column], &other[column], "{column}");
        }
        let banks = |world: &crate::stages::testing::MemoryWorld| {
            world.output("metrics")["bank"].as_string::<i32>().value(0).to_owned()
        };
        assert_eq!([banks(&remembered), banks(&embedded)], ["memory", "train"]);
    }
}
