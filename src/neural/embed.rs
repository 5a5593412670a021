//! `embed`: `model`, `features` or `regions`, `captions` → `image_embeddings`, `caption_embeddings`.

use arrow::array::RecordBatch;
use serde::{Deserialize, Serialize};

use crate::model_input::check_image_input;
use pairloom_base::error::{Error, Result};
use pairloom_model::collective::CollectiveGroup;
use pairloom_model::device::device_of_rank;
use pairloom_model::rows_encoder::{BlockShare, CaptionEncoder, EncodedRows, ImageEncoder};
use pairloom_model::trained_model::TrainedModel;
use pairloom_spec::stages::embed::Embed;
use pairloom_spec::stages::image_vectors;
use pairloom_stage::StageContext;
use pairloom_tables::{VectorColumn, caption_embeddings, image_embeddings, repeated};

/// Number of blocks of rows after which the position is saved: 65,536 images or captions, or 4,096 images with regions.
/// Parts are full there.
const STATE_BLOCKS: usize = 32;

/// Embeds the features, then the captions. Rows keep the order of their table. Captions whose image has no feature
/// are left out; a warning has their number.
pub fn run(stage: &Embed, cx: &mut StageContext<'_>) -> Result<()> {
    let ranks = cx.process_group(stage.ranks)?;
    let resources = cx.resources().clone();
    let trained = TrainedModel::open_on_rank(|name| cx.file("model", name), &resources, ranks.local_rank)?;
    let group = CollectiveGroup::join(&ranks, device_of_rank(cx.device(), ranks.local_rank)?, cx.cancel())?;
    let done = cx.saved_state()?.map_or(Ok(EmbeddedRows::default()), |state| EmbeddedRows::parse(&state))?;
    let share = BlockShare { rank: group.rank(), world_size: group.world_size(), group: STATE_BLOCKS };
    let Some((from, input)) = image_vectors(stage.features.as_ref(), stage.regions.as_ref()) else {
        return Err(Error::internal("no images to embed"));
    };
    check_image_input(&trained, input)?;
    let wants = |split: &str| stage.splits.is_empty() || stage.splits.iter().any(|chosen| chosen == split);
    let mut writer = RoundWriter { group: &group, trained: &trained, waiting: Vec::new(), blocks: 0, done };
    let table = from.to_string();
    let mut images = ImageEncoder::new(&trained, &table, &wants).skip(done.images).share(share);
    while let Some(batch) = cx.read_next(input.name())? {
        writer.add(images.push(&batch)?, "image_embeddings", cx)?;
    }
    writer.add(images.finish()?, "image_embeddings", cx)?;
    writer.finish("image_embeddings", cx)?;
    if images.ids.is_empty() {
        let splits =
            if stage.splits.is_empty() { "any".to_owned() } else { format!("`{}`", stage.splits.join("`, `")) };
        let error = Error::data(format!("nothing to embed: no image of split {splits} in `{from}`"));
        let there: Vec<String> = images.splits.iter().map(|split| format!("`{split}`")).collect();
        return Err(if there.is_empty() {
            error.hint("the table has no rows")
        } else {
            error.hint(format!(
                "its images are all of {}: choose with `splits` of this stage, or give images another split in \
                 `ingest`, such as `split = {{ fractions = {{ val = 0.1, test = 0.1 }} }}` of `image_folder`",
                there.join(", ")
            ))
        });
    }
    for split in stage.splits.iter().filter(|split| !images.splits.contains(*split)) {
        cx.warn(split, format!("no image of split `{split}` has a feature"));
    }
    let mut captions = CaptionEncoder::new(&trained, &wants, &images.ids).skip(done.captions).share(share);
    while let Some(batch) = cx.read_next("captions")? {
        writer.add(captions.push(&batch)?, "caption_embeddings", cx)?;
    }
    writer.add(captions.finish()?, "caption_embeddings", cx)?;
    writer.finish("caption_embeddings", cx)?;
    if !captions.skipped_caption_ids.is_empty() {
        let message = format!("{} captions left out: their images have no feature", captions.skipped_caption_ids.len());
        cx.warn("captions", message);
    }
    Ok(())
}

/// Numbers of rows that are embedded: the state of the stage.
#[derive(Debug, Clone, Copy, Default, Deserialize, Serialize)]
struct EmbeddedRows {
    images: usize,
    captions: usize,
}

impl EmbeddedRows {
    fn parse(state: &[u8]) -> Result<Self> {
        serde_json::from_slice(state)
            .map_err(|error| Error::data(format!("the saved state of the embeddings is damaged: {error}")))
    }
}

/// Writer of encoded blocks. The ranks encode a block each; then all have them, and rank 0 writes them.
struct RoundWriter<'w> {
    group: &'w CollectiveGroup,
    trained: &'w TrainedModel,
    /// Blocks of the current round. Each rank has the items of one.
    waiting: Vec<EncodedRows>,
    /// Number of blocks of the table since the last state.
    blocks: usize,
    done: EmbeddedRows,
}

impl RoundWriter<'_> {
    fn add(
        &mut self,
        blocks: impl IntoIterator<Item = EncodedRows>,
        output: &str,
        cx: &mut StageContext<'_>,
    ) -> Result<()> {
        for rows in blocks {
            self.waiting.push(rows);
            self.blocks += 1;
            let ends_group = self.blocks == STATE_BLOCKS;
            if self.waiting.len() == self.group.world_size() || ends_group {
                self.write_round(output, cx)?;
            }
            if ends_group {
                self.blocks = 0;
                let state = serde_json::to_vec(&self.done).map_err(|error| Error::internal(error.to_string()))?;
                cx.save_state(state.into(), 2)?;
            }
        }
        Ok(())
    }

    /// Writes the last round of a table.
    fn finish(&mut self, output: &str, cx: &mut StageContext<'_>) -> Result<()> {
        self.blocks = 0;
        if self.waiting.is_empty() { Ok(()) } else { self.write_round(output, cx) }
    }

    fn write_round(&mut self, output: &str, cx: &mut StageContext<'_>) -> Result<()> {
        let waiting = std::mem::take(&mut self.waiting);
        let width = waiting.first().map_or(0, |rows| rows.encoded.width());
        let mut own = Vec::new();
        for rows in &waiting {
            own.extend(self.trained.single_vectors(&rows.encoded)?);
        }
        // The round's blocks are in the order of the ranks.
        let mut vectors = self.group.all_gather_values(own, width)?;
        for rows in waiting {
            let rest = vectors.split_off((rows.image_ids.len() * width).min(vectors.len()));
            let done = if rows.caption_ids.is_empty() { &mut self.done.images } else { &mut self.done.captions };
            *done += rows.image_ids.len();
            cx.write(output, embeddings(rows, vectors, width, output, self.trained)?)?;
            vectors = rest;
        }
        Ok(())
    }
}

/// Rows of an embedding table.
fn embeddings(
    rows: EncodedRows,
    vectors: Vec<f32>,
    width: usize,
    output: &str,
    trained: &TrainedModel,
) -> Result<RecordBatch> {
    let EncodedRows { caption_ids, image_ids, splits, .. } = rows;
    if let Some(row) = vectors.chunks_exact(width).position(|vector| !vector.iter().all(|value| value.is_finite())) {
        return Err(Error::stage(format!("the embedding of image {} in `{output}` is not finite", image_ids[row])));
    }
    let tokenizer = repeated(trained.tokenizer().name(), image_ids.len());
    let (image_id, split, embedding) = (image_ids.into(), splits.into(), VectorColumn::new(vectors, width)?);
    if caption_ids.is_empty() {
        return image_embeddings::TableColumns { image_id, split, embedding }.into_batch();
    }
    let caption_id = caption_ids.into();
    caption_embeddings::TableColumns { caption_id, image_id, split, tokenizer, embedding }.into_batch()
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use pairloom_stage::{Stage as _, TableRef};

    use super::*;
    use crate::testing::RunOnHost as _;
    use pairloom_base::error::ErrorCategory;
    use pairloom_kernels::random::Rng;
    use pairloom_model::trained_model::{DESCRIPTION_FILE, PARAMETERS_FILE};
    use pairloom_spec::stages::train::Train;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables as tables;

    const WORDS: [&str; 8] = ["a", "dog", "runs", "on", "the", "grass", "fast", "red"];

    fn features(ids: std::ops::Range<i64>, width: usize) -> RecordBatch {
        let count = usize::try_from(ids.end - ids.start).expect("a small number");
        let mut rng = Rng::new(9, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        let values = (0..count * width).map(|_| rng.uniform() as f32).collect();
        let split = |id| if id % 2 == 0 { "train" } else { "test" };
        let features = tables::features::TableColumns {
            image_id: Int64Array::from_iter_values(ids.clone()),
            split: StringArray::from_iter_values(ids.map(split)),
            feature: VectorColumn::new(values, width).expect("whole vectors"),
        };
        features.into_batch().expect("features")
    }

    fn text(id: i64) -> String {
        (0..=id % 11)
            .map(|t| WORDS[usize::try_from((id * 3 + t * t) % 8).expect("small")])
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn captions(ids: std::ops::Range<i64>) -> RecordBatch {
        let split = |id| ["train", "test"][usize::from(id / 2 % 2 == 1)];
        let captions = tables::captions::TableColumns {
            caption_id: Int64Array::from_iter_values(ids.clone()),
            image_id: Int64Array::from_iter_values(ids.clone().map(|id| id / 2)),
            split: StringArray::from_iter_values(ids.clone().map(split)),
            text: StringArray::from_iter_values(ids.map(text)),
        };
        captions.into_batch().expect("captions")
    }

    /// Host with a model, 60 features and captions of 70 images.
    fn host() -> InMemoryHost {
        host_with("treebank")
    }

    /// As [`host`], with a model that was trained with `tokenizer`.
    fn host_with(tokenizer: &str) -> InMemoryHost {
        let mut host = InMemoryHost::default();
        host.input_tables.insert("features".to_owned(), vec![features(0..60, 6)]);
        host.input_tables.insert("captions".to_owned(), vec![captions(0..140)]);
        let settings = "features = \"x.features\"\ncaptions = \"x.captions\"\nepochs = 1\nmodel.vse.embed_size = 24\nmodel.vse.word_dim = 8\nmin_count = 1";
        let train: Train = toml::from_str(&format!("{settings}\ntokenizer = \"{tokenizer}\"")).expect("settings");
        host.run_stage(&train).expect("a model");
        let files = std::mem::take(&mut host.output_files);
        host.input_files = files.into_iter().collect();
        (host.output_tables, host.saved_state, host.warnings) = Default::default();
        host
    }

    fn stage(splits: &[&str]) -> Embed {
        let table = |name: &str| TableRef::try_from(name.to_owned()).expect("a table");
        Embed {
            model: table("fit.model"),
            features: Some(table("x.features")),
            regions: None,
            captions: table("x.captions"),
            splits: splits.iter().map(|split| (*split).to_owned()).collect(),
            ranks: 1,
        }
    }

    fn vectors(batch: &RecordBatch) -> (Vec<Vec<f32>>, usize) {
        let (values, width) = tables::vector_column(batch, "embedding").expect("embeddings");
        (values.chunks_exact(width).map(<[f32]>::to_vec).collect(), width)
    }

    /// More captions than a state has. The second run begins at the state.
    #[test]
    fn an_interrupted_run_goes_on_after_its_state() {
        let mut host = host();
        let ids = 0..66_000_i64;
        let captions = tables::captions::TableColumns {
            caption_id: Int64Array::from_iter_values(ids.clone()),
            image_id: Int64Array::from_iter_values(ids.clone().map(|id| id % 60)),
            split: StringArray::from_iter_values(ids.clone().map(|_| "test")),
            text: StringArray::from_iter_values(ids.map(text)),
        };
        host.input_tables.insert("captions".to_owned(), vec![captions.into_batch().expect("captions")]);
        host.run_stage(&stage(&[])).expect("embeddings");
        let all = host.output("caption_embeddings");
        let state = host.saved_state.clone().expect("a state");
        assert_eq!(std::str::from_utf8(&state).expect("JSON"), r#"{"images":60,"captions":65536}"#);
        host.output_tables.clear();
        host.run_stage(&stage(&[])).expect("embeddings");
        let rest = host.output("caption_embeddings");
        assert_eq!((all.num_rows(), rest.num_rows()), (66_000, 66_000 - 65_536));
        assert_eq!(rest, all.slice(65_536, rest.num_rows()));
        host.saved_state = Some("{".into());
        let error = host.run_stage(&stage(&[])).expect_err("a damaged state");
        assert_eq!(error.category(), ErrorCategory::Data);
    }

    #[test]
    fn ranks_are_checked() {
        for (ranks, problems) in [(0, 1), (1, 0), (1_024, 0), (1_025, 1)] {
            assert_eq!(Embed { ranks, ..stage(&[]) }.check().len(), problems, "{ranks}");
        }
    }

    #[test]
    fn rows_keep_their_order_and_equal_the_embeddings_of_single_items() {
        let mut host = host();
        host.run_stage(&stage(&["test"])).expect("embeddings");
        let images = host.output("image_embeddings");
        let captions = host.output("caption_embeddings");
        assert!(
            images["image_id"].as_primitive::<Int64Type>().values().iter().copied().eq((0..60).filter(|i| i % 2 == 1))
        );
        let expected: Vec<i64> = (0..120).filter(|id| id / 2 % 2 == 1).collect();
        assert_eq!(captions["caption_id"].as_primitive::<Int64Type>().values(), &expected);
        assert!(host.warnings.iter().any(|w| w.message == "10 captions left out: their images have no feature"));

        let model = |name: &str| &host.input_files[&("model".to_owned(), name.to_owned())];
        let trained =
            TrainedModel::read(model(DESCRIPTION_FILE), model(PARAMETERS_FILE), tch::Device::Cpu).expect("a model");
        let (found, width) = vectors(&captions);
        assert_eq!(width, 24);
        for (id, vector) in expected.iter().zip(found) {
            let alone = trained.encode_captions(&[&trained.token_ids(&text(*id)).expect("words")]);
            let alone = trained.single_vectors(&alone.expect("a caption")).expect("an embedding");
            assert!(alone.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-6), "caption {id}");
            let norm = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            assert!((norm - 1.0).abs() < 1e-5, "caption {id}: {norm}");
        }
        let (found, _) = vectors(&images);
        let all = features(0..60, 6);
        let (inputs, _) = tables::vector_column(&all, "feature").expect("features");
        for (i, vector) in (0..).map(|i| 2 * i + 1).zip(found) {
            let alone = trained.encode_images(&inputs[i * 6..][..6], 6);
            let alone = trained.single_vectors(&alone.expect("an image")).expect("an embedding");
            assert!(alone.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-6), "image {i}");
        }
    }

    #[test]
    fn captions_are_tokenized_as_in_training_and_the_table_names_the_tokenizer() {
        for (tokenizer, first) in [("treebank", "a"), ("whitespace", "a"), ("ptb", "a"), ("python3_bytes", "b'a")] {
            let mut host = host_with(tokenizer);
            host.run_stage(&stage(&[])).expect("embeddings");
            let captions = host.output("caption_embeddings");
            assert!(
                tables::text_column(&captions, "tokenizer")
                    .expect("a column")
                    .iter()
                    .all(|name| name == Some(tokenizer))
            );
            let description = &host.input_files[&("model".to_owned(), DESCRIPTION_FILE.to_owned())];
            let description: serde_json::Value = serde_json::from_slice(description).expect("a description");
            let words: Vec<_> = description["vocabulary"].as_array().expect("words").iter().collect();
            assert!(words.iter().any(|word| *word == first), "{tokenizer}: {words:?}");
        }
    }

    #[test]
    fn a_model_without_a_tokenizer_is_refused() {
        let mut host = host();
        let description =
            host.input_files.get_mut(&("model".to_owned(), DESCRIPTION_FILE.to_owned())).expect("a description");
        let mut value: serde_json::Value = serde_json::from_slice(description).expect("a description");
        value.as_object_mut().expect("an object").remove("tokenizer");
        *description = serde_json::to_vec(&value).expect("a description").into();
        let error = host.run_stage(&stage(&[])).expect_err("no tokeniser").to_string();
        assert!(error.contains("`tokenizer`") && error.contains(DESCRIPTION_FILE), "{error}");
    }

    #[test]
    fn embeddings_do_not_depend_on_the_batch_sizes_of_the_inputs() {
        let mut whole = host();
        whole.run_stage(&stage(&[])).expect("embeddings");
        let mut cut = host();
        cut.input_tables.insert("features".to_owned(), (0..60).map(|i| features(0..60, 6).slice(i, 1)).collect());
        cut.input_tables.insert("captions".to_owned(), (0..20).map(|i| captions(0..140).slice(7 * i, 7)).collect());
        cut.run_stage(&stage(&[])).expect("embeddings");
        for table in ["image_embeddings", "caption_embeddings"] {
            assert_eq!(whole.output(table), cut.output(table));
        }
        assert_eq!(whole.output("caption_embeddings").num_rows(), 120);
    }

    #[test]
    fn unknown_splits_and_mismatched_inputs_are_refused() {
        let problems = stage(&["test", "tset"]).check();
        assert!(problems.len() == 1 && problems[0].message.contains("`tset`"), "{problems:?}");

        let fails = |host: &mut InMemoryHost, splits: &[&str], part: &str| {
            let error = host.run_stage(&stage(splits)).expect_err(part);
            assert_eq!(error.category(), ErrorCategory::Data, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        fails(&mut host(), &["val"], "no image of split `val`");
        let error = host().run_stage(&stage(&["val"])).expect_err("no such split");
        let hint = error.hint_text().expect("a hint");
        assert!(hint.starts_with("its images are all of `test`, `train`: choose with `splits`"), "{hint}");
        let mut other = host();
        other.input_tables.insert("features".to_owned(), vec![features(0..4, 7)]);
        fails(&mut other, &[], "has vectors of 7 values, the model was trained on 6");
        let mut other = host();
        other
            .input_files
            .insert(("model".to_owned(), PARAMETERS_FILE.to_owned()), bytes::Bytes::from_static(b"nonsense"));
        fails(&mut other, &[], "model.safetensors");
        let mut other = host();
        let description = other.input_files[&("model".to_owned(), DESCRIPTION_FILE.to_owned())].clone();
        let text =
            String::from_utf8(description.to_vec()).expect("JSON").replace("\"<unk>\",", "\"<unk>\", \"zebra\",");
        other.input_files.insert(("model".to_owned(), DESCRIPTION_FILE.to_owned()), text.into());
        fails(&mut other, &[], "model.json: `words` is 10, `vocabulary` has 11");

        let mut two = host();
        two.run_stage(&stage(&["test", "val"])).expect("embeddings");
        assert!(two.warnings.iter().any(|warning| warning.subject == "val"), "{:?}", two.warnings);
    }
}
