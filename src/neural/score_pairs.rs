//! `score_pairs`: `model`, `features` or `regions`, `captions` → `scores`, `scored_captions`.

use arrow::array::{Int64Array, RecordBatch};
use az::SaturatingAs;

use super::model_input::{TokenizedCaptions, check_image_input, no_rows_of_split};
use pairloom_base::error::{Error, Result};
use pairloom_model::pair_scores::CaptionBlocks;
use pairloom_model::rows_encoder::{EncodedRows, ImageEncoder};
use pairloom_model::trained_model::TrainedModel;
use pairloom_spec::stages::image_vectors;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_stage::StageContext;
use pairloom_tables::{VectorColumn, repeated, scored_captions, scores};

/// Number of scores after which the state is saved.
const SCORES_PER_STATE: usize = 1 << 22;

/// Runs the stage.
pub fn run(stage: &ScorePairs, cx: &mut StageContext<'_>) -> Result<()> {
    score_all(stage, cx, SCORES_PER_STATE)
}

/// Split of the captions.
fn caption_split(stage: &ScorePairs) -> &str {
    stage.caption_split.as_deref().unwrap_or(&stage.split)
}

/// Scores all pairs and saves the state after each `scores_per_state` scores.
fn score_all(stage: &ScorePairs, cx: &mut StageContext<'_>, scores_per_state: usize) -> Result<()> {
    let resources = cx.resources().clone();
    let trained = TrainedModel::open(|name| cx.file("model", name), &resources)?;
    let Some((from, input)) = image_vectors(stage.features.as_ref(), stage.regions.as_ref()) else {
        return Err(Error::internal("no images to score"));
    };
    check_image_input(&trained, input)?;
    let captions = TokenizedCaptions::read(&trained, (caption_split(stage), &stage.captions.to_string()), cx)?;
    let token_ids: Vec<&[i32]> = captions.token_ids.iter().map(Vec::as_slice).collect();
    let encoded = trained.encode_caption_blocks(&token_ids)?;
    let done = match cx.saved_state()? {
        Some(state) => parse_state(&state)?,
        None => {
            cx.write("scored_captions", captions_batch(stage, &captions)?)?;
            0
        }
    };
    let wants = |split: &str| split == stage.split;
    let table = from.to_string();
    let mut images = ImageEncoder::new(&trained, &table, &wants).skip(done);
    let mut progress = ScoringProgress { done, since_state: 0, scores_per_state };
    while let Some(batch) = cx.read_next(input.name())? {
        for rows in images.push(&batch)? {
            score_images(stage, rows, &trained, &captions, &encoded, &mut progress, cx)?;
        }
    }
    if let Some(rows) = images.finish()? {
        score_images(stage, rows, &trained, &captions, &encoded, &mut progress, cx)?;
    }
    if images.ids.is_empty() {
        return Err(no_rows_of_split("image", &stage.split, &from.to_string(), &images.splits));
    }
    Ok(())
}

/// Position of a scoring.
struct ScoringProgress {
    /// Number of images that are scored.
    done: usize,
    /// Number of scores since the last state.
    since_state: usize,
    scores_per_state: usize,
}

fn captions_batch(stage: &ScorePairs, captions: &TokenizedCaptions) -> Result<RecordBatch> {
    let split = repeated(caption_split(stage), captions.ids.len());
    let (caption_id, image_id) = (captions.ids.clone().into(), captions.image_ids.clone().into());
    scored_captions::TableColumns { caption_id, image_id, split }.into_batch()
}

/// Scores a block of images and writes its rows. Saves the state where it is due.
fn score_images(
    stage: &ScorePairs,
    rows: EncodedRows,
    trained: &TrainedModel,
    captions: &TokenizedCaptions,
    encoded: &CaptionBlocks,
    progress: &mut ScoringProgress,
    cx: &mut StageContext<'_>,
) -> Result<()> {
    let (ids, count) = ([rows.image_ids.as_slice(), &captions.ids], rows.image_ids.len());
    let values = trained.scores(&rows.encoded, encoded, ids, cx.threads())?;
    progress.done += count;
    progress.since_state += values.len();
    let columns = scores::TableColumns {
        image_id: Int64Array::from(rows.image_ids),
        split: repeated(&stage.split, count),
        scores: VectorColumn::new(values, captions.ids.len())?,
    };
    cx.write("scores", columns.into_batch()?)?;
    if progress.since_state >= progress.scores_per_state {
        progress.since_state = 0;
        cx.save_state(progress.done.to_string().into(), 2)?;
    }
    cx.progress(progress.done.saturating_as::<u64>(), None, "images");
    Ok(())
}

/// Number of images that an earlier run scored.
fn parse_state(state: &[u8]) -> Result<usize> {
    let text = std::str::from_utf8(state).ok();
    text.and_then(|text| text.parse().ok()).ok_or_else(|| Error::data("the saved state of the scores is damaged"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::RunOnHost as _;
    use pairloom_base::error::ErrorCategory;
    use pairloom_kernels::random::Rng;
    use pairloom_spec::stages::train::Train;
    use pairloom_stage_testing::InMemoryHost;
    use pairloom_tables as tables;
    use pairloom_tables::regions::RegionColumn;

    /// Random regions of images 0 to `count`; odd images are in the split `val`.
    fn regions(count: usize) -> RecordBatch {
        let mut rng = Rng::new(2, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "regions are f32")]
        let values = (0..count * 2 * 3).map(|_| rng.uniform() as f32 - 0.5).collect();
        let columns = tables::regions::TableColumns {
            image_id: (0..count.saturating_as::<i64>()).collect::<Vec<_>>().into(),
            split: (0..count).map(|image| Some(["test", "val"][image % 2])).collect(),
            regions: RegionColumn::new(values, 2, 3).expect("whole images"),
        };
        columns.into_batch().expect("regions")
    }

    fn captions(splits: [&str; 2]) -> RecordBatch {
        let texts = ["a dog runs", "red", "a red dog runs fast on grass", "grass"];
        let columns = tables::captions::TableColumns {
            caption_id: (0..40i64).collect::<Vec<_>>().into(),
            image_id: (0..40i64).collect::<Vec<_>>().into(),
            split: (0..40).map(|caption| Some(splits[caption % 2])).collect(),
            text: (0..40).map(|caption| Some(texts[caption / 2 % 4])).collect(),
        };
        columns.into_batch().expect("captions")
    }

    /// Host with a trained SCAN model and 700 images.
    fn host() -> InMemoryHost {
        let text = "regions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmin_count = 1\n\
                    model.scan = { embed_size = 8, word_dim = 4 }";
        let train: Train = toml::from_str(text).expect("settings");
        let mut trained = InMemoryHost::default();
        trained.input_tables.insert("regions".to_owned(), vec![regions(40)]);
        trained.input_tables.insert("captions".to_owned(), vec![captions(["train", "val"])]);
        trained.run_stage(&train).expect("a model");
        let mut host = InMemoryHost::default();
        let files = trained.output_files.into_iter();
        host.input_files = files.map(|((_, name), content)| (("model".to_owned(), name), content)).collect();
        host.input_tables.insert("regions".to_owned(), vec![regions(700).slice(0, 300), regions(700).slice(300, 400)]);
        host.input_tables.insert("captions".to_owned(), vec![captions(["test", "val"])]);
        host
    }

    fn stage(more: &str) -> ScorePairs {
        let inputs = "model = \"fit.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"";
        toml::from_str(&format!("{inputs}\n{more}")).expect("settings")
    }

    #[test]
    fn a_killed_scoring_goes_on_to_the_same_bits() {
        let (made, stage) = (host(), stage(""));
        let fresh = || {
            let mut host = InMemoryHost::default();
            (host.input_files, host.input_tables) = (made.input_files.clone(), made.input_tables.clone());
            host
        };
        let mut whole = fresh();
        score_all(&stage, &mut whole, 1).expect("scores");
        let all = whole.output("scores");
        let images = tables::int_column(&all, "image_id").expect("ids").clone();
        assert_eq!(images, Int64Array::from_iter_values((0..700).step_by(2)));
        assert_eq!(tables::vector_column(&all, "scores").expect("scores").1, 20);
        let ids = tables::int_column(&whole.output("scored_captions"), "caption_id").expect("ids").clone();
        assert_eq!(ids, Int64Array::from_iter_values((0..40).step_by(2)));
        // 350 images in blocks of 128.
        assert_eq!(whole.n_saves, 3);
        for cut in 1..3 {
            let mut first = fresh();
            first.cancel_after_save = Some(cut);
            let error = score_all(&stage, &mut first, 1).expect_err("cancelled");
            assert_eq!(error.category(), ErrorCategory::Interrupted);
            let mut second = fresh();
            second.saved_state = first.saved_state.clone();
            score_all(&stage, &mut second, 1).expect("the rest");
            let mut rows = first.output_tables["scores"].clone();
            rows.extend(second.output_tables.get("scores").into_iter().flatten().cloned());
            let rows = arrow::compute::concat_batches(&rows[0].schema(), &rows).expect("one schema");
            assert_eq!(rows, all, "cut {cut}");
            assert!(!second.output_tables.contains_key("scored_captions"));
        }
    }

    /// The scores of the images of one split with the captions of another are those of a larger scoring.
    #[test]
    fn images_and_captions_may_be_of_different_splits() {
        let run = |more: &str| {
            let mut host = host();
            host.run_stage(&stage(more)).expect("scores");
            let (scores, captions) = (host.output("scores"), host.output("scored_captions"));
            let splits = [&scores, &captions]
                .map(|table| tables::text_column(table, "split").expect("a split").value(0).to_owned());
            let ids = tables::int_column(&captions, "caption_id").expect("ids").values().to_vec();
            (splits, ids, tables::vector_column(&scores, "scores").expect("scores").0.to_vec())
        };
        let (splits, ids, scores) = run("split = \"val\"\ncaption_split = \"test\"");
        assert_eq!(splits, ["val", "test"]);
        assert_eq!(ids, (0..40).step_by(2).collect::<Vec<i64>>());
        // Caption 2·n has the text of caption 2·n + 1 of the other split.
        let (splits, ids, same) = run("split = \"val\"");
        assert_eq!((splits, ids[0]), (["val", "val"].map(str::to_owned), 1));
        assert_eq!(scores, same);
        let mut none = host();
        let error = none.run_stage(&stage("caption_split = \"dev\"")).expect_err("no captions").to_string();
        assert_eq!(error, "no caption of split `dev` in `x.captions`");
    }

    #[test]
    fn a_split_without_rows_is_an_error() {
        let run = |more: &str| {
            let mut host = host();
            host.run_stage(&stage(more)).expect_err("no rows").to_string()
        };
        assert_eq!(run("split = \"dev\""), "no caption of split `dev` in `x.captions`");
        let mut without = host();
        without.input_tables.insert("regions".to_owned(), vec![regions(700).slice(1, 1)]);
        let error = without.run_stage(&stage("")).expect_err("no image").to_string();
        assert_eq!(error, "no image of split `test` in `x.regions`");
        let mut twice = host();
        twice.input_tables.get_mut("captions").expect("captions").push(captions(["test", "val"]).slice(4, 1));
        assert_eq!(twice.run_stage(&stage("")).expect_err("twice").to_string(), "caption 4 appears twice");
    }
}
