//! `compute_attention`: `model`, `regions`, `captions` → `attention`.

use std::collections::{BTreeSet, HashMap, HashSet};

use arrow::array::{BooleanArray, Int64Array, RecordBatch, StringArray};
use arrow::compute::filter_record_batch;
use az::SaturatingAs;

use super::model_input::check_image_input;
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_model::rows_encoder::{EncodedRows, ImageEncoder};
use pairloom_model::trained_model::TrainedModel;
use pairloom_spec::family::scan::AttentionDirection;
use pairloom_spec::input_spec::ImageInput;
use pairloom_spec::stages::compute_attention::ComputeAttention;
use pairloom_stage::StageContext;
use pairloom_tables::{self as tables, VectorColumn, attention, repeated};

/// Ids that an error lists.
const SHOWN: usize = 5;

/// Caption with the token ids that the model reads.
struct TokenizedCaption {
    id: i64,
    image_id: i64,
    token_ids: Vec<i32>,
}

/// Weights of a caption, `[words, places]`.
struct CaptionWeights {
    weights: Vec<f32>,
    direction: AttentionDirection,
}

/// Runs the stage.
pub fn run(stage: &ComputeAttention, cx: &mut StageContext<'_>) -> Result<()> {
    let resources = cx.resources().clone();
    let trained = TrainedModel::open(|name| cx.file("model", name), &resources)?;
    check_image_input(&trained, ImageInput::Regions)?;
    let captions = read_captions(stage, &trained, cx)?;
    let mut captions_of: HashMap<i64, Vec<usize>> = HashMap::new();
    for (number, caption) in captions.iter().enumerate() {
        captions_of.entry(caption.image_id).or_default().push(number);
    }
    let wants = |split: &str| split == stage.split;
    let table = stage.regions.to_string();
    let mut images = ImageEncoder::new(&trained, &table, &wants);
    let mut places = PresentPlaces::default();
    let mut found: Vec<Option<CaptionWeights>> = captions.iter().map(|_| None).collect();
    let mut attend = |rows: EncodedRows, places: &PresentPlaces| -> Result<()> {
        for (row, image) in rows.image_ids.iter().enumerate() {
            for &number in captions_of.get(image).into_iter().flatten() {
                let caption = trained.encode_captions(&[&captions[number].token_ids])?;
                let (weights, direction) = trained.word_attention(&rows.encoded.slice(row..row + 1), &caption)?;
                let weights = places.spread(*image, &weights);
                found[number] = Some(CaptionWeights { weights, direction });
            }
        }
        Ok(())
    };
    while let Some(batch) = cx.read_next("regions")? {
        let ids = tables::int_column(&batch, "image_id")?;
        let expected: BooleanArray = ids.values().iter().map(|id| Some(captions_of.contains_key(id))).collect();
        let batch = filter_record_batch(&batch, &expected)?;
        places.read(&batch)?;
        for rows in images.push(&batch)? {
            attend(rows, &places)?;
        }
    }
    if let Some(rows) = images.finish()? {
        attend(rows, &places)?;
    }
    let mut missing = TruncatedList::new(SHOWN);
    missing.extend(
        captions
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(caption, _)| format!("image {} of caption {}", caption.image_id, caption.id)),
    );
    if found.iter().any(Option::is_none) {
        let message = format!("`{}` has no regions of {}", stage.regions, missing.join(", "));
        return Err(Error::data(message).hint(format!("expected rows of the split `{}`", stage.split)));
    }
    for (caption, found) in captions.iter().zip(found.into_iter().flatten()) {
        cx.write("attention", attention_rows(stage, &trained, caption, found, places.count)?)?;
    }
    Ok(())
}

/// Reads the captions that are asked for.
fn read_captions(
    stage: &ComputeAttention,
    trained: &TrainedModel,
    cx: &mut StageContext<'_>,
) -> Result<Vec<TokenizedCaption>> {
    let asked: HashSet<i64> = stage.caption_ids.iter().copied().collect();
    let (mut all, mut splits) = (Vec::new(), BTreeSet::new());
    while let Some(batch) = cx.read_next("captions")? {
        let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let (in_split, texts) = (tables::text_column(&batch, "split")?, tables::text_column(&batch, "text")?);
        for row in 0..batch.num_rows() {
            splits.insert(in_split.value(row).to_owned());
            if in_split.value(row) == stage.split && (asked.is_empty() || asked.contains(&ids.value(row))) {
                all.push((ids.value(row), image_ids.value(row), texts.value(row).to_owned()));
            }
        }
    }
    if all.is_empty() && asked.is_empty() {
        let splits = splits.iter().map(|split| format!("`{split}`")).collect::<Vec<_>>().join(", ");
        let message = format!("no caption of split `{}` in `{}`", stage.split, stage.captions);
        return Err(Error::data(message).hint(format!("it has {splits}")));
    }
    let read: HashSet<i64> = all.iter().map(|caption| caption.0).collect();
    let mut missing = TruncatedList::new(SHOWN);
    missing.extend(stage.caption_ids.iter().filter(|id| !read.contains(id)).map(ToString::to_string));
    if stage.caption_ids.iter().any(|id| !read.contains(id)) {
        let message =
            format!("`caption_ids`: not in split `{}` of `{}`: {}", stage.split, stage.captions, missing.join(", "));
        return Err(Error::data(message));
    }
    let count = if asked.is_empty() { stage.n_captions.min(all.len()) } else { all.len() };
    let chosen = (0..count).map(|number| &all[number * all.len() / count]);
    chosen
        .map(|(id, image_id, text)| {
            let token_ids = trained.token_ids(text).map_err(|error| error.context(format!("caption {id}")))?;
            Ok(TokenizedCaption { id: *id, image_id: *image_id, token_ids })
        })
        .collect()
}

/// Rows of a caption.
fn attention_rows(
    stage: &ComputeAttention,
    trained: &TrainedModel,
    caption: &TokenizedCaption,
    found: CaptionWeights,
    places: usize,
) -> Result<RecordBatch> {
    let n = caption.token_ids.len();
    let direction = match found.direction {
        AttentionDirection::T2i => "t2i",
        AttentionDirection::I2t => "i2t",
    };
    let columns = attention::TableColumns {
        caption_id: vec![caption.id; n].into(),
        image_id: vec![caption.image_id; n].into(),
        split: repeated(&stage.split, n),
        position: Int64Array::from_iter_values(0..n.saturating_as::<i64>()),
        word: StringArray::from_iter_values(caption.token_ids.iter().map(|&id| trained.word(id))),
        direction: repeated(direction, n),
        weights: VectorColumn::new(found.weights, places)?,
    };
    columns.into_batch()
}

/// Places of the images that hold a region.
#[derive(Default)]
struct PresentPlaces {
    /// Number of places of an image.
    count: usize,
    of: HashMap<i64, Vec<usize>>,
}

impl PresentPlaces {
    /// Reads the rows of `regions`. A place that holds only zeros is no region.
    fn read(&mut self, batch: &RecordBatch) -> Result<()> {
        let ids = tables::int_column(batch, "image_id")?;
        let (values, count, width) = tables::regions::values(batch)?;
        self.count = count;
        for (id, image) in ids.values().iter().zip(values.chunks_exact((count * width).max(1))) {
            let places = image.chunks_exact(width).enumerate();
            let present = places.filter(|(_, region)| region.iter().any(|&value| value != 0.0));
            self.of.insert(*id, present.map(|(place, _)| place).collect());
        }
        Ok(())
    }

    /// Spreads weights `[words, regions]` over all places of the image.
    fn spread(&self, image: i64, weights: &[f32]) -> Vec<f32> {
        let present = self.of.get(&image).map_or(&[][..], Vec::as_slice);
        let words = weights.len() / present.len().max(1);
        let mut all = vec![0.0; words * self.count];
        for (row, weights) in all.chunks_exact_mut(self.count.max(1)).zip(weights.chunks_exact(present.len().max(1))) {
            present.iter().zip(weights).for_each(|(&place, &weight)| row[place] = weight);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RunOnHost as _;
    use pairloom_spec::stages::train::Train;
    use pairloom_stage::Stage as _;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables::regions::RegionColumn;

    /// Images 0 to 3 in the split `train`, 4 to 7 in `test`, with two regions of width 3 in three places.
    fn regions() -> RecordBatch {
        let values = (0..8u8).flat_map(|image| {
            let value = f32::from(image) / 4.0 - 0.9;
            let (first, second) = ([value, 1.0, 0.5], [0.3, -value, 1.0]);
            // The empty place is the first of even images, the second of odd ones.
            if image % 2 == 0 { [[0.0; 3], first, second].concat() } else { [first, [0.0; 3], second].concat() }
        });
        let columns = tables::regions::TableColumns {
            image_id: (0..8i64).collect::<Vec<_>>().into(),
            split: (0..8).map(|image| Some(if image < 4 { "train" } else { "test" })).collect(),
            regions: RegionColumn::new(values.collect(), 3, 3).expect("whole images"),
        };
        columns.into_batch().expect("regions")
    }

    /// Two captions of each image, 10 · image and 10 · image + 1.
    fn captions() -> RecordBatch {
        let ids = (0..8i64).flat_map(|image| [10 * image, 10 * image + 1]);
        let columns = tables::captions::TableColumns {
            caption_id: ids.collect::<Vec<_>>().into(),
            image_id: (0..16i64).map(|row| row / 2).collect::<Vec<_>>().into(),
            split: (0..16).map(|row| Some(if row < 8 { "train" } else { "test" })).collect(),
            text: (0..16).map(|row| Some(["a dog runs", "red grass", "a strange cat"][row % 3])).collect(),
        };
        columns.into_batch().expect("captions")
    }

    fn host(model: &str) -> InMemoryHost {
        let text = format!(
            "regions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmin_count = 1\nbatch_size = 4\nmodel.{model}"
        );
        let train: Train = toml::from_str(&text).expect("settings");
        let mut trained = InMemoryHost::default();
        trained.input_tables.insert("regions".to_owned(), vec![regions()]);
        trained.input_tables.insert("captions".to_owned(), vec![captions()]);
        trained.run_stage(&train).expect("a model");
        let mut host = InMemoryHost::default();
        let files = trained.output_files.into_iter();
        host.input_files = files.map(|((_, name), content)| (("model".to_owned(), name), content)).collect();
        host.input_tables.insert("regions".to_owned(), vec![regions().slice(0, 5), regions().slice(5, 3)]);
        host.input_tables.insert("captions".to_owned(), vec![captions()]);
        host
    }

    fn stage(more: &str) -> ComputeAttention {
        let inputs = "model = \"fit.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"";
        toml::from_str(&format!("{inputs}\n{more}")).expect("settings")
    }

    fn run(host: &mut InMemoryHost, more: &str) -> RecordBatch {
        host.output_tables.clear();
        host.run_stage(&stage(more)).expect("attention");
        host.output("attention")
    }

    #[test]
    fn every_word_has_a_weight_for_each_region_in_its_place() {
        for (model, direction) in [
            ("scan = { embed_size = 6, word_dim = 4 }", "t2i"),
            ("scan = { embed_size = 6, word_dim = 4, cross_attention = \"i2t\" }", "i2t"),
            ("sgraf = { module = \"saf\", embed_size = 6, word_dim = 4, similarity_dim = 3 }", "t2i"),
        ] {
            let mut host = host(model);
            let batch = run(&mut host, "caption_ids = [70, 41]");
            let words = tables::text_column(&batch, "word").expect("words");
            let words: Vec<&str> = (0..batch.num_rows()).map(|row| words.value(row)).collect();
            // Row 9 of the captions and row 14; the words are known from the other split.
            assert_eq!(words, ["<start>", "a", "dog", "runs", "<end>", "<start>", "a", "strange", "cat", "<end>"]);
            let ids = |name: &str| tables::int_column(&batch, name).expect("ids").values().to_vec();
            assert_eq!((ids("image_id")[4], ids("caption_id")[4], ids("position")[4]), (4, 41, 4));
            assert_eq!((ids("image_id")[5], ids("caption_id")[5], ids("position")[5]), (7, 70, 0));
            assert_eq!(tables::text_column(&batch, "direction").expect("directions").value(0), direction);
            let (weights, places) = tables::vector_column(&batch, "weights").expect("weights");
            assert_eq!(places, 3);
            let rows: Vec<&[f32]> = weights.chunks_exact(3).collect();
            assert!(rows[..5].iter().all(|row| row[0] == 0.0 && row[1] > 0.0 && row[2] > 0.0), "{rows:?}");
            assert!(rows[5..].iter().all(|row| row[1] == 0.0 && row[0] > 0.0 && row[2] > 0.0), "{rows:?}");
            if direction == "t2i" {
                assert!(rows.iter().all(|row| (row.iter().sum::<f32>() - 1.0).abs() < 1e-6), "{rows:?}");
            } else {
                let sum = |place: usize| rows[..5].iter().map(|row| row[place]).sum::<f32>();
                assert!((sum(1) - 1.0).abs() < 1e-6 && (sum(2) - 1.0).abs() < 1e-6, "{rows:?}");
            }
        }
    }

    #[test]
    fn captions_are_taken_at_equal_distances() {
        let mut host = host("scan = { embed_size = 6, word_dim = 4 }");
        let mut captions_of = |more: &str| {
            let batch = run(&mut host, more);
            let mut ids = tables::int_column(&batch, "caption_id").expect("ids").values().to_vec();
            ids.dedup();
            ids
        };
        assert_eq!(captions_of("n_captions = 2"), [40, 60]);
        assert_eq!(captions_of("n_captions = 3"), [40, 50, 61]);
        assert_eq!(captions_of(""), [40, 41, 50, 51, 60, 61, 70, 71]);
        assert_eq!(captions_of("split = \"train\"\nn_captions = 1"), [0]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let mut host = host("scan = { embed_size = 6, word_dim = 4 }");
        let mut error = |more: &str| host.run_stage(&stage(more)).expect_err("missing").to_string();
        assert_eq!(error("split = \"dev\""), "no caption of split `dev` in `x.captions`");
        assert_eq!(error("caption_ids = [40, 3, 10]"), "`caption_ids`: not in split `test` of `x.captions`: 3, 10");
        host.input_tables.insert("regions".to_owned(), vec![regions().slice(0, 7)]);
        let error = host.run_stage(&stage("")).expect_err("missing");
        assert_eq!(error.to_string(), "`x.regions` has no regions of image 7 of caption 70, image 7 of caption 71");

        let mut other = self::host("vse_infinity = { embed_size = 6, word_dim = 4 }");
        let error = other.run_stage(&stage("")).expect_err("no attention");
        assert_eq!(error.to_string(), "this model has no attention between words and regions");

        let messages = |more: &str| -> Vec<String> {
            stage(more).check().into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
        };
        assert_eq!(messages("n_captions = 0"), ["n_captions: got 0 captions, expected 1 to 10000"]);
        assert_eq!(messages("caption_ids = [1, 2, 1]"), ["caption_ids: caption 1 appears twice"]);
    }
}
