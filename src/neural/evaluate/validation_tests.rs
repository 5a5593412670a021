//! Tests of `best_of` on stored scores of a validation split with a query bank.

use arrow::array::RecordBatch;
use az::SaturatingAs;

use super::tests;
use crate::testing::RunOnHost as _;
use pairloom_kernels::random::Rng;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables::{self as tables, VectorColumn, repeated, scored_captions, scores};

/// First image and number of images of each split; an image has two captions.
fn images_of(split: &str) -> std::ops::Range<i64> {
    match split {
        "test" => 0..12,
        "val" => 20..31,
        _ => 40..55,
    }
}

/// Scores of the images of a split with the captions of another, and these captions. Some captions are hubs.
#[expect(clippy::cast_possible_truncation, reason = "scores are f32")]
fn tables_of(images: &str, captions: &str) -> [RecordBatch; 2] {
    let image_ids: Vec<i64> = images_of(images).collect();
    let caption_images: Vec<i64> = images_of(captions).flat_map(|image| [image, image]).collect();
    let score = |image: i64, place: usize| {
        let caption = 2 * caption_images[place] + i64::from(place % 2 == 1);
        let mut rng = Rng::new(image.saturating_as(), &[caption.saturating_as()]);
        let is_own = if caption_images[place] == image { 0.35 } else { 0.0 };
        let is_hub = if caption % 5 == 0 { 0.3 } else { 0.0 };
        (0.5 * rng.uniform() + is_own + is_hub) as f32
    };
    let values = image_ids.iter().flat_map(|&image| (0..caption_images.len()).map(move |place| (image, place)));
    let values: Vec<f32> = values.map(|(image, place)| score(image, place)).collect();
    let rows = scores::TableColumns {
        split: repeated(images, image_ids.len()),
        image_id: image_ids.into(),
        scores: VectorColumn::new(values, caption_images.len()).expect("whole rows"),
    };
    let columns = scored_captions::TableColumns {
        caption_id: caption_images
            .iter()
            .enumerate()
            .map(|(place, image)| 2 * image + i64::from(place % 2 == 1))
            .collect::<Vec<_>>()
            .into(),
        split: repeated(captions, caption_images.len()),
        image_id: caption_images.into(),
    };
    [rows.into_batch().expect("scores"), columns.into_batch().expect("captions")]
}

/// Host with the scores of `split`, those of the bank with it, and those of the validation split.
fn host(split: &str) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let inputs = [
        ("", [split, split]),
        ("query_bank.image_scores.", ["train", split]),
        ("query_bank.caption_scores.", [split, "train"]),
        ("validation.", ["val", "val"]),
        ("validation.image_scores.", ["train", "val"]),
        ("validation.caption_scores.", ["val", "train"]),
    ];
    for (prefix, [images, captions]) in inputs {
        let [scores, captions] = tables_of(images, captions);
        host.input_tables.insert(format!("{prefix}scores"), vec![scores]);
        host.input_tables.insert(format!("{prefix}captions"), vec![captions]);
    }
    host
}

const SCORES: &str = "scores = \"a.scores\", captions = \"a.scored_captions\"";

fn stage(split: &str, more: &str) -> Evaluate {
    let bank = format!("image_scores = {{ {SCORES} }}, caption_scores = {{ {SCORES} }}");
    let text = format!(
        "dataset = \"made\"\nscores = \"a.scores\"\ncaptions = \"a.scored_captions\"\nsplit = \"{split}\"\n\
         query_bank = {{ {bank}, split = \"train\" }}\n{more}"
    );
    toml::from_str(&text).expect("settings")
}

/// The chosen method has the largest rsum of the validation split, each evaluated there alone.
#[test]
fn the_best_method_with_a_query_bank_of_scores_is_chosen() {
    let methods = [
        "{ nns = {} }",
        "{ csls = { query_bank = true, k = 3 } }",
        "{ nnn = { k = 3, alpha = 0.5 } }",
        "{ qb_norm = { k = 1 } }",
    ];
    let rsums = methods.map(|method| {
        let mut alone = host("val");
        alone.run_stage(&stage("val", &format!("methods = [{method}]"))).expect("a method");
        tests::value(&alone.output("metrics"), "made-11", "both", "rsum", None)
    });
    let best = (0..4).rev().max_by(|&a, &b| rsums[a].total_cmp(&rsums[b])).expect("four");
    assert!(best > 0 && rsums[best] > rsums[0], "a method with a bank is the best: {rsums:?}");
    let validation = format!(
        "validation_split = \"val\"\nvalidation = {{ {SCORES}, image_scores = {{ {SCORES} }}, caption_scores = {{ {SCORES} }} }}"
    );
    let chosen =
        stage("test", &format!("{validation}\nmethods = [{{ best_of = {{ methods = [{}] }} }}]", methods.join(", ")));
    assert_eq!(chosen.check(), []);
    let mut found = host("test");
    found.run_stage(&chosen).expect("a choice");
    let mut expected = host("test");
    expected.run_stage(&stage("test", &format!("methods = [{}]", methods[best]))).expect("the best");
    let same = |host: &InMemoryHost| {
        let rankings = host.output("rankings");
        ["method", "query_id", "rank", "top_ids"].map(|column| rankings[column].clone())
    };
    assert_eq!(same(&found), same(&expected));
    let label = tables::text_column(&found.output("summary"), "parameters").expect("a column").value(0).to_owned();
    assert!(label.contains("chosen on val"), "{label}");
}

#[test]
fn scores_of_the_validation_split_with_half_of_a_bank_are_refused() {
    let refused = |validation: &str, method: &str| -> Vec<String> {
        let more = format!(
            "validation_split = \"val\"\nvalidation = {{ {SCORES}{validation} }}\nmethods = [{{ best_of = {{ methods = [{method}] }} }}]"
        );
        stage("test", &more).check().into_iter().map(|problem| problem.setting).collect()
    };
    let half = format!(", image_scores = {{ {SCORES} }}");
    assert_eq!(refused(&half, "{ nns = {} }"), ["validation.caption_scores"]);
    assert_eq!(refused("", "{ nns = {} }"), [""; 0]);
    assert_eq!(refused("", "{ qb_norm = {} }"), ["methods.0.best_of.methods.0.qb_norm"]);
}
