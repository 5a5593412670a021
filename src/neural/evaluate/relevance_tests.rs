//! Tests of `evaluate` with graded and binary relevance: hand-computed cases, comparison with the kernel, bad tables.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::tests::{TestCaptions, TestImages, halves, host, random, stage, unit};
use crate::testing::RunOnHost as _;
use pairloom_kernels::distance::dot;
use pairloom_kernels::measure::METRICS;
use pairloom_kernels::measure::graded_ranking::{
    GradedQuery, OFFICIAL_LIST_LENGTH, grade_ranking, official_neighbours,
};
use pairloom_kernels::measure::metric::{GradedRanking, MetricName};
use pairloom_kernels::random::Rng;
use pairloom_kernels::top_k::top_k;
use pairloom_retrieval::Protocol;
use pairloom_spec::stages::evaluate::{Evaluate, RelevanceSource};
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

fn similarity(neighbours: &[usize]) -> RelevanceSource {
    RelevanceSource {
        name: "phi".to_owned(),
        similarity: Some(TableRef::try_from("meaning.caption_similarity".to_owned()).expect("a table's name")),
        ratings: None,
        qrels: None,
        neighbours: Some(neighbours.to_vec()),
        at_least: None,
    }
}

fn ratings(at_least: f64) -> RelevanceSource {
    RelevanceSource {
        name: "people".to_owned(),
        similarity: None,
        ratings: Some(TableRef::try_from("cxc.ratings".to_owned()).expect("a table's name")),
        qrels: None,
        neighbours: None,
        at_least: Some(at_least),
    }
}

fn with(relevance: Vec<RelevanceSource>, protocol: Protocol) -> Evaluate {
    Evaluate { relevance, ..stage(&[protocol]) }
}

/// Rows of `caption_similarity`: image, and its captions with φ.
fn phi(rows: &[(i64, Vec<(i64, f32)>)]) -> RecordBatch {
    let pairs = || rows.iter().flat_map(|row| row.1.iter().copied());
    let lengths: Vec<usize> = rows.iter().map(|row| row.1.len()).collect();
    let image_ids = rows.iter().map(|row| row.0).collect();
    let (caption_ids, phi) = (pairs().map(|pair| pair.0).collect(), pairs().map(|pair| pair.1).collect());
    tables::caption_similarity::batch(image_ids, &lengths, caption_ids, phi, "cider_d", "ptb").expect("columns fit")
}

fn rated(rows: &[(i64, i64, f64)]) -> RecordBatch {
    let columns = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))) as ArrayRef,
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|_| "c2i_intrasim"))),
        Arc::new(StringArray::from(vec![None::<&str>; rows.len()])),
    ];
    tables::batch(&tables::ratings::table().schema(), columns).expect("columns fit")
}

/// Values of `metrics` with a relevance, by `direction measure variant ground_truth m k`, with their numbers of
/// queries.
fn named(host: &InMemoryHost) -> BTreeMap<String, (f64, i64)> {
    let metrics = host.output("metrics");
    let text = |name: &str, row: usize| {
        let column = metrics[name].as_string::<i32>();
        if column.is_valid(row) { column.value(row).to_owned() } else { "-".to_owned() }
    };
    let int = |name: &str, row: usize| {
        let column = metrics[name].as_primitive::<Int64Type>();
        if column.is_valid(row) { column.value(row).to_string() } else { "-".to_owned() }
    };
    let kept = metrics["ground_truth"].as_boolean();
    let mut values = BTreeMap::new();
    for row in (0..metrics.num_rows()).filter(|&row| metrics["relevance"].is_valid(row)) {
        let ground_truth = if kept.is_valid(row) { kept.value(row).to_string() } else { "-".to_owned() };
        let (direction, measure, variant) = (text("direction", row), text("measure", row), text("variant", row));
        let name = format!("{direction} {measure} {variant} {ground_truth} {} {}", int("m", row), int("k", row));
        let value = metrics["value"].as_primitive::<Float64Type>().value(row);
        let queries = metrics["n_queries"].as_primitive::<Int64Type>().value(row);
        assert!(values.insert(name.clone(), (value, queries)).is_none(), "{name} is there twice");
    }
    values
}

fn close(values: &BTreeMap<String, (f64, i64)>, name: &str, expected: f64) {
    let (got, _) = values.get(name).unwrap_or_else(|| panic!("no `{name}` in {:?}", values.keys()));
    assert!((got - expected).abs() < 1e-6, "{name}: {got}, expected {expected}");
}

/// Images 10, 11, 12 at 0°, 90°, 180°; captions 2 and 3 of image 10 at 5° and 85°, 1 of 11 at 80°, 4 of 12 at −170°.
/// In the order of the pool the captions are 2, 3, 1, 4.
fn circle() -> (TestImages, TestCaptions) {
    let images = vec![(10, "test", unit(0.0)), (11, "test", unit(90.0)), (12, "test", unit(180.0))];
    let captions = vec![
        (1, 11, "test", unit(80.0)),
        (2, 10, "test", unit(5.0)),
        (3, 10, "test", unit(85.0)),
        (4, 12, "test", unit(-170.0)),
    ];
    (images, captions)
}

#[test]
fn graded_measures_of_three_images_on_a_circle() {
    let (images, captions) = circle();
    let mut host = host(&images, &captions);
    // Captions in another order in every row, and an image and a caption that are not of the split.
    let table = phi(&[
        (12, vec![(4, 2.0), (3, 0.0), (2, 1.0), (1, 0.0)]),
        (77, vec![(1, f32::NAN)]),
        (10, vec![(1, 1.0), (2, 4.0), (3, 3.0), (4, 0.0), (99, 9.0)]),
        (11, vec![(1, 3.0), (2, 0.0), (3, 2.0), (4, 0.0)]),
    ]);
    host.input_tables.insert("relevance.0.similarity".to_owned(), halves(&table));
    host.run_stage(&with(vec![similarity(&[1, 2])], Protocol::All)).expect("the input is fine");
    let values = named(&host);

    // Image to text. Rankings: image 10 finds 2, 1, 3, 4; image 11 finds 3, 1, 2, 4; image 12 finds 4, 3, 1, 2.
    // Their φ: 4 1 3 0; 2 3 0 0; 2 0 0 1. Ideal: 4 3 1 0; 3 2 0 0; 2 1 0 0.
    close(&values, "i2t ncs official true - 1", 100.0 * (1.0 + 2.0 / 3.0 + 1.0) / 3.0);
    close(&values, "i2t ncs official true - 5", 100.0);
    // (N): image 10 finds 1, 4 of φ 1 0; image 11 finds 3, 2, 4 of φ 2 0 0; image 12 finds 3, 1, 2 of φ 0 0 1.
    close(&values, "i2t ncs official false - 1", 100.0 * (1.0 + 1.0 + 0.0) / 3.0);
    // Two neighbours by φ: 2 3; 1 3; 4 2. At 1: one of two, one of two, one of two. φ found: 4/7, 2/5, 2/3.
    close(&values, "i2t semantic_recall paper true 2 1", 50.0);
    close(&values, "i2t ncs paper true 2 1", 100.0 * (4.0 / 7.0 + 2.0 / 5.0 + 2.0 / 3.0) / 3.0);
    close(&values, "i2t semantic_recall paper true 2 5", 100.0);
    // R = 2 and hits 1 0 1 0; 1 1 0 0; 1 0 0 1.
    close(&values, "i2t r_precision - true 2 -", 100.0 * (0.5 + 1.0 + 0.5) / 3.0);
    close(&values, "i2t map_at_r - true 2 -", 100.0 * (0.5 + 1.0 + 0.5) / 3.0);

    // Text to image. φ of images 10 11 12 by caption: 2: 4 0 1; 3: 3 2 0; 1: 1 3 0; 4: 0 0 2.
    // Rankings: 2 finds 10 11 12; 3 finds 11 10 12; 1 finds 11 10 12; 4 finds 12 11 10 (170°: cos −0.98; −0.17; 0.98).
    close(&values, "t2i ncs official true - 1", 100.0 * (1.0 + 2.0 / 3.0 + 1.0 + 1.0) / 4.0);
    // (N): 2 finds 11 (0 of 1), 3 finds 11 (2 of 2), 1 finds 10 (1 of 1), 4 finds 11 (0 of 0: nothing could be found).
    close(&values, "t2i ncs official false - 1", 50.0);
    // The published neighbours of image 10: 10 has 4 + 3, 11 has 0 + 2, 12 has 1 + 0. Without itself: 11.
    // Of 11: 10 with 1, 12 with 0. Of 12: 10 and 11 with 0 each, the lower index first: 10.
    // (N), one neighbour, at 1: captions 2 and 3 want 11 and find it; 1 wants 10, finds it; 4 wants 10, finds 11.
    close(&values, "t2i semantic_recall official false 1 1", 75.0);
    // Images want the captions of those: 10 wants 1, found; 11 wants 2 and 3, finds 3; 12 wants 2 and 3, finds 3.
    close(&values, "i2t semantic_recall official false 1 1", 100.0 * (1.0 + 0.5 + 0.5) / 3.0);
    close(&values, "i2t semantic_recall_any official false 1 1", 100.0);
    // Soft: 1/1/1, 2/(2 + 0)/2, 0/(1 + 0)/2.
    close(&values, "i2t semantic_recall_soft official false 1 1", 100.0 * (1.0 + 0.5 + 0.0) / 3.0);

    let sum: f64 = ["i2t", "t2i"]
        .iter()
        .flat_map(|direction| [1, 5, 10].map(|k| values[&format!("{direction} ncs official true - {k}")].0))
        .sum();
    close(&values, "both nsum official true - -", sum);
    assert_eq!(values["both nsum official false - -"].1, 7);
    // Measures without a relevance have not changed.
    assert_eq!(host.output("rankings")["top_ids"].as_list::<i32>().value(0).len(), 4);
}

#[test]
fn ratings_define_binary_relevance() {
    let (images, captions) = circle();
    let mut host = host(&images, &captions);
    // Three people rated caption 3 with image 10: the mean is 2.9. Two rated 2 with 11: 3.5.
    let table = rated(&[
        (2, 10, 5.0),
        (3, 10, 5.0),
        (2, 11, 2.0),
        (3, 10, 1.7),
        (3, 11, 3.0),
        (1, 11, 4.5),
        (2, 11, 5.0),
        (4, 10, 0.0),
        (5, 50, 5.0),
        (3, 10, 2.0),
    ]);
    host.input_tables.insert("relevance.0.ratings".to_owned(), halves(&table));
    host.run_stage(&with(vec![ratings(3.0)], Protocol::All)).expect("the input is fine");
    let values = named(&host);
    // Image 10 wants 2 and finds 2 first; image 11 wants 3, 1, 2 and finds 3, 1, 2; image 12 wants nothing.
    close(&values, "i2t recall - - - 1", 100.0);
    close(&values, "i2t set_recall - - - 1", 100.0 * (1.0 + 1.0 / 3.0) / 2.0);
    close(&values, "i2t map_at_r - - - -", 100.0);
    assert_eq!(values["i2t recall - - - 1"].1, 2);
    // Caption 2 wants 10 and 11 and finds both first; 3 and 1 want 11 and find it; 4 wants nothing.
    close(&values, "t2i set_recall - - - 1", 100.0 * (0.5 + 1.0 + 1.0) / 3.0);
    close(&values, "t2i r_precision - - - -", 100.0);
    let messages: Vec<String> = host.warnings.iter().map(|w| format!("{}: {}", w.subject, w.message)).collect();
    assert_eq!(messages, ["relevance.0.ratings: 1 of 7 rated pairs are not of this split and left out"]);

    let error = host.run_stage(&with(vec![ratings(5.5)], Protocol::All)).expect_err("nothing is rated so high");
    assert!(error.to_string().contains("no pair of the split that is rated 5.5 or higher"), "{error}");
}

/// Asserts that the stage computes from tables what the kernel computes from the φ and the full ranking of every query.
fn compare_with_kernel(
    images: &TestImages,
    captions: &TestCaptions,
    protocol: Protocol,
    fold: usize,
) -> BTreeMap<String, (f64, i64)> {
    let neighbours = [1, 4, 60];
    let mut rng = Rng::new(11, &[]);
    #[expect(clippy::cast_precision_loss, reason = "test values are small")]
    let mut draw = |own: bool| rng.uniform_below(9).saturating_sub(if own { 0 } else { 5 }) as f32 / 4.0;
    let matrix: Vec<Vec<f32>> = images.iter().map(|i| captions.iter().map(|c| draw(c.1 == i.0)).collect()).collect();
    let rows: Vec<(i64, Vec<(i64, f32)>)> = images
        .iter()
        .zip(&matrix)
        .map(|(image, row)| (image.0, captions.iter().map(|c| c.0).zip(row.iter().copied()).collect()))
        .collect();
    let mut host = host(images, captions);
    host.input_tables.insert("relevance.0.similarity".to_owned(), halves(&phi(&rows)));
    host.run_stage(&with(vec![similarity(&neighbours)], protocol)).expect("the input is fine");
    let got = named(&host);

    let images = &images[..fold];
    let captions: Vec<_> = captions.iter().filter(|c| images.iter().any(|i| i.0 == c.1)).collect();
    let own = |image: usize| -> Range<usize> {
        let image_of = |c: &&_| -> i64 {
            let c: &(i64, i64, &str, Vec<f32>) = c;
            c.1
        };
        let start = captions.iter().position(|c| image_of(c) == images[image].0).unwrap_or(0);
        start..start + captions.iter().filter(|c| image_of(c) == images[image].0).count()
    };
    let column = |c: usize| (0..fold).map(|i| matrix[i][c]).collect::<Vec<f32>>();
    let near = |image: usize, left_out| {
        let lists: Vec<_> = own(image).map(|c| top_k(&column(c), OFFICIAL_LIST_LENGTH)).collect();
        official_neighbours(lists.iter().map(Vec::as_slice), left_out, 60)
    };
    let ranking = |query: &[f32], items: &[&[f32]]| -> Vec<usize> {
        let scores: Vec<f32> = items.iter().map(|item| dot(query, item)).collect();
        top_k(&scores, scores.len()).iter().map(|scored| scored.item).collect()
    };
    let image_vectors: Vec<&[f32]> = images.iter().map(|i| i.2.as_slice()).collect();
    let caption_vectors: Vec<&[f32]> = captions.iter().map(|c| c.3.as_slice()).collect();
    let mut expected: BTreeMap<(&str, MetricName), (f64, i64)> = BTreeMap::new();
    let mut add = |direction, name, value: f64| {
        let (sum, n) = expected.entry((direction, name)).or_default();
        *sum += value;
        *n += 1;
    };
    let mut all = |grades: &GradedRanking<'_>, direction| {
        for metric in METRICS {
            metric.measure_graded(grades, &mut |name, value| add(direction, name, value));
        }
    };
    for image in (0..fold).filter(|&image| !own(image).is_empty()) {
        let near = [near(image, None), near(image, Some(image))];
        let near_images = near.each_ref().map(|near| near.iter().map(|&i| own(i)).collect::<Vec<_>>());
        let query = GradedQuery {
            phi: &matrix[image][..captions.len()],
            ranking: &ranking(image_vectors[image], &caption_vectors),
            matches: &own(image),
            official_neighbours: [&near_images[0], &near_images[1]],
            whole_split_phi: (fold < matrix.len()).then_some(&matrix[image]),
        };
        grade_ranking(&query, &[1, 5, 10], &neighbours, |grades| all(grades, "i2t"));
        let near_images = near.each_ref().map(|near| near.iter().map(|&i| i..i + 1).collect::<Vec<_>>());
        for caption in own(image) {
            let query = GradedQuery {
                phi: &column(caption),
                ranking: &ranking(caption_vectors[caption], &image_vectors),
                matches: &(image..image + 1),
                official_neighbours: [&near_images[0], &near_images[1]],
                whole_split_phi: None,
            };
            grade_ranking(&query, &[1, 5, 10], &neighbours, |grades| all(grades, "t2i"));
        }
    }
    let show = |number: Option<usize>| number.map_or("-".to_owned(), |number| number.to_string());
    for ((direction, name), (sum, n)) in &expected {
        let (m, k) = (show(name.m), show(name.k));
        let key = format!(
            "{direction} {} {} {} {m} {k}",
            name.measure,
            name.variant.unwrap_or("-"),
            name.ground_truth == Some(true)
        );
        #[expect(clippy::cast_precision_loss, reason = "queries are few")]
        close(&got, &key, 100.0 * sum / *n as f64);
        assert_eq!(got[&key].1, *n, "{key}");
    }
    assert_eq!(got.len(), expected.len() + got.keys().filter(|name| name.starts_with("both nsum")).count());
    got
}

/// Forty images with 0 to 7 captions, in more than two blocks. The caption table is not in the order of the pool.
#[test]
fn images_with_0_to_7_captions() {
    let (images, _) = random(40, 5, 3);
    let mut captions = TestCaptions::new();
    for (number, image) in images.iter().enumerate() {
        for k in 0..[1, 7, 2, 5, 0, 3][number % 6] {
            captions.push((1000 - i64::try_from(captions.len()).expect("few"), image.0, "test", unit5(number, k)));
        }
    }
    compare_with_kernel(&images, &captions, Protocol::All, 40);
}

/// A fold is measured in its own pool: items outside of it are neither found nor counted as missing.
#[test]
fn a_fold_is_a_pool_of_its_own() {
    let (images, captions) = random(1003, 3, 5);
    let captions: TestCaptions = captions.into_iter().filter(|c| c.0 % 2 == 0).collect();
    let values = compare_with_kernel(&images, &captions, Protocol::FirstFold, 1000);
    let sum: f64 = [("i2t", "official_whole_split"), ("t2i", "official")]
        .iter()
        .flat_map(|(direction, variant)| [1, 5, 10].map(|k| values[&format!("{direction} ncs {variant} true - {k}")].0))
        .sum();
    close(&values, "both nsum official_whole_split true - -", sum);
}

#[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "test values are small")]
fn unit5(a: usize, b: usize) -> Vec<f32> {
    let raw: Vec<f64> = (0..5).map(|i| ((a * 31 + b * 17 + i * 7) as f64).sin()).collect();
    let norm = raw.iter().map(|x| x * x).sum::<f64>().sqrt();
    raw.iter().map(|x| (x / norm) as f32).collect()
}

#[test]
fn constant_relevance_is_measured_too() {
    let (images, captions) = circle();
    for level in [0.0, 1.5] {
        let mut host = host(&images, &captions);
        let row = |image| (image, (1..=4).map(|caption| (caption, level)).collect());
        host.input_tables.insert("relevance.0.similarity".to_owned(), vec![phi(&[row(10), row(11), row(12)])]);
        host.run_stage(&with(vec![similarity(&[2])], Protocol::All)).expect("the input is fine");
        let values = named(&host);
        let expected = if level > 0.0 { 100.0 } else { 0.0 };
        close(&values, "i2t ncs official true - 5", expected);
        close(&values, "t2i ncs_ordered official false - 10", expected);
        close(&values, "i2t semantic_recall paper true 2 10", 100.0);
        assert!(values.values().all(|(value, _)| value.is_finite()));
        let messages = host.warnings.iter().filter(|warning| warning.message.contains("φ above 0")).count();
        assert_eq!(messages, usize::from(level == 0.0), "{:?}", host.warnings);
    }
}

#[test]
fn bad_tables_are_named() {
    let (images, captions) = circle();
    let fail = |rows: &[(i64, Vec<(i64, f32)>)]| {
        let mut host = host(&images, &captions);
        host.input_tables.insert("relevance.0.similarity".to_owned(), vec![phi(rows)]);
        host.run_stage(&with(vec![similarity(&[1])], Protocol::All)).expect_err("the table is wrong").to_string()
    };
    let whole = |image| (image, vec![(1, 1.0), (2, 1.0), (3, 1.0), (4, 1.0)]);
    assert_eq!(
        fail(&[whole(10)]),
        "`relevance.0.similarity` cannot be used as relevance: no row of image_id 11; no row of image_id 12"
    );
    let without = |image, caption| {
        let (image, mut row) = whole(image);
        row.retain(|pair| pair.0 != caption);
        (image, row)
    };
    let got = fail(&[without(10, 3), without(11, 3), without(12, 3)]);
    assert!(got.ends_with("relevance: no value of caption_id 3"), "{got}");
    let got = fail(&[whole(10), without(11, 4), whole(12)]);
    assert!(got.ends_with("relevance: caption_id 4 lacks 1 of 3 images"), "{got}");
    let got = fail(&[whole(10), whole(11), whole(12), (11, vec![(2, 1.0)])]);
    assert!(got.ends_with("relevance: image_id 11 with caption_id 2 appears twice"), "{got}");
    let got = fail(&[(10, vec![(1, f32::NAN), (2, -0.5), (3, f32::INFINITY), (4, 1.0)]), whole(11), whole(12)]);
    let expected = "image_id 10 with caption_id 1 has φ = NaN, expected a number of at least 0; image_id 10 with caption_id 2 \
                  has φ = -0.5, expected a number of at least 0; image_id 10 with caption_id 3 has φ = inf";
    assert!(got.contains(expected), "{got}");

    let mut host = host(&images, &captions);
    host.input_tables.insert("relevance.0.ratings".to_owned(), vec![rated(&[(1, 10, 4.0), (2, 11, f64::NAN)])]);
    let got = host.run_stage(&with(vec![ratings(3.0)], Protocol::All)).expect_err("the table is wrong").to_string();
    assert!(got.ends_with("cannot be used as relevance: caption_id 2 with image_id 11 is rated NaN"), "{got}");
}

#[test]
fn bad_settings_are_named_by_their_place() {
    let messages = |relevance: Vec<RelevanceSource>| -> Vec<String> {
        let problems = with(relevance, Protocol::All).check();
        problems.iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    };
    assert_eq!(messages(vec![similarity(&[1, 5]), ratings(3.0)]), Vec::<String>::new());
    let none = RelevanceSource { ratings: None, at_least: None, ..ratings(3.0) };
    let both = RelevanceSource { similarity: similarity(&[1]).similarity, ..ratings(3.0) };
    assert_eq!(
        messages(vec![none, both, RelevanceSource { at_least: None, ..ratings(3.0) }]),
        [
            "relevance.0: names no table",
            "relevance.1: names several tables",
            "relevance.1.name: the name `people` appears twice",
            "relevance.2: `at_least` is missing, expected the lowest rating of relevant pairs",
            "relevance.2.name: the name `people` appears twice",
        ]
    );
    let got = messages(vec![RelevanceSource { name: " ".to_owned(), at_least: Some(1.0), ..similarity(&[0, 2, 2]) }]);
    assert_eq!(
        got,
        [
            "relevance.0.name: got an empty name",
            "relevance.0.at_least: belongs to `ratings` and `qrels`",
            "relevance.0.neighbours: got [0, 2, 2], expected numbers from 1",
            "relevance.0.neighbours: 2 appears twice",
        ]
    );
    for (cutoffs, problems) in
        [(&[1, 5, 10, 20, 30][..], 0), (&[10], 0), (&[], 1), (&[0, 1], 1), (&[5, 1], 1), (&[1, 1], 1)]
    {
        let stage = Evaluate { cutoffs: cutoffs.to_vec(), ..stage(&[Protocol::All]) };
        assert_eq!(stage.check().len(), problems, "{cutoffs:?}");
    }
}
