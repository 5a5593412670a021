//! Tests of `evaluate` in memory: hand-computed cases, and comparison with the definition.

use std::sync::Arc;

use arrow::array::{Array, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use proptest::prelude::*;

use crate::testing::RunOnHost as _;
use pairloom_base::error::{Error, ErrorCategory};
use pairloom_kernels::distance::dot;
use pairloom_kernels::measure::recall::{RecallSummary, best_rank};
use pairloom_kernels::random::Rng;
use pairloom_retrieval::methods::Nns;
use pairloom_retrieval::{Method, Protocol};
use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

pub(super) fn stage(protocols: &[Protocol]) -> Evaluate {
    let table = |name: &str| TableRef::try_from(format!("vectors.{name}")).expect("a table's name");
    Evaluate {
        similarity: EmbeddingSimilarity::default(),
        images: Some(table("image_embeddings")),
        captions: Some(table("caption_embeddings")),
        scores: None,
        model: None,
        features: None,
        regions: None,
        dataset: "made".to_owned(),
        split: "test".to_owned(),
        protocols: protocols.to_vec(),
        cutoffs: vec![1, 5, 10],
        methods: vec![Method::Nns(Nns {})],
        query_bank: None,
        validation_split: None,
        validation: None,
        relevance: vec![],
        ranking_depth: 10,
    }
}

/// (`image_id`, `split`, `vector`) of images; (`caption_id`, `image_id`, `split`, `vector`) of captions.
pub(super) type TestImages = Vec<(i64, &'static str, Vec<f32>)>;
pub(super) type TestCaptions = Vec<(i64, i64, &'static str, Vec<f32>)>;

pub(super) fn host(images: &TestImages, captions: &TestCaptions) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let width = |vector: Option<&Vec<f32>>| vector.map_or(2, Vec::len);
    let image_width = width(images.first().map(|row| &row.2));
    let caption_width = width(captions.first().map(|row| &row.3));
    let image_batch = tables::batch(
        &tables::image_embeddings::table().schema_with_width(image_width),
        vec![
            Arc::new(Int64Array::from_iter_values(images.iter().map(|row| row.0))),
            Arc::new(StringArray::from_iter_values(images.iter().map(|row| row.1))),
            tables::vector_array(images.iter().flat_map(|row| row.2.clone()).collect(), image_width)
                .expect("whole vectors"),
        ],
    )
    .expect("columns fit");
    let caption_batch = tables::batch(
        &tables::caption_embeddings::table().schema_with_width(caption_width),
        vec![
            Arc::new(Int64Array::from_iter_values(captions.iter().map(|row| row.0))),
            Arc::new(Int64Array::from_iter_values(captions.iter().map(|row| row.1))),
            Arc::new(StringArray::from_iter_values(captions.iter().map(|row| row.2))),
            Arc::new(StringArray::from_iter_values(captions.iter().map(|_| "treebank"))),
            tables::vector_array(captions.iter().flat_map(|row| row.3.clone()).collect(), caption_width)
                .expect("whole vectors"),
        ],
    )
    .expect("columns fit");
    host.input_tables.insert("images".to_owned(), halves(&image_batch));
    host.input_tables.insert("captions".to_owned(), halves(&caption_batch));
    host
}

/// Splits a batch in two, like the parts of a table.
pub(super) fn halves(batch: &RecordBatch) -> Vec<RecordBatch> {
    let middle = batch.num_rows() / 2;
    vec![batch.slice(0, middle), batch.slice(middle, batch.num_rows() - middle)]
}

#[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
pub(super) fn unit(degrees: f64) -> Vec<f32> {
    vec![degrees.to_radians().cos() as f32, degrees.to_radians().sin() as f32]
}

pub(super) fn value(metrics: &RecordBatch, protocol: &str, direction: &str, measure: &str, k: Option<i64>) -> f64 {
    let column = |name| metrics[name].as_string::<i32>();
    let ks = metrics["k"].as_primitive::<Int64Type>().iter();
    let row = ks.enumerate().position(|(row, found)| {
        column("protocol").value(row) == protocol
            && column("direction").value(row) == direction
            && column("measure").value(row) == measure
            && found == k
    });
    metrics["value"].as_primitive::<Float64Type>().value(row.expect("a row of these names"))
}

fn int64s(batch: &RecordBatch, name: &str) -> Vec<i64> {
    batch[name].as_primitive::<Int64Type>().values().to_vec()
}

/// Three images on a circle, with captions near them except for one. Captions are in another order than the images, and
/// there are rows of other splits.
#[test]
fn ranks_recalls_and_hubs_of_three_images_on_a_circle() {
    let images =
        vec![(10, "test", unit(0.0)), (99, "val", unit(40.0)), (11, "test", unit(90.0)), (12, "test", unit(180.0))];
    let captions = vec![
        (1, 11, "test", unit(80.0)),
        (2, 10, "test", unit(5.0)),
        (3, 10, "test", unit(85.0)),
        (4, 12, "test", unit(-170.0)),
        (5, 99, "val", unit(0.0)),
    ];
    let mut host = host(&images, &captions);
    host.run_stage(&stage(&[Protocol::All])).expect("the input is fine");

    let rankings = host.output("rankings");
    assert_eq!(rankings["direction"].as_string::<i32>().iter().flatten().filter(|d| *d == "i2t").count(), 3);
    assert_eq!(int64s(&rankings, "query_id"), [10, 11, 12, 2, 3, 1, 4]);
    // i2t: 10 finds its caption 2; 11 finds caption 3 (of 10) first, then 1; 12 finds 4. t2i: 3 finds 11 first.
    assert_eq!(int64s(&rankings, "rank"), [1, 2, 1, 1, 2, 1, 1]);
    let top = rankings["top_ids"].as_list::<i32>().value(1);
    assert_eq!(top.as_primitive::<Int64Type>().values(), &[3, 1, 2, 4]);
    let scores = rankings["top_scores"].as_list::<i32>().value(1);
    assert!((f64::from(scores.as_primitive::<Float32Type>().value(1)) - 10f64.to_radians().cos()).abs() < 1e-6);

    let metrics = host.output("metrics");
    // 23 of retrieval, hs-sum, and of hubs seven measures at three cut-offs and five counts each way. Where image 10 has a
    // row for each of its two captions, twice five counts, skewness at three cut-offs each way, and hs-sum.
    assert_eq!(metrics.num_rows(), 23 + 1 + 2 * (21 + 5) + 10 + 6 + 1);
    let occurrence_rate = |variant: Option<&str>, m: i64| {
        let variants = metrics["variant"].as_string::<i32>();
        let row = (0..metrics.num_rows()).find(|&row| {
            let is = |name: &str, expected: &str| metrics[name].as_string::<i32>().value(row) == expected;
            is("measure", "k_occurrence_rate")
                && is("direction", "t2i")
                && variants.is_valid(row).then(|| variants.value(row)) == variant
                && metrics["m"].as_primitive::<Int64Type>().value(row) == m
        });
        metrics["value"].as_primitive::<Float64Type>().value(row.expect("a count"))
    };
    // Captions 2, 3, 1, 4 have images 10, 11, 11, 12 first: one image for two of them, two for one; image 10 is two of
    // four rows.
    assert_eq!([0, 1, 2, 5].map(|m| occurrence_rate(None, m)), [0.0, 200.0 / 3.0, 100.0 / 3.0, 0.0]);
    assert_eq!([0, 1, 2, 5].map(|m| occurrence_rate(Some("duplicated"), m)), [25.0, 50.0, 25.0, 0.0]);
    assert!((value(&metrics, "made-3", "i2t", "recall", Some(1)) - 200.0 / 3.0).abs() < 1e-9);
    assert!((value(&metrics, "made-3", "t2i", "recall", Some(1)) - 75.0).abs() < 1e-9);
    assert!((value(&metrics, "made-3", "both", "rsum", None) - (200.0 / 3.0 + 75.0 + 400.0)).abs() < 1e-9);
    assert!((value(&metrics, "made-3", "t2i", "meanr", None) - 1.25).abs() < 1e-9);
    assert_eq!(value(&metrics, "made-3", "t2i", "medr", None), 1.0);
    // Ranks 1, 2, 1, 1.
    assert_eq!(value(&metrics, "made-3", "t2i", "mrr", None), 87.5);

    let summary = host.output("summary");
    assert_eq!((int64s(&summary, "n_images"), int64s(&summary, "n_captions")), (vec![3], vec![4]));
    assert_eq!(host.warnings, []);
}

#[test]
fn captions_without_image_and_images_without_captions_cause_warnings() {
    let images = vec![(10, "test", unit(100.0)), (11, "test", unit(190.0))];
    let captions = vec![(1, 10, "test", unit(180.0)), (2, 77, "test", unit(190.0))];
    let mut host = host(&images, &captions);
    host.run_stage(&stage(&[Protocol::All])).expect("the input is fine");
    let messages: Vec<String> = host.warnings.iter().map(|w| format!("{}: {}", w.subject, w.message)).collect();
    assert_eq!(
        messages,
        [
            "captions of split `test`: 1 left out, since `images` lacks their image: caption_id 2",
            "images of split `test`: 1 without captions, ranked as items, but not queries: image_id 11",
        ]
    );
    // One query each way; image 11 stays in the pool and wins the caption of image 10.
    let rankings = host.output("rankings");
    assert_eq!((int64s(&rankings, "query_id"), int64s(&rankings, "rank")), (vec![10, 1], vec![1, 2]));
}

#[test]
fn vectors_of_another_similarity_cause_a_warning() {
    let at = |degrees: f64| (vec![(10, "test", unit(degrees))], vec![(1, 10, "test", unit(degrees))]);
    for (similarity, degrees, expected) in [
        (EmbeddingSimilarity::Cosine, 30.0, "no value of the embeddings is below 0"),
        (EmbeddingSimilarity::Cosine, 120.0, ""),
        (
            EmbeddingSimilarity::Order { form: OrderPenalty::default() },
            120.0,
            "some values of the embeddings are below 0",
        ),
        (EmbeddingSimilarity::Order { form: OrderPenalty::default() }, 30.0, ""),
    ] {
        let (images, captions) = at(degrees);
        let mut host = host(&images, &captions);
        host.run_stage(&Evaluate { similarity, ..stage(&[Protocol::All]) }).expect("vectors");
        let messages: String = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
        assert!(
            messages.starts_with(expected) && messages.is_empty() == expected.is_empty(),
            "{similarity:?}, {degrees}: {messages}"
        );
    }
}

fn error(images: &TestImages, captions: &TestCaptions, protocols: &[Protocol]) -> Error {
    host(images, captions).run_stage(&stage(protocols)).expect_err("the input is wrong")
}

/// Twenty equal captions, as a collapsed model gives them.
#[test]
fn equal_vectors_are_a_warning() {
    let images: TestImages =
        (0..20).map(|id| (id, "test", unit(f64::from(3 * i32::try_from(id).expect("small")) - 30.0))).collect();
    let captions: TestCaptions = (0..20).map(|id| (id, id, "test", unit(-10.0))).collect();
    let mut host = host(&images, &captions);
    host.run_stage(&stage(&[Protocol::All])).expect("ties are ranked");
    let warnings: Vec<&str> = host.warnings.iter().map(|warning| warning.subject.as_str()).collect();
    assert_eq!(warnings, ["captions of split `test`"], "{:?}", host.warnings);
    assert!(host.warnings[0].message.starts_with("all 20 vectors are equal"), "{:?}", host.warnings);
}

#[test]
fn bad_embeddings_are_named() {
    let good = vec![(10, "test", unit(0.0)), (11, "test", unit(1.0))];
    let captions = vec![(1, 10, "test", unit(0.0)), (2, 11, "test", unit(0.0))];
    let bad = vec![(10, "test", vec![f32::NAN, 0.0]), (11, "test", vec![0.0, 0.0]), (10, "test", vec![3.0, 4.0])];
    let got = error(&bad, &captions, &[Protocol::All]);
    assert_eq!(got.category(), ErrorCategory::Data);
    assert_eq!(
        got.to_string(),
        "`images` cannot be ranked: row 0 (image_id 10): the embedding has values that are not finite numbers; \
         row 1 (image_id 11): the embedding has norm 0.0000, expected 1; \
         row 2 (image_id 10): the embedding has norm 5.0000, expected 1; row 2: image_id 10 is also in row 0"
    );
    let hint = got.hint_text().expect("a hint");
    assert!(hint.starts_with("2 of 3 vectors have another norm than 1, from 0.0000 to 5.0000, which"), "{hint}");
    let many: TestImages = (0..25).map(|id| (id, "test", vec![3.0, 4.0])).collect();
    let got = error(&many, &captions, &[Protocol::All]);
    assert!(
        got.to_string().ends_with("row 2 (image_id 2): the embedding has norm 5.0000, expected 1; and 22 more"),
        "{got}"
    );
    assert!(got.hint_text().expect("a hint").starts_with("25 of 25 vectors"), "{got}");
    let wide = vec![(1, 10, "test", vec![1.0, 0.0, 0.0])];
    assert!(error(&good, &wide, &[Protocol::All]).to_string().contains("width 2, `captions` of width 3"));
    let other = vec![(1, 10, "val", unit(0.0)), (2, 11, "train", unit(0.0))];
    assert_eq!(
        error(&good, &other, &[Protocol::All]).to_string(),
        "no rows of split `test` in `captions`; there are `train`, `val`"
    );
    assert!(error(&vec![], &captions, &[Protocol::All]).to_string().contains("no rows at all"));
    let orphans = vec![(1, 5, "test", unit(0.0))];
    assert!(error(&good, &orphans, &[Protocol::All]).to_string().contains("no caption of split `test` belongs"));
    assert!(
        error(&good, &captions, &[Protocol::FiveFold]).to_string().contains("exactly 5000 images, the split has 2")
    );
    assert_eq!(stage(&[]).check().len(), 1);
    assert_eq!(stage(&[Protocol::All, Protocol::All]).check().len(), 1);
}

/// Images and two captions each, close to their image.
#[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
pub(super) fn random(count: i64, width: usize, seed: u64) -> (TestImages, TestCaptions) {
    let mut rng = Rng::new(seed, &[]);
    let mut near = |centre: Option<&[f32]>| {
        let drawn: Vec<f64> = (0..width)
            .map(|i| centre.map_or(0.0, |c| f64::from(c[i])) + 0.5 * (rng.uniform() + rng.uniform() - 1.0))
            .collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        drawn.iter().map(|x| (x / norm) as f32).collect::<Vec<f32>>()
    };
    let images: TestImages = (0..count).map(|id| (id, "test", near(None))).collect();
    let captions =
        images.iter().flat_map(|(id, _, v)| [0, 1].map(|k| (id * 2 + k, *id, "test", near(Some(v))))).collect();
    (images, captions)
}

/// Comparison of folds with the definition: every statistic is measured in each block of 1,000 images and then
/// averaged.
#[test]
fn five_folds_are_averaged() {
    let (images, captions) = random(5000, 4, 1);
    let mut host = host(&images, &captions);
    host.run_stage(&stage(&[Protocol::FirstFold, Protocol::FiveFold])).expect("the input is fine");
    let metrics = host.output("metrics");
    // Two captions an image: hubness of duplicate rows as well.
    let each = 23 + 1 + 2 * (21 + 5) + 10 + 6 + 1;
    assert_eq!(int64s(&metrics, "folds"), [vec![1; each], vec![5; each]].concat());
    assert_eq!(host.output("rankings").num_rows(), 3000 + 15000);

    let mut folds = Vec::new();
    for fold in 0..5 {
        let pool = &images[fold * 1000..(fold + 1) * 1000];
        let ranks: Vec<usize> = captions[fold * 2000..(fold + 1) * 2000]
            .iter()
            .enumerate()
            .map(|(c, caption)| {
                let scores: Vec<f32> = pool.iter().map(|image| dot(&caption.3, &image.2)).collect();
                best_rank(&scores, &[c / 2]).expect("one image matches").rank
            })
            .collect();
        folds.push(RecallSummary::of(&ranks, &[1, 5, 10]).expect("there are queries"));
    }
    let (first, mean) = (folds[0].clone(), RecallSummary::mean(&folds).expect("five folds"));
    for (protocol, expected) in [("made-1k-first-fold", first), ("made-1k-five-fold", mean)] {
        for (measure, k, expected) in [
            ("recall", Some(1), expected.recalls[0]),
            ("recall", Some(5), expected.recalls[1]),
            ("recall", Some(10), expected.recalls[2]),
            ("medr", None, expected.medr),
            ("meanr", None, expected.meanr),
        ] {
            let got = value(&metrics, protocol, "t2i", measure, k);
            assert!((got - expected).abs() < 1e-9, "{protocol} {measure} {k:?}: {got}, expected {expected}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// The order of captions in their table changes no measure if no scores are equal.
    #[test]
    fn the_order_of_captions_does_not_matter(seed in 0u64..1000) {
        let (images, mut captions) = random(30, 6, seed);
        let measure = |captions: &TestCaptions| {
            let mut host = host(&images, captions);
            host.run_stage(&stage(&[Protocol::All])).expect("the input is fine");
            host.output("summary")
        };
        let before = measure(&captions);
        Rng::new(seed, &[1]).shuffle(&mut captions);
        prop_assert_eq!(before, measure(&captions));
    }
}
