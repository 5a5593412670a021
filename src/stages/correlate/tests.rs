//! Tests of `correlate` in memory: hand-computed cases and bad input.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::{Correlate, PairSet, Score};
use pairloom_stage::{Stage, TableRef};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

const OTHER: &str = "c2i_intrasim";
const OWN: &str = "c2i_original";

fn table(name: &str) -> TableRef {
    TableRef::try_from(format!("s.{name}")).expect("a table's name")
}

fn by_sampling(name: &str) -> Score {
    Score { name: name.to_owned(), similarity: None, sampling: Some(OWN.to_owned()), published: BTreeMap::new() }
}

fn by_similarity(name: &str) -> Score {
    Score { similarity: Some(table("caption_similarity")), sampling: None, ..by_sampling(name) }
}

fn stage(scores: Vec<Score>) -> Correlate {
    let pairs = [("non_gt".to_owned(), PairSet { sampling: OTHER.to_owned() })].into();
    Correlate { ratings: table("ratings"), scores, pairs }
}

/// Rows of `ratings`: caption, image, rating, sampling.
fn ratings(rows: &[(i64, i64, f64, &str)]) -> RecordBatch {
    let columns = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.0))) as ArrayRef,
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| row.1))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.3))),
        Arc::new(StringArray::from(vec![None::<&str>; rows.len()])),
    ];
    tables::batch(&tables::ratings::table().schema(), columns).expect("columns fit")
}

/// Rows of `caption_similarity`: image, and its captions with φ.
fn similarity(rows: &[(i64, &[(i64, f32)])]) -> RecordBatch {
    let pairs = || rows.iter().flat_map(|row| row.1.iter().copied());
    let lengths: Vec<usize> = rows.iter().map(|row| row.1.len()).collect();
    let image_ids = rows.iter().map(|row| row.0).collect();
    let (caption_ids, phi) = (pairs().map(|pair| pair.0).collect(), pairs().map(|pair| pair.1).collect());
    tables::caption_similarity::batch(image_ids, &lengths, caption_ids, phi, "cider_d", "ptb").expect("columns fit")
}

fn host(rated: &[(i64, i64, f64, &str)], phi: &[RecordBatch]) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let rated = ratings(rated);
    let middle = rated.num_rows() / 2;
    let halves = vec![rated.slice(0, middle), rated.slice(middle, rated.num_rows() - middle)];
    host.input_tables.insert("ratings".to_owned(), halves);
    for number in 0..3 {
        host.input_tables.insert(format!("scores.{number}.similarity"), phi.to_vec());
    }
    host
}

/// Map from (score, pairs) to the number of ratings, the four coefficients and the published value.
type CorrelationRows = BTreeMap<(String, String), (i64, [f64; 4], Option<f64>)>;

fn correlation_rows(host: &InMemoryHost) -> CorrelationRows {
    let batch = host.output("correlations");
    let text = |name: &str, row: usize| batch[name].as_string::<i32>().value(row).to_owned();
    let number = |name: &str, row: usize| batch[name].as_primitive::<Float64Type>().value(row);
    (0..batch.num_rows())
        .map(|row| {
            let coefficients = ["pearson", "spearman", "kendall_b", "kendall_c"].map(|name| number(name, row));
            let published = batch["published"].is_valid(row).then(|| number("published", row));
            let n = batch["n_ratings"].as_primitive::<Int64Type>().value(row);
            ((text("score", row), text("pairs", row)), (n, coefficients, published))
        })
        .collect()
}

const RATED: [(i64, i64, f64, &str); 5] =
    [(1, 10, 5.0, OWN), (2, 10, 2.0, OTHER), (3, 11, 4.0, OWN), (1, 11, 1.0, OTHER), (3, 10, 3.0, OTHER)];

/// Table of φ. For image 10, captions 2, 1 and 3 have φ 1, 2 and 3. For image 11, in two rows, captions 1 and 3 have
/// φ 0 and 4.
fn phi() -> Vec<RecordBatch> {
    let nan = f32::NAN;
    vec![
        similarity(&[(11, &[(1, 0.0), (9, nan)]), (12, &[(1, nan)]), (10, &[(2, 1.0), (1, 2.0), (3, 3.0)])]),
        similarity(&[(11, &[(3, 4.0)])]),
    ]
}

#[test]
fn coefficients_of_five_rated_pairs() {
    let mut host = host(&RATED, &phi());
    let published = [("all".to_owned(), 0.7), ("non_gt".to_owned(), -0.2)].into();
    let stage = stage(vec![by_sampling("own"), Score { published, ..by_similarity("phi") }]);
    assert_eq!(stage.check(), []);
    host.input_tables.remove("scores.0.similarity");
    host.run(&stage).expect("the input is fine");
    let rows = correlation_rows(&host);
    let get = |score: &str, pairs: &str| rows[&(score.to_owned(), pairs.to_owned())];
    let close = |got: f64, expected: f64| assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");

    // Ratings 5 2 4 1 3, mean 3; φ 2 1 4 0 3, mean 2. Products 0 1 2 4 0 = 7; squares 4 1 1 4 0 = 10 and 0 1 4 4 1 =
    // 10.
    let (n, [pearson, spearman, tau_b, tau_c], published) = get("phi", "all");
    assert_eq!((n, published), (5, Some(0.7)));
    close(pearson, 0.7);
    close(spearman, 0.7);
    // Of ten pairs of pairs two are discordant: (5, 2) with (4, 4), and with (3, 3).
    close(tau_b, 0.6);
    close(tau_c, 0.6);
    // Pairs without the images' own captions: ratings 2 1 3, φ 1 0 3.
    let (n, [pearson, spearman, ..], published) = get("phi", "non_gt");
    assert_eq!((n, published), (3, Some(-0.2)));
    close(pearson, 3.0 / (2.0f64 * 14.0 / 3.0).sqrt());
    close(spearman, 1.0);
    // 1 0 1 0 0 with 5 2 4 1 3: deviations .6 −.4 .6 −.4 −.4, products 1.2 .4 .6 .8 0 = 3; squares 1.2 and 10.
    let (_, [pearson, ..], published) = get("own", "all");
    close(pearson, 3.0 / 12f64.sqrt());
    assert_eq!(published, None);
    // All other pairs score 0: no correlation, and a warning.
    assert_eq!(get("own", "non_gt"), (3, [0.0; 4], None));
    let messages: Vec<String> = host.warnings.iter().map(|w| format!("{}: {}", w.subject, w.message)).collect();
    assert_eq!(messages, ["score `own`: is 0 for all of `non_gt`: its correlation is set to 0"]);
}

/// Three people rated each of four pairs, as in Flickr8k-Expert: each rating counts. The coefficients are those of scipy
/// 1.17.1, `pearsonr`, `spearmanr` and `kendalltau` with `variant` b and c, of the twelve ratings with φ of their pairs.
#[test]
fn every_rating_of_a_pair_counts() {
    let rated =
        [(1, 10, [4.0, 4.0, 3.0]), (2, 10, [1.0, 2.0, 1.0]), (3, 10, [2.0, 4.0, 3.0]), (3, 11, [4.0, 2.0, 1.0])];
    // The rows of a pair need not be beside each other.
    let rows: Vec<(i64, i64, f64, &str)> = (0..3)
        .flat_map(|person| rated.map(|(caption, image, ratings)| (caption, image, ratings[person], OTHER)))
        .collect();
    let mut host = host(&rows, &phi());
    host.run(&stage(vec![by_similarity("phi")])).expect("the input is fine");
    let (n, got, _) = correlation_rows(&host)[&("phi".to_owned(), "all".to_owned())];
    assert_eq!((n, host.output("correlations")["n_pairs"].as_primitive::<Int64Type>().value(0)), (12, 4));
    for (got, expected) in
        got.into_iter().zip([0.219_717_687_201_020_58, 0.223_467_174_384_663_62, 0.168_231_646_227_613_27, 1.0 / 6.0])
    {
        assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
    }
}

#[test]
fn rated_pairs_without_a_similarity_are_named() {
    let fail = |rated: &[(i64, i64, f64, &str)], phi: &[RecordBatch]| {
        host(rated, phi).run(&stage(vec![by_similarity("phi")])).expect_err("the input is wrong").to_string()
    };
    assert_eq!(
        fail(&RATED, &phi()[..1]),
        "`scores.0.similarity` lacks 1 of 5 rated pairs: caption_id 3 with image_id 11"
    );
    let twice = [phi(), vec![similarity(&[(10, &[(2, f32::INFINITY)])])]].concat();
    assert_eq!(
        fail(&RATED, &twice),
        "`scores.0.similarity` cannot be used: caption_id 2 with image_id 10: φ is inf, expected a finite number; \
         caption_id 2 with image_id 10: φ appears twice"
    );
    let many: Vec<(i64, i64, f64, &str)> =
        (0..30u32).map(|i| (i64::from(i), 10, f64::from(i), if i % 2 == 0 { OWN } else { OTHER })).collect();
    let got = fail(&many, &phi());
    assert!(got.contains("lacks 27 of 30 rated pairs: caption_id 0 with") && got.ends_with("; and 7 more"), "{got}");

    let bad = [(1, 10, 5.0, OWN), (2, 10, f64::NAN, OTHER)];
    assert_eq!(fail(&bad, &phi()), "`ratings` cannot be used: row 1: the rating is NaN, expected a finite number");
    assert!(fail(&[], &phi()).contains("has no rows"));
    let same = [(1, 10, 5.0, OWN), (2, 10, 5.0, OTHER)];
    assert!(fail(&same, &phi()).contains("all ratings of `all` (2) are the same"));
    let own = [(1, 10, 5.0, OWN), (3, 10, 4.0, OWN)];
    assert_eq!(
        fail(&own, &phi()),
        "`pairs.non_gt`: no pair of `ratings` has the sampling `c2i_intrasim`; there are `c2i_original`"
    );
}

#[test]
fn bad_settings_are_named_by_their_place() {
    let messages = |stage: &Correlate| -> Vec<String> {
        stage.check().iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    };
    assert_eq!(messages(&stage(vec![])), ["scores: got an empty list, expected at least one score"]);
    let both = Score { sampling: Some(OWN.to_owned()), ..by_similarity("both") };
    let none = Score { similarity: None, ..by_similarity(" ") };
    let published = [("nongt".to_owned(), 1.0), ("all".to_owned(), 1.0)].into();
    let mut wrong = stage(vec![both, none, Score { published, ..by_sampling("both") }]);
    wrong.pairs.insert("all".to_owned(), PairSet { sampling: OWN.to_owned() });
    assert_eq!(
        messages(&wrong),
        [
            "pairs.all: `all` is reserved for all rated pairs",
            "scores.0: has both `similarity` and `sampling`, expected one",
            "scores.1.name: got an empty name",
            "scores.1: has neither `similarity` nor `sampling`",
            "scores.2.name: the name `both` appears twice",
            "scores.2.published.nongt: `nongt` is no set of pairs; there are `all`, `non_gt`",
        ]
    );
}
