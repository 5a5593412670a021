//! Query bank: queries and items of another split, from which methods learn where the hubs are.

use super::embeddings::read_side;
use super::pool::SplitPool;
use super::scores::{ScoreRows, ScoreTables};
use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use pairloom_base::error::{Error, Result};
use pairloom_retrieval::{ImageCaptionVectors, StoredBankScores};
use pairloom_spec::similarity::EmbeddingSimilarity;
use pairloom_spec::stages::evaluate::{BANK_SCORES, CAPTIONS, IMAGES, MEMORY_BANK, QueryBankSettings};
use pairloom_stage::StageContext;
use pairloom_tables as tables;

/// Vectors of a query bank, row-major.
#[derive(Debug, Default)]
pub(super) struct QueryBankVectors {
    images: Vec<f32>,
    captions: Vec<f32>,
    width: usize,
}

impl QueryBankVectors {
    /// Reads the vectors.
    ///
    /// # Errors
    /// No rows, another width than that of the test split, or a vector that is not of unit length.
    pub(super) fn read(
        bank: &QueryBankSettings,
        width: usize,
        similarity: EmbeddingSimilarity,
        cx: &mut StageContext<'_>,
    ) -> Result<Self> {
        let (this, widths) = if bank.memory_bank.is_some() {
            read_memory_bank(cx)?
        } else {
            let images = read_side(cx, IMAGES, "image_id", &bank.split, similarity)?;
            let captions = read_side(cx, CAPTIONS, "caption_id", &bank.split, similarity)?;
            let widths = [images.width, captions.width];
            (Self { images: images.vectors, captions: captions.vectors, width }, widths)
        };
        match widths.into_iter().find(|&other| other != width) {
            Some(other) => Err(Error::data(format!(
                "the query bank has vectors of width {other}, the test split of width {width}"
            ))
            .hint("both must come from one model")),
            None => Ok(Self { width, ..this }),
        }
    }

    /// Returns the vectors in the form that retrieval takes.
    pub(super) fn vector_pair(&self) -> Result<ImageCaptionVectors<'_>> {
        ImageCaptionVectors::new(&self.images, &self.captions, self.width, " of the bank")
    }
}

/// Scores of a query bank with the evaluated split.
#[derive(Debug)]
pub(super) struct QueryBankScores {
    images: ScoreRows,
    captions: ScoreRows,
    pairs: Option<ScoreRows>,
}

impl QueryBankScores {
    /// Opens the tables for the pool of `split`: of the inputs that begin with `prefixes`, the scores of the bank's images
    /// and those of its captions.
    ///
    /// # Errors
    /// As [`ScoreTables::open`] and [`ScoreTables::rows_of`].
    pub(super) fn read(
        bank: &QueryBankSettings,
        prefixes: [&str; 2],
        (split, pool): (&str, &SplitPool),
        cx: &mut StageContext<'_>,
    ) -> Result<Self> {
        let images = ScoreTables::open(prefixes[0], [&bank.split, split], cx)?;
        let captions = ScoreTables::open(prefixes[1], [split, &bank.split], cx)?;
        let (image_ids, caption_ids) = (images.image_ids.clone(), captions.caption_ids().to_vec());
        let pairs = match &bank.bank_scores {
            Some(_) => {
                let pairs = ScoreTables::open(BANK_SCORES, [&bank.split, &bank.split], cx)?;
                Some(pairs.rows_of(Some(&image_ids), &caption_ids, cx)?)
            }
            None => None,
        };
        let images = images.rows_of(None, &pool.captions, cx)?;
        Ok(Self { images, captions: captions.rows_of(Some(&pool.images), &caption_ids, cx)?, pairs })
    }

    /// Scores of each image in the three tables, for [`BankRows::scores`].
    pub(super) fn rows(&self) -> Result<BankRows<'_>> {
        let pairs = self.pairs.as_ref().map(ScoreRows::rows).transpose()?;
        Ok(BankRows { images: self.images.rows()?, captions: self.captions.rows()?, pairs })
    }
}

/// Rows of the scores of a query bank.
pub(super) struct BankRows<'r> {
    images: Vec<&'r [f32]>,
    captions: Vec<&'r [f32]>,
    pairs: Option<Vec<&'r [f32]>>,
}

impl BankRows<'_> {
    /// Returns the scores in the form that retrieval takes.
    pub(super) fn scores(&self) -> StoredBankScores<'_> {
        StoredBankScores { images: &self.images, captions: &self.captions, pairs: self.pairs.as_deref() }
    }
}

/// Reads the last epoch of a memory bank: each image once, all captions.
fn read_memory_bank(cx: &mut StageContext<'_>) -> Result<(QueryBankVectors, [usize; 2])> {
    let mut bank = QueryBankVectors::default();
    let (mut last, mut widths) = (None, [0; 2]);
    let mut images = std::collections::HashSet::new();
    while let Some(batch) = cx.read_next(MEMORY_BANK)? {
        let epochs = batch["epoch"].as_primitive::<Int64Type>();
        let (sets, ids) = (tables::int_column(&batch, "data_set")?, tables::int_column(&batch, "image_id")?);
        let (image, image_width) = tables::vector_column(&batch, "image")?;
        let (caption, caption_width) = tables::vector_column(&batch, "caption")?;
        widths = [image_width, caption_width];
        for row in 0..batch.num_rows() {
            let epoch = Some(epochs.value(row));
            if epoch > last {
                (last, bank) = (epoch, QueryBankVectors::default());
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
        return Err(Error::data("the memory bank has no rows")
            .hint("the training ended before its first epoch with a memory bank"));
    }
    Ok((bank, widths))
}

#[cfg(test)]
mod tests {
    use pairloom_stage::TableRef;
    use std::sync::Arc;

    use arrow::array::{Int64Array, RecordBatch};

    use super::super::tests::{halves, host, random, stage};
    use super::*;
    use crate::testing::RunOnHost as _;
    use pairloom_retrieval::methods::{DbNorm, Nnn, QbNorm};
    use pairloom_retrieval::{Method, Protocol};
    use pairloom_spec::stages::evaluate::Evaluate;

    /// Sample of a memory bank: epoch, data set, caption, image, and the vectors of the last two.
    type Sample = ([i64; 4], Vec<f32>, Vec<f32>);

    fn memory_bank(samples: &[Sample]) -> RecordBatch {
        let number =
            |place: usize| Arc::new(Int64Array::from_iter_values(samples.iter().map(|sample| sample.0[place])));
        let vectors = |vector_of: fn(&Sample) -> &Vec<f32>| {
            tables::vector_array(samples.iter().flat_map(|sample| vector_of(sample).clone()).collect(), 5)
                .expect("whole vectors")
        };
        let columns = vec![
            number(0) as _,
            number(1),
            number(2),
            number(3),
            vectors(|sample| &sample.1),
            vectors(|sample| &sample.2),
        ];
        tables::batch(&tables::memory_bank::table().schema_with_width(5), columns).expect("columns fit")
    }

    /// The last epoch of a memory bank, with each image once and all captions, gives the same results as embeddings of
    /// these.
    #[test]
    fn a_memory_bank_gives_the_results_of_embeddings_of_its_last_epoch() {
        let (images, captions) = random(6, 5, 1);
        let bank_tables = random(4, 5, 2);
        let (_, earlier) = random(3, 5, 3);
        let mut samples: Vec<Sample> =
            earlier.iter().map(|row| ([0, 0, row.0, row.1], row.3.clone(), row.3.clone())).collect();
        for (caption, image, _, vector) in &bank_tables.1 {
            let image_vector = bank_tables.0.iter().find(|row| row.0 == *image).expect("an image").2.clone();
            samples.push(([1, 0, *caption, *image], image_vector, vector.clone()));
        }
        let table = |name: &str| Some(TableRef::try_from(format!("fit.{name}")).expect("a table's name"));
        let methods = vec![
            Method::Nnn(Nnn { alpha: 0.75, k: 3 }),
            Method::QbNorm(QbNorm { beta: 20.0, k: 1 }),
            Method::DbNorm(DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: true }),
        ];
        let with = |bank: QueryBankSettings| Evaluate {
            methods: methods.clone(),
            query_bank: Some(bank),
            ..stage(&[Protocol::All])
        };
        let train = "train".to_owned();

        let mut remembered = host(&images, &captions);
        remembered.input_tables.insert("query_bank.memory_bank".to_owned(), halves(&memory_bank(&samples)));
        let bank = QueryBankSettings { memory_bank: table("memory_bank"), ..QueryBankSettings::default() };
        remembered.run_stage(&with(bank)).expect("a memory bank");

        let mut embedded = host(&images, &captions);
        let in_train = bank_tables.0.iter().map(|(id, _, vector)| (*id, "train", vector.clone())).collect();
        let captions_in_train =
            bank_tables.1.iter().map(|(id, image, _, vector)| (*id, *image, "train", vector.clone())).collect();
        let train_tables = host(&in_train, &captions_in_train).input_tables;
        for side in ["images", "captions"] {
            embedded.input_tables.insert(format!("query_bank.{side}"), train_tables[side].clone());
        }
        let bank = QueryBankSettings {
            images: table("image_embeddings"),
            captions: table("caption_embeddings"),
            split: train,
            ..QueryBankSettings::default()
        };
        embedded.run_stage(&with(bank)).expect("embeddings");

        let (one, other) = (remembered.output("rankings"), embedded.output("rankings"));
        let hits = tables::DEFAULT_CUTOFFS.map(|k| format!("hit_{k}"));
        for column in
            ["method", "query_id", "rank", "top_ids", "top_scores"].into_iter().chain(hits.iter().map(String::as_str))
        {
            assert_eq!(&one[column], &other[column], "{column}");
        }
        let banks = |host: &pairloom_stage_testing::InMemoryHost| {
            host.output("metrics")["query_bank"].as_string::<i32>().value(0).to_owned()
        };
        assert_eq!([banks(&remembered), banks(&embedded)], ["memory_bank", "train"]);
    }
}
