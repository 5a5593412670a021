//! Tests of the stage on an in-memory host.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use serde_json::json;

use super::ScoreCaptions;
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_stage::Stage;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Caption of a test data set: (caption, image, split, text).
type CaptionFixture<'t> = (i64, i64, &'t str, &'t str);

const CAPTIONS: [CaptionFixture<'static>; 7] = [
    (10, 1, "test", "A brown dog runs on the beach."),
    (11, 1, "test", "the dog is running on sand"),
    (20, 2, "test", "Two men are playing a red guitar"),
    (21, 2, "test", "two people play music"),
    (30, 3, "test", "a red car in the street"),
    (40, 4, "train", "a dog in a car"),
    (41, 4, "train", "the dog sits in the back of a car"),
];

fn captions(rows: &[CaptionFixture<'_>]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.3))),
    ];
    tables::batch(&tables::captions::table().schema(), columns).unwrap()
}

fn pairs(pairs: &[(i64, i64)]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(pairs.iter().map(|pair| pair.1))),
        Arc::new(Int64Array::from_iter_values(pairs.iter().map(|pair| pair.0))),
        Arc::new(Float64Array::from(vec![1.0; pairs.len()])),
        Arc::new(StringArray::from(vec!["x"; pairs.len()])),
        Arc::new(StringArray::from(vec![None::<&str>; pairs.len()])),
    ];
    tables::batch(&tables::ratings::table().schema(), columns).unwrap()
}

fn score_captions(rows: &[CaptionFixture<'_>], settings: serde_json::Value) -> Result<InMemoryHost> {
    let mut host = InMemoryHost::default();
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    run(host, settings)
}

fn run(mut host: InMemoryHost, mut settings: serde_json::Value) -> Result<InMemoryHost> {
    settings["captions"] = json!("pairs.captions");
    let stage: ScoreCaptions = serde_json::from_value(settings).unwrap();
    assert_eq!(stage.check(), []);
    host.run(&stage)?;
    let declared: Vec<&str> = stage.outputs().iter().map(|output| output.name).collect();
    assert!(host.output_tables.keys().all(|name| declared.contains(&name.as_str())), "{declared:?}");
    Ok(host)
}

/// Rows of `caption_similarity`: image → [(caption, φ)].
fn similarity(host: &InMemoryHost) -> Vec<(i64, Vec<(i64, f32)>)> {
    let batch = host.output("caption_similarity");
    let rows = tables::caption_similarity::rows(&batch).unwrap();
    let pairs = |row: &tables::caption_similarity::SimilarityRow<'_>| {
        row.caption_ids.iter().copied().zip(row.similarities.iter().copied()).collect()
    };
    rows.iter().map(|row| (row.image_id, pairs(row))).collect()
}

/// CIDEr-D of `h` with `references`, computed directly from the formula, with document frequencies over `images`.
#[expect(clippy::cast_precision_loss, reason = "a handful of captions")]
fn cider_d(h: &str, references: &[&str], images: &[Vec<&str>]) -> f64 {
    use std::collections::{BTreeMap, BTreeSet};
    let grams = |text: &str, n: usize| -> Vec<String> {
        let words: Vec<String> = text.to_lowercase().split_whitespace().map(str::to_owned).collect();
        words.windows(n).map(|gram| gram.join(" ")).collect()
    };
    let mut sum = 0.0;
    for r in references {
        let delta = grams(h, 2).len().abs_diff(grams(r, 2).len());
        let penalty = (-f64::from(u32::try_from(delta * delta).unwrap()) / 72.0).exp();
        for n in 1..=4 {
            let has = |captions: &Vec<&str>| captions.iter().flat_map(|text| grams(text, n)).collect::<BTreeSet<_>>();
            let sets: Vec<_> = images.iter().map(has).collect();
            let vector = |text: &str| {
                let mut vector: BTreeMap<String, f64> = BTreeMap::new();
                for gram in grams(text, n) {
                    let df = sets.iter().filter(|set| set.contains(&gram)).count().max(1);
                    *vector.entry(gram).or_default() += (images.len() as f64).ln() - (df as f64).ln();
                }
                vector
            };
            let (h, r) = (vector(h), vector(r));
            let norm = |v: &BTreeMap<String, f64>| v.values().map(|w| w * w).sum::<f64>().sqrt();
            let dot: f64 = h.iter().filter_map(|(g, w)| r.get(g).map(|x| w.min(*x) * x)).sum();
            if norm(&h) * norm(&r) > 0.0 {
                sum += penalty * dot / (norm(&h) * norm(&r));
            }
        }
    }
    10.0 * sum / 4.0 / references.len() as f64
}

/// Groups the captions of a split by image.
fn references<'t>(rows: &[CaptionFixture<'t>], split: &str) -> Vec<(i64, Vec<&'t str>)> {
    let mut images: Vec<(i64, Vec<&str>)> = Vec::new();
    for row in rows.iter().filter(|row| row.2 == split) {
        match images.iter_mut().find(|image| image.0 == row.1) {
            Some(image) => image.1.push(row.3),
            None => images.push((row.1, vec![row.3])),
        }
    }
    images
}

fn close(got: f32, expected: f64) -> bool {
    (f64::from(got) - expected).abs() < 1e-6
}

#[test]
fn dense_is_every_image_with_every_caption_of_the_split() {
    let host = score_captions(&CAPTIONS, json!({"measure": {"cider_d": {"tokenizer": "whitespace"}}})).unwrap();
    let images = references(&CAPTIONS, "test");
    let all: Vec<Vec<&str>> = images.iter().map(|image| image.1.clone()).collect();
    let rows = similarity(&host);
    assert_eq!(rows.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 3]);
    for ((_, row), (_, references)) in rows.iter().zip(&images) {
        assert_eq!(row.iter().map(|pair| pair.0).collect::<Vec<_>>(), [10, 11, 20, 21, 30]);
        for &(caption, got) in row {
            let text = CAPTIONS.iter().find(|row| row.0 == caption).unwrap().3;
            let expected = cider_d(text, references, &all);
            assert!(close(got, expected), "caption {caption}: {got}, expected {expected}");
        }
    }
    let batch = host.output("caption_similarity");
    assert_eq!(tables::text_column(&batch, "measure").unwrap().value(0), "cider_d");
    assert_eq!(tables::text_column(&batch, "tokenizer").unwrap().value(0), "whitespace");
    assert_eq!(host.warnings, []);
}

#[test]
fn document_frequencies_can_come_from_another_split() {
    let rows = [CAPTIONS[0], CAPTIONS[2], CAPTIONS[5], (50, 5, "train", "a man with a guitar")];
    let settings = json!({"measure": {"cider_d": {"tokenizer": "whitespace", "document_frequency_split": "train"}}});
    let host = score_captions(&rows, settings).unwrap();
    let train: Vec<Vec<&str>> = references(&rows, "train").into_iter().map(|image| image.1).collect();
    let own = similarity(&host)[1].1[1].1;
    assert!(close(own, cider_d(rows[1].3, &[rows[1].3], &train)), "{own}");
    // Counted over the split itself, the weight is ln 2 for every word except those of both images.
    assert!(similarity(&score_captions(&rows, json!({"measure": {"cider_d": {}}})).unwrap())[1].1[1].1 > 0.0);
}

#[test]
fn top_equals_the_best_pairs_of_dense() {
    for measure in [json!({"cider_d": {}}), json!({"cider": {}}), json!({"spice": {}})] {
        let dense = similarity(&score_captions(&CAPTIONS, json!({"measure": measure})).unwrap());
        let top = similarity(&score_captions(&CAPTIONS, json!({"measure": measure, "pairs": {"top": 2}})).unwrap());
        for ((image, mut all), (other, best)) in dense.into_iter().zip(top) {
            assert_eq!(image, other);
            all.sort_by(|a, b| b.1.total_cmp(&a.1));
            all.truncate(2);
            assert_eq!(all, best, "{measure}, image {image}");
        }
    }
}

#[test]
fn only_the_requested_pairs_are_scored_and_spice_sub_scores_are_written() {
    // A pair with several ratings is scored once.
    let requested = [(3, 30), (1, 21), (1, 11), (2, 10), (1, 21)];
    for measure in [json!({"cider_d": {}}), json!({"spice": {}})] {
        let mut host = InMemoryHost::default();
        host.input_tables.insert("captions".to_owned(), vec![captions(&CAPTIONS)]);
        host.input_tables.insert("pairs.table".to_owned(), vec![pairs(&requested[..2]), pairs(&requested[2..])]);
        let host = run(host, json!({"measure": measure, "pairs": {"table": "people.ratings"}})).unwrap();
        let rows = similarity(&host);
        let ids: Vec<(i64, Vec<i64>)> =
            rows.iter().map(|row| (row.0, row.1.iter().map(|pair| pair.0).collect())).collect();
        assert_eq!(ids, [(1, vec![21, 11]), (2, vec![10]), (3, vec![30])]);
        let dense = similarity(&score_captions(&CAPTIONS, json!({"measure": measure})).unwrap());
        for (image, row) in rows {
            for (caption, value) in row {
                let all = &dense.iter().find(|row| row.0 == image).unwrap().1;
                let expected = all.iter().find(|pair| pair.0 == caption).unwrap().1;
                assert!((value - expected).abs() < 1e-6, "{value} {expected}");
            }
        }
        let Some(scores) = host.output_tables.get("spice_scores") else { continue };
        let float = |name: &str| {
            scores[0].column_by_name(name).unwrap().as_any().downcast_ref::<Float64Array>().unwrap().clone()
        };
        // Image 1 with caption 11, one of its own: all tuples of the caption match.
        assert_eq!(float("precision").value(1), 1.0);
        assert!(float("recall").value(1) < 1.0);
        let (p, r) = (float("precision").value(1), float("recall").value(1));
        assert!((float("f").value(1) - 2.0 * p * r / (p + r)).abs() < 1e-12);
        assert!(float("size").is_null(1), "no caption mentions a size");
    }
}

#[test]
fn written_graphs_can_be_read_by_another_run() {
    let host = score_captions(&CAPTIONS, json!({"measure": {"spice": {}}, "pairs": "on_demand"})).unwrap();
    assert!(!host.output_tables.contains_key("caption_similarity"));
    let graphs = host.output("scene_graphs");
    let rows = tables::scene_graphs::rows(&graphs).unwrap();
    assert_eq!(rows[4].objects, ["car", "street"]);
    assert_eq!(rows[4].attributes, [["car".to_owned(), "red".to_owned()]]);
    assert_eq!(rows[4].relations, [["car", "in", "street"].map(str::to_owned)]);
    let dense = score_captions(&CAPTIONS, json!({"measure": {"spice": {}}})).unwrap();
    let mut again = InMemoryHost::default();
    again.input_tables.insert("captions".to_owned(), vec![captions(&CAPTIONS)]);
    again.input_tables.insert("measure.spice.graphs".to_owned(), vec![graphs.clone()]);
    let again = run(again, json!({"measure": {"spice": {"graphs": "meaning.scene_graphs"}}})).unwrap();
    assert_eq!(similarity(&again), similarity(&dense));
    assert!(!again.output_tables.contains_key("scene_graphs"));
    // The graph of one caption is missing.
    let mut short = InMemoryHost::default();
    short.input_tables.insert("captions".to_owned(), vec![captions(&CAPTIONS)]);
    short.input_tables.insert("measure.spice.graphs".to_owned(), vec![graphs.slice(1, 4)]);
    let error = run(short, json!({"measure": {"spice": {"graphs": "meaning.scene_graphs"}}})).unwrap_err();
    assert!(error.to_string().contains("1 captions have no scene graph: caption_id 10"), "{error}");
}

#[test]
fn tf_idf_vectors_of_captions_are_written() {
    let host = score_captions(&CAPTIONS, json!({"measure": {"cider": {}}, "pairs": "on_demand"})).unwrap();
    let vectors = host.output("caption_ngrams");
    assert_eq!(vectors.num_rows(), 5);
    // "a red car in the street": six words, so 6 + 5 + 4 + 3 n-grams.
    assert_eq!(tables::int_column(&vectors, "n_tokens").unwrap().value(4), 6);
    let lists = vectors.column_by_name("ngrams").unwrap();
    assert_eq!(arrow::array::AsArray::as_list::<i32>(lists).value_length(4), 18);
    assert_eq!(tables::text_column(&vectors, "tokenizer").unwrap().value(0), "ptb");
}

#[test]
fn any_block_of_pairs_can_be_computed_from_the_vectors_of_the_table() {
    use pairloom_kernels::text::CaptionSimilarity;
    use pairloom_kernels::text::cider::{CaptionVectors, Cider, CiderVariant, OwnCaption};
    let host = score_captions(&CAPTIONS, json!({"measure": {"cider_d": {}}, "pairs": "on_demand"})).unwrap();
    let table = host.output("caption_ngrams");
    let (mut vectors, mut images) = (CaptionVectors::default(), Vec::new());
    for row in tables::caption_ngrams::rows(&table).unwrap() {
        if images.last() != Some(&row.image_id) {
            images.push(row.image_id);
        }
        let image = images.len() - 1;
        vectors.push_row(image, row.n_tokens, row.ngrams, row.orders, row.counts, row.weights).unwrap();
    }
    let cider = Cider::new(vectors, CiderVariant::CiderD, OwnCaption::Keep);
    let block = cider.block(&[2, 0], &[4, 1, 0]);
    let dense = similarity(&score_captions(&CAPTIONS, json!({"measure": {"cider_d": {}}})).unwrap());
    let expected: Vec<f32> =
        [2, 0].iter().flat_map(|&image: &usize| [4, 1, 0].map(|c: usize| dense[image].1[c].1)).collect();
    assert!(block.iter().zip(&expected).all(|(got, expected)| (got - expected).abs() < 1e-6), "{block:?} {expected:?}");
    assert!(expected[0] > 9.0 && expected[1] < 1.0, "{expected:?}");
}

#[test]
fn rows_of_other_splits_in_the_table_of_pairs_are_ignored() {
    for (split, expected) in [("test", vec![2, 2, 1]), ("train+test", vec![2, 2, 1, 2])] {
        let mut host = InMemoryHost::default();
        host.input_tables.insert("captions".to_owned(), vec![captions(&CAPTIONS)]);
        host.input_tables.insert("pairs.table".to_owned(), vec![captions(&CAPTIONS)]);
        let settings = json!({"measure": {"cider_d": {}}, "pairs": {"table": "pairs.captions"}, "split": split});
        let host = run(host, settings).unwrap();
        assert_eq!(similarity(&host).iter().map(|row| row.1.len()).collect::<Vec<_>>(), expected, "{split}");
    }
}

#[test]
fn a_split_with_one_image_warns_that_cider_is_zero() {
    let host = score_captions(&CAPTIONS[..2], json!({"measure": {"cider_d": {}}})).unwrap();
    assert_eq!(similarity(&host), [(1, vec![(10, 0.0), (11, 0.0)])]);
    assert!(host.warnings[0].message.starts_with("φ is 0 for every pair"), "{:?}", host.warnings);
    // Images may have different numbers of captions: seven and one.
    let mut rows: Vec<CaptionFixture<'_>> = (0..).zip(&CAPTIONS).map(|(i, row)| (i, 1, "test", row.3)).collect();
    assert_eq!(rows.len(), 7);
    rows.push((30, 3, "test", "zebras sleep below tall trees"));
    let host = score_captions(&rows, json!({"measure": {"cider_d": {}}})).unwrap();
    assert_eq!(host.warnings, []);
    assert!(similarity(&host)[1].1[7].1 > 9.9, "{:?}", similarity(&host));
}

/// The expected values are those of pycocoevalcap 1.2 with its Java tokeniser. A tokeniser that cuts words at combining
/// marks gives 8.22, 6.56 and 6.94 on the diagonal.
#[test]
fn cider_d_of_hindi_is_that_of_the_coco_evaluation() {
    let rows = [
        (10, 1, "test", "एक कुत्ता घास पर दौड़ रहा है ।"),
        (11, 1, "test", "भूरा कुत्ता हरी घास पर दौड़ रहा है।"),
        (20, 2, "test", "एक आदमी घोड़े की सवारी कर रहा है ।"),
        (21, 2, "test", "टोपी वाला आदमी घोड़े पर बैठा है।"),
        (30, 3, "test", "दो बच्चे बगीचे में गेंद से खेल रहे हैं ।"),
        (31, 3, "test", "बच्चे गेंद के साथ खेल रहे हैं।"),
    ];
    let expected = [
        [8.025_033_8, 8.025_033_8, 0.348_354_9, 0.198_658_9, 0.0, 0.0],
        [0.312_059_3, 0.234_954_5, 5.718_915_6, 5.718_915_6, 0.0, 0.0],
        [0.0, 0.0, 0.0, 0.0, 6.733_011_0, 6.733_011_0],
    ];
    let host = score_captions(&rows, json!({"measure": {"cider_d": {}}})).unwrap();
    for ((_, row), expected) in similarity(&host).iter().zip(expected) {
        assert!(row.iter().zip(expected).all(|(pair, expected)| close(pair.1, expected)), "{row:?}, {expected:?}");
    }
}

#[test]
fn leaving_out_the_only_caption_of_an_image_warns_that_its_similarity_is_zero() {
    let rows = [CAPTIONS[0], CAPTIONS[2], CAPTIONS[3], CAPTIONS[4]];
    let host = score_captions(&rows, json!({"measure": {"cider_d": {"own_caption": "leave_out"}}})).unwrap();
    let diagonal = |host: &InMemoryHost| [similarity(host)[0].1[0], similarity(host)[2].1[3]];
    assert_eq!(diagonal(&host), [(10, 0.0), (30, 0.0)]);
    assert_eq!(
        host.warnings.iter().map(|warning| warning.message.as_str()).collect::<Vec<_>>(),
        ["φ of an image and its only caption is 0, because `own_caption = \"leave_out\"` leaves it no reference: \
          2 of 3 images have one caption"]
    );
    let kept = score_captions(&rows, json!({"measure": {"cider_d": {}}})).unwrap();
    assert!(diagonal(&kept).iter().all(|pair| pair.1 > 9.9), "{:?}", similarity(&kept));
    assert_eq!(kept.warnings, []);
}

/// English has `die`, `frau`, `hat`, `ball`, `in` and `hand` too.
#[test]
fn spice_of_another_language_warns_with_the_share_of_known_words() {
    let rows = [
        (10, 1, "test", "Ein Hund läuft im Gras ."),
        (20, 2, "test", "Die Frau hat einen Ball in der Hand ."),
        (30, 3, "test", "कुत्ता दौड़ रहा है ।"),
    ];
    let host = score_captions(&rows, json!({"measure": {"spice": {}}, "pairs": "on_demand"})).unwrap();
    let messages: Vec<&str> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        messages,
        [
            "the dictionary of the parser, English WordNet, has 6 of 17 words (35 %): φ of captions in another language has \
          no meaning; CIDEr-D needs no dictionary"
        ]
    );
    let english = score_captions(&CAPTIONS, json!({"measure": {"spice": {}}, "pairs": "on_demand"})).unwrap();
    assert_eq!(english.warnings, []);
}

#[test]
fn the_key_of_a_result_names_the_revision_of_its_tokeniser() {
    let revision = |settings: serde_json::Value| {
        let stage = json!({"captions": "pairs.captions", "measure": settings});
        serde_json::from_value::<ScoreCaptions>(stage).unwrap().settings()["tokenizer_revision"].clone()
    };
    assert_eq!(revision(json!({"cider_d": {}})), json!(2));
    assert_eq!(revision(json!({"cider_d": {"tokenizer": "treebank"}})), json!(null));
    assert_eq!(revision(json!({"spice": {}})), json!(null));
}

#[test]
fn unusual_captions_have_a_similarity() {
    let long = "word ".repeat(10_000);
    let rows = [
        (1, 1, "test", ""),
        (2, 1, "test", "dog"),
        (3, 2, "test", "🐕 🎸 👩‍👩‍👧"),
        (4, 2, "test", "كلب على الشاطئ"),
        (5, 3, "test", long.as_str()),
        (6, 4, "test", "\u{0}\u{7f} \u{feff}"),
    ];
    for measure in [json!({"cider_d": {}}), json!({"cider": {"tokenizer": "python3_bytes"}}), json!({"spice": {}})] {
        let host = score_captions(&rows, json!({"measure": measure})).unwrap();
        let rows = similarity(&host);
        assert_eq!(rows.len(), 4);
        assert!(
            rows.iter().flat_map(|row| &row.1).all(|pair| (0.0..=10.0001).contains(&pair.1)),
            "{measure}: {rows:?}"
        );
        assert_eq!(rows[1].1[0].1, 0.0, "an empty caption has similarity 0");
    }
}

#[test]
fn invalid_captions_and_pairs_are_refused_with_their_rows() {
    let refused = |rows: &[CaptionFixture<'_>], settings: serde_json::Value| {
        let error = score_captions(rows, settings).unwrap_err();
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
        error.to_string()
    };
    let measure = json!({"measure": {"cider_d": {}}});
    let twice = [CAPTIONS[0], CAPTIONS[0], (11, 1, "train", "x")];
    let mut both = measure.clone();
    both["measure"]["cider_d"]["document_frequency_split"] = json!("train");
    let message = refused(&twice, both.clone());
    assert!(message.contains("row 1: caption_id 10 is also in row 0"), "{message}");
    assert!(message.contains("row 2: image_id 1 is in split `train` here and in `test` before"), "{message}");
    let message = refused(&CAPTIONS[..5], both);
    assert!(message.contains("no captions of split `train`; there are `test`"), "{message}");
    assert!(refused(&[], measure.clone()).contains("there are no rows at all"));
    let message = refused(&CAPTIONS, json!({"measure": {"cider_d": {"document_count": 1}}}));
    assert!(message.contains('1'), "{message}");

    let mut host = InMemoryHost::default();
    host.input_tables.insert("captions".to_owned(), vec![captions(&CAPTIONS)]);
    host.input_tables.insert("pairs.table".to_owned(), vec![pairs(&[(1, 10), (1, 10), (9, 10), (1, 99), (4, 40)])]);
    let error = run(host, json!({"measure": {"cider_d": {}}, "pairs": {"table": "a.b"}})).unwrap_err();
    assert!(error.hint_text().unwrap().contains("`split = \"train+test\"` scores the captions of both"), "{error}");
    let error = error.to_string();
    for part in [
        "row 2: no image_id 9 in split `test`",
        "row 3: no caption_id 99 in split `test`",
        "row 4: no image_id 4 in split `test`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
}

#[test]
fn settings_without_effect_are_refused() {
    let check = |mut settings: serde_json::Value| {
        settings["captions"] = json!("pairs.captions");
        let stage: ScoreCaptions = serde_json::from_value(settings).unwrap();
        stage.check().into_iter().map(|problem| problem.setting).collect::<Vec<_>>()
    };
    assert_eq!(
        check(json!({"measure": {"cider_d": {"document_count": 0}}, "pairs": {"top": 0}, "split": " "})),
        ["split", "pairs.top", "measure.cider_d.document_count"]
    );
    assert_eq!(check(json!({"measure": {"cider": {"document_count": 1_u64 << 32}}})), ["measure.cider.document_count"]);
    assert_eq!(check(json!({"measure": {"cider": {"uniform": true, "document_count": 3}}})), ["measure.cider"]);
    assert_eq!(check(json!({"measure": {"spice": {"graphs": "a.b"}}, "pairs": "on_demand"})), ["pairs"]);
}
