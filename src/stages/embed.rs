//! `embed`: `model`, `features`, `captions` → `image_embeddings`, `caption_embeddings`.

use arrow::array::RecordBatch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::model::rows_encoder::{CaptionEncoder, EncodedRows, ImageEncoder};
use crate::model::trained::Trained;
use crate::stage::{Cx, Input, Output, Problem, Run, Stage, TableRef};
use crate::tables::{self, Vectors, caption_embeddings, image_embeddings, repeated};

/// Rows of a part.
const PART_ROWS: usize = 4096;

/// The splits that there are.
const SPLITS: [&str; 4] = ["train", "restval", "val", "test"];

/// Embeds images and captions with a trained model.
#[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Embed {
    /// The model.
    pub model: TableRef,
    /// Feature vectors of the images.
    pub features: TableRef,
    /// The captions.
    pub captions: TableRef,
    /// Splits that are embedded; all of them when empty.
    #[serde(default)]
    pub splits: Vec<String>,
}

impl Stage for Embed {
    fn kind(&self) -> &'static str {
        "embed"
    }

    fn version(&self) -> u32 {
        2
    }

    fn settings(&self) -> serde_json::Value {
        serde_json::json!(self)
    }

    fn inputs(&self) -> Vec<Input> {
        vec![
            Input::files("model", &self.model),
            Input::table("features", &self.features, tables::features::table().schema()),
            Input::table("captions", &self.captions, tables::captions::table().schema()),
        ]
    }

    fn outputs(&self) -> Vec<Output> {
        vec![
            Output::table("image_embeddings", image_embeddings::table().schema(), PART_ROWS),
            Output::table("caption_embeddings", caption_embeddings::table().schema(), PART_ROWS),
        ]
    }

    fn check(&self) -> Vec<Problem> {
        let unknown = self.splits.iter().filter(|split| !SPLITS.contains(&split.as_str()));
        unknown
            .map(|split| {
                Problem::new("splits", format!("no split `{split}`; there are `train`, `restval`, `val` and `test`"))
            })
            .collect()
    }
}

impl Run for Embed {
    /// Features first, then captions; rows keep the order of their table. A caption whose image has no feature is left out,
    /// with a warning that counts them.
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let (device, threads) = (cx.device(), cx.threads());
        let trained = Trained::open(|name| cx.file("model", name), device, threads)?;
        let wants = |split: &str| self.splits.is_empty() || self.splits.iter().any(|wanted| wanted == split);
        let mut images = ImageEncoder::new(&trained, &wants);
        while let Some(batch) = cx.next("features")? {
            write(images.push(&batch)?, "image_embeddings", &trained, cx)?;
        }
        write(images.finish()?, "image_embeddings", &trained, cx)?;
        if images.ids.is_empty() {
            let asked =
                if self.splits.is_empty() { "any".to_owned() } else { format!("`{}`", self.splits.join("`, `")) };
            return Err(Error::data(format!("nothing to embed: no feature of split {asked} in `{}`", self.features)));
        }
        for split in self.splits.iter().filter(|split| !images.splits.contains(*split)) {
            cx.warn(split, format!("no image of split `{split}` has a feature"));
        }
        let mut captions = CaptionEncoder::new(&trained, &wants, &images.ids);
        while let Some(batch) = cx.next("captions")? {
            write(captions.push(&batch)?, "caption_embeddings", &trained, cx)?;
        }
        write(captions.finish()?, "caption_embeddings", &trained, cx)?;
        if !captions.left_out.is_empty() {
            let message = format!("{} captions left out: their images have no feature", captions.left_out.len());
            cx.warn("captions", message);
        }
        Ok(())
    }
}

/// Writes rows with their vectors.
fn write(
    blocks: impl IntoIterator<Item = EncodedRows>,
    output: &str,
    trained: &Trained,
    cx: &mut Cx<'_>,
) -> Result<()> {
    blocks.into_iter().try_for_each(|rows| cx.write(output, embeddings(rows, output, trained)?))
}

/// Rows of an embedding table.
fn embeddings(rows: EncodedRows, output: &str, trained: &Trained) -> Result<RecordBatch> {
    let EncodedRows { caption_ids, image_ids, splits, encoded } = rows;
    let vectors = trained.vectors(&encoded)?;
    let width = vectors.len() / image_ids.len();
    if let Some(row) = vectors.chunks_exact(width).position(|vector| !vector.iter().all(|value| value.is_finite())) {
        return Err(Error::stage(format!("the embedding of image {} in `{output}` is not finite", image_ids[row])));
    }
    let tokenizer = repeated(trained.tokenizer().name(), image_ids.len());
    let (image_id, split, embedding) = (image_ids.into(), splits.into(), Vectors::new(vectors, width)?);
    if caption_ids.is_empty() {
        return image_embeddings::Columns { image_id, split, embedding }.into_batch();
    }
    let caption_id = caption_ids.into();
    caption_embeddings::Columns { caption_id, image_id, split, tokenizer, embedding }.into_batch()
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;

    use super::*;
    use crate::error::Kind;
    use crate::kernels::sample::Sample;
    use crate::model::trained::{DESCRIPTION, PARAMETERS};
    use crate::stages::testing::MemoryWorld;
    use crate::stages::train::Train;

    const WORDS: [&str; 8] = ["a", "dog", "runs", "on", "the", "grass", "fast", "red"];

    fn features(ids: std::ops::Range<i64>, width: usize) -> RecordBatch {
        let count = usize::try_from(ids.end - ids.start).expect("a small number");
        let mut sample = Sample::new(9, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        let values = (0..count * width).map(|_| sample.unit() as f32).collect();
        let split = |id| if id % 2 == 0 { "train" } else { "test" };
        let features = tables::features::Columns {
            image_id: Int64Array::from_iter_values(ids.clone()),
            split: StringArray::from_iter_values(ids.map(split)),
            feature: Vectors::new(values, width).expect("whole vectors"),
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
        let captions = tables::captions::Columns {
            caption_id: Int64Array::from_iter_values(ids.clone()),
            image_id: Int64Array::from_iter_values(ids.clone().map(|id| id / 2)),
            split: StringArray::from_iter_values(ids.clone().map(split)),
            text: StringArray::from_iter_values(ids.map(text)),
        };
        captions.into_batch().expect("captions")
    }

    /// A world with a model, 60 features and captions of 70 images.
    fn world() -> MemoryWorld {
        world_with("treebank")
    }

    /// The same, of a model that cuts captions with `tokenizer`.
    fn world_with(tokenizer: &str) -> MemoryWorld {
        let mut world = MemoryWorld::default();
        world.tables.insert("features".to_owned(), vec![features(0..60, 6)]);
        world.tables.insert("captions".to_owned(), vec![captions(0..140)]);
        let settings = "features = \"x.features\"\ncaptions = \"x.captions\"\nepochs = 1\nmodel.vse.embedding = 24\nmodel.vse.word = 8\nmin_count = 1";
        let train: Train = toml::from_str(&format!("{settings}\ntokenizer = \"{tokenizer}\"")).expect("settings");
        world.run(&train).expect("a model");
        let files = std::mem::take(&mut world.put);
        world.files = files.into_iter().collect();
        (world.written, world.saved, world.warnings) = Default::default();
        world
    }

    fn stage(splits: &[&str]) -> Embed {
        let table = |name: &str| TableRef::try_from(name.to_owned()).expect("a table");
        Embed {
            model: table("fit.model"),
            features: table("x.features"),
            captions: table("x.captions"),
            splits: splits.iter().map(|split| (*split).to_owned()).collect(),
        }
    }

    fn vectors(batch: &RecordBatch) -> (Vec<Vec<f32>>, usize) {
        let (values, width) = tables::floats(batch, "embedding").expect("embeddings");
        (values.chunks_exact(width).map(<[f32]>::to_vec).collect(), width)
    }

    #[test]
    fn rows_keep_their_order_and_are_what_the_model_says() {
        let mut world = world();
        world.run(&stage(&["test"])).expect("embeddings");
        let images = world.output("image_embeddings");
        let captions = world.output("caption_embeddings");
        assert!(
            images["image_id"].as_primitive::<Int64Type>().values().iter().copied().eq((0..60).filter(|i| i % 2 == 1))
        );
        let wanted: Vec<i64> = (0..120).filter(|id| id / 2 % 2 == 1).collect();
        assert_eq!(captions["caption_id"].as_primitive::<Int64Type>().values(), &wanted);
        assert!(world.warnings.iter().any(|w| w.message == "10 captions left out: their images have no feature"));

        let model = |name: &str| &world.files[&("model".to_owned(), name.to_owned())];
        let trained = Trained::read(model(DESCRIPTION), model(PARAMETERS), tch::Device::Cpu).expect("a model");
        let (found, width) = vectors(&captions);
        assert_eq!(width, 24);
        for (id, vector) in wanted.iter().zip(found) {
            let alone = trained.encode_captions(&[&trained.words(&text(*id)).expect("words")]);
            let alone = trained.vectors(&alone.expect("a caption")).expect("an embedding");
            assert!(alone.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-6), "caption {id}");
            let norm = vector.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>();
            assert!((norm - 1.0).abs() < 1e-5, "caption {id}: {norm}");
        }
        let (found, _) = vectors(&images);
        let all = features(0..60, 6);
        let (inputs, _) = tables::floats(&all, "feature").expect("features");
        for (i, vector) in (0..).map(|i| 2 * i + 1).zip(found) {
            let alone = trained.encode_images(&inputs[i * 6..][..6]);
            let alone = trained.vectors(&alone.expect("an image")).expect("an embedding");
            assert!(alone.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-6), "image {i}");
        }
    }

    #[test]
    fn captions_are_cut_as_the_model_was_trained_and_say_how() {
        for (tokenizer, first) in [("treebank", "a"), ("whitespace", "a"), ("ptb", "a"), ("python3_bytes", "b'a")] {
            let mut world = world_with(tokenizer);
            world.run(&stage(&[])).expect("embeddings");
            let captions = world.output("caption_embeddings");
            assert!(
                tables::texts(&captions, "tokenizer").expect("a column").iter().all(|name| name == Some(tokenizer))
            );
            let description = &world.files[&("model".to_owned(), DESCRIPTION.to_owned())];
            let description: serde_json::Value = serde_json::from_slice(description).expect("a description");
            let words: Vec<_> = description["vocabulary"].as_array().expect("words").iter().collect();
            assert!(words.iter().any(|word| *word == first), "{tokenizer}: {words:?}");
        }
    }

    #[test]
    fn a_model_that_does_not_say_how_captions_are_cut_is_refused() {
        let mut world = world();
        let description = world.files.get_mut(&("model".to_owned(), DESCRIPTION.to_owned())).expect("a description");
        let mut value: serde_json::Value = serde_json::from_slice(description).expect("a description");
        value.as_object_mut().expect("an object").remove("tokenizer");
        *description = serde_json::to_vec(&value).expect("a description").into();
        let error = world.run(&stage(&[])).expect_err("no tokeniser").to_string();
        assert!(error.contains("`tokenizer`") && error.contains(DESCRIPTION), "{error}");
    }

    #[test]
    fn the_producers_batches_do_not_change_a_bit() {
        let mut whole = world();
        whole.run(&stage(&[])).expect("embeddings");
        let mut cut = world();
        cut.tables.insert("features".to_owned(), (0..60).map(|i| features(0..60, 6).slice(i, 1)).collect());
        cut.tables.insert("captions".to_owned(), (0..20).map(|i| captions(0..140).slice(7 * i, 7)).collect());
        cut.run(&stage(&[])).expect("embeddings");
        for table in ["image_embeddings", "caption_embeddings"] {
            assert_eq!(whole.output(table), cut.output(table));
        }
        assert_eq!(whole.output("caption_embeddings").num_rows(), 120);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let problems = stage(&["test", "tset"]).check();
        assert!(problems.len() == 1 && problems[0].message.contains("`tset`"), "{problems:?}");

        let fails = |world: &mut MemoryWorld, splits: &[&str], part: &str| {
            let error = world.run(&stage(splits)).expect_err(part);
            assert_eq!(error.kind(), Kind::Data, "{error}");
            assert!(error.to_string().contains(part), "{error}");
        };
        fails(&mut world(), &["val"], "no feature of split `val`");
        let mut other = world();
        other.tables.insert("features".to_owned(), vec![features(0..4, 7)]);
        fails(&mut other, &[], "width 7, the model was trained on 6");
        let mut other = world();
        other.files.insert(("model".to_owned(), PARAMETERS.to_owned()), bytes::Bytes::from_static(b"nonsense"));
        fails(&mut other, &[], "model.safetensors");
        let mut other = world();
        let description = other.files[&("model".to_owned(), DESCRIPTION.to_owned())].clone();
        let text =
            String::from_utf8(description.to_vec()).expect("JSON").replace("\"<unk>\",", "\"<unk>\", \"zebra\",");
        other.files.insert(("model".to_owned(), DESCRIPTION.to_owned()), text.into());
        fails(&mut other, &[], "model.json: `words` is 10, `vocabulary` has 11");

        let mut two = world();
        two.run(&stage(&["test", "val"])).expect("embeddings");
        assert!(two.warnings.iter().any(|warning| warning.subject == "val"), "{:?}", two.warnings);
    }
}
