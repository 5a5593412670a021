//! Tests of evaluations whose scores a model computes: the results are those of stored scores.

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};
use az::SaturatingAs;

use super::run::run_with_checkpoints;
use crate::testing::RunOnHost as _;
use pairloom_base::error::ErrorCategory;
use pairloom_kernels::random::Rng;
use pairloom_registry::AnyStage;
use pairloom_search::MINIMUM_COST;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_spec::stages::train::Train;
use pairloom_stage::{KnownFacts, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;
use pairloom_tables::regions::RegionColumn;

/// Numbers of images and captions; every fifth image is in the split `val`.
const IMAGES: i64 = 300;
const CAPTIONS: i64 = 700;

fn split_of(image: i64) -> &'static str {
    if image % 5 == 4 { "val" } else { "test" }
}

/// Random regions of the images.
fn regions() -> RecordBatch {
    let mut rng = Rng::new(2, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "regions are f32")]
    let values = (0..IMAGES * 2 * 3).map(|_| rng.uniform() as f32 - 0.5).collect();
    let columns = tables::regions::TableColumns {
        image_id: (0..IMAGES).collect::<Vec<_>>().into(),
        split: (0..IMAGES).map(|image| Some(split_of(image))).collect(),
        regions: RegionColumn::new(values, 2, 3).expect("whole images"),
    };
    columns.into_batch().expect("regions")
}

/// Different captions of three to ten words, in another order than their images.
fn captions(split: impl Fn(i64) -> &'static str) -> RecordBatch {
    let mut rng = Rng::new(5, &[]);
    let words = ["a", "dog", "red", "runs", "fast", "on", "grass", "two", "boys", "jump"];
    let image = |caption: i64| caption * 7 % IMAGES;
    let mut text = |caption: usize| {
        let own = [caption / 100, caption / 10 % 10, caption % 10];
        let more: Vec<usize> = (0..rng.uniform_below(8)).map(|_| rng.uniform_below(10)).collect();
        own.iter().chain(&more).map(|&word| words[word]).collect::<Vec<_>>().join(" ")
    };
    let texts: Vec<String> = (0..CAPTIONS.unsigned_abs()).map(|caption| text(caption.saturating_as())).collect();
    let columns = tables::captions::TableColumns {
        caption_id: (0..CAPTIONS).collect::<Vec<_>>().into(),
        image_id: (0..CAPTIONS).map(image).collect::<Vec<_>>().into(),
        split: (0..CAPTIONS).map(|caption| Some(split(image(caption)))).collect(),
        text: texts.iter().map(Some).collect(),
    };
    columns.into_batch().expect("captions")
}

/// Host with a trained model, images and captions.
fn host(model: &str) -> InMemoryHost {
    let text =
        format!("regions = \"x.regions\"\ncaptions = \"x.captions\"\nepochs = 1\nmin_count = 1\nmodel = {{ {model} }}");
    let train: Train = toml::from_str(&text).expect("settings");
    let mut trained = InMemoryHost::default();
    trained.input_tables.insert("regions".to_owned(), vec![regions()]);
    trained.input_tables.insert("captions".to_owned(), vec![captions(|_| "train")]);
    trained.run_stage(&train).expect("a model");
    let mut host = InMemoryHost::default();
    let files = trained.output_files.into_iter();
    host.input_files = files.map(|((_, name), content)| (("model".to_owned(), name), content)).collect();
    host.input_tables.insert("regions".to_owned(), vec![regions().slice(0, 130), regions().slice(130, 170)]);
    host.input_tables.insert("captions".to_owned(), vec![captions(split_of)]);
    host
}

fn copy(host: &InMemoryHost) -> InMemoryHost {
    let mut copy = InMemoryHost::default();
    (copy.input_files, copy.input_tables) = (host.input_files.clone(), host.input_tables.clone());
    copy
}

const INPUTS: &str = "model = \"fit.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"\ndataset = \"made\"";

fn stage(more: &str) -> Evaluate {
    toml::from_str(&format!("{INPUTS}\n{more}")).expect("settings")
}

const METHODS: &str = "methods = [{ nns = {} }, { inverted_softmax = { beta = 20 } }, { csls = { k = 3 } }, \
                       { sinkhorn = { tau = 0.1, iterations = 3 } }]";

/// Results of an evaluation of stored scores of the same model.
fn of_stored_scores(made: &InMemoryHost, more: &str) -> InMemoryHost {
    let text = "model = \"fit.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"";
    let mut scored = copy(made);
    scored.run_stage(&toml::from_str::<ScorePairs>(text).expect("settings")).expect("scores");
    let mut stored = InMemoryHost::default();
    for (input, output) in [("scores", "scores"), ("captions", "scored_captions")] {
        stored.input_tables.insert(input.to_owned(), vec![scored.output(output)]);
    }
    let text = format!("scores = \"pairs.scores\"\ncaptions = \"pairs.scored_captions\"\ndataset = \"made\"\n{more}");
    stored.run_stage(&toml::from_str::<Evaluate>(&text).expect("settings")).expect("stored scores");
    stored
}

/// Scores of each place and metrics are equal up to rounding, for two families and several methods. Ranks too, but for
/// items of nearly the same score.
#[test]
fn a_model_gives_the_results_of_its_stored_scores() {
    for model in
        ["scan = { embed_size = 8, word_dim = 4 }", "sgraf = { embed_size = 8, word_dim = 4, similarity_dim = 4 }"]
    {
        let made = host(model);
        let stored = of_stored_scores(&made, METHODS);
        let mut streamed = copy(&made);
        streamed.run_stage(&stage(METHODS)).expect("a model");
        let (got, expected) = (streamed.output("rankings"), stored.output("rankings"));
        assert_eq!(expected.num_rows(), 4 * (240 + 560), "{model}");
        for column in ["method", "direction", "query_id"] {
            assert_eq!(&got[column], &expected[column], "{column} of {model}");
        }
        let ranks = [&got, &expected].map(|batch| batch["rank"].as_primitive::<Int64Type>().values().to_vec());
        let moved =
            || ranks[0].iter().zip(&ranks[1]).map(|(got, expected)| (got - expected).abs()).filter(|&by| by > 0);
        assert!(moved().all(|by| by <= 3) && moved().count() < 60, "{} ranks of {model}", moved().count());
        let scores = |batch: &RecordBatch| {
            batch["top_scores"].as_list::<i32>().values().as_primitive::<Float32Type>().values().to_vec()
        };
        let (got, expected) = (scores(&got), scores(&expected));
        let largest = got.iter().zip(&expected).map(|(got, expected)| (got - expected).abs()).fold(0.0, f32::max);
        assert!(got.len() == expected.len() && largest < 2e-6, "{largest} of {model}");
        let values =
            |host: &InMemoryHost| host.output("metrics")["value"].as_primitive::<Float64Type>().values().to_vec();
        if moved().count() == 0 {
            for (got, expected) in values(&streamed).iter().zip(values(&stored)) {
                assert!(
                    (got - expected).abs() < 1e-6 || got.is_nan() && expected.is_nan(),
                    "{got} and {expected} of {model}"
                );
            }
        }
    }
}

/// A cancelled evaluation goes on from its checkpoints to the same bits.
#[test]
fn a_killed_evaluation_of_a_model_goes_on_to_the_same_bits() {
    let made = host("scan = { embed_size = 8, word_dim = 4 }");
    let stage = stage("methods = [{ nns = {} }, { csls = { k = 3 } }]");
    let mut plain = copy(&made);
    run_with_checkpoints(&stage, &mut plain, MINIMUM_COST).expect("a model");
    let mut whole = copy(&made);
    run_with_checkpoints(&stage, &mut whole, 1).expect("a model");
    assert!(plain.n_cached == 0 && whole.n_cached > 6, "{}", whole.n_cached);
    for cut in [1, 4] {
        let mut first = copy(&made);
        first.cancel_after_cache = Some(cut);
        let error = run_with_checkpoints(&stage, &mut first, 1).expect_err("cancelled");
        assert_eq!(error.category(), ErrorCategory::Interrupted);
        let mut second = copy(&made);
        second.cached = first.cached;
        run_with_checkpoints(&stage, &mut second, 1).expect("a model");
        assert!(second.n_cached <= whole.n_cached - cut + 1, "{} of {}", second.n_cached, whole.n_cached);
        for table in ["rankings", "hubs", "metrics", "summary"] {
            assert!(second.output(table) == plain.output(table), "{table}, cut {cut}");
        }
    }
    // Another model has other checkpoints.
    let mut other = host("scan = { embed_size = 8, word_dim = 5 }");
    other.cached = whole.cached;
    run_with_checkpoints(&stage, &mut other, 1).expect("a model");
    assert_eq!(other.n_cached, whole.n_cached);
}

/// Relevant pairs that are no matches have scores too, and `best_of` scores another split of the same tables.
#[test]
fn judged_pairs_and_a_validation_split_are_scored_by_the_model() {
    let mut made = host("scan = { embed_size = 8, word_dim = 4 }");
    let judged: Vec<[i64; 2]> = (0..60).map(|number| [number * 5, number * 11]).collect();
    let columns = tables::qrels::TableColumns {
        query_id: judged.iter().map(|pair| pair[0]).collect::<Vec<_>>().into(),
        item_id: judged.iter().map(|pair| pair[1]).collect::<Vec<_>>().into(),
        direction: judged.iter().map(|_| Some("i2t")).collect(),
        grade: judged.iter().map(|_| 1.0).collect::<Vec<_>>().into(),
    };
    made.input_tables.insert("relevance.0.qrels".to_owned(), vec![columns.into_batch().expect("judgements")]);
    let more = "validation_split = \"val\"\nrelevance = [{ name = \"judged\", qrels = \"j.qrels\" }]\n\
                methods = [{ best_of = { methods = [{ nns = {} }, { csls = { k = 3 } }] } }]";
    let mut streamed = copy(&made);
    streamed.run_stage(&stage(more)).expect("a model");
    let metrics = streamed.output("metrics");
    let (names, values) = (metrics["relevance"].as_string::<i32>(), metrics["value"].as_primitive::<Float64Type>());
    let judged = (0..metrics.num_rows()).filter(|&row| names.is_valid(row) && names.value(row) == "judged");
    assert!(judged.clone().count() > 0 && judged.clone().all(|row| values.value(row).is_finite()));
    assert_eq!(streamed.output("summary").num_rows(), 1);
}

/// Wrong images, captions and splits are errors that name them.
#[test]
fn wrong_inputs_of_a_model_are_named() {
    let made = host("scan = { embed_size = 8, word_dim = 4 }");
    let fails = |host: &mut InMemoryHost, more: &str| host.run_stage(&stage(more)).expect_err("a mistake").to_string();
    assert_eq!(fails(&mut copy(&made), "split = \"dev\""), "no image of split `dev` in `x.regions`");
    let with_image = |values: Vec<f32>, width: usize| {
        let columns = tables::regions::TableColumns {
            image_id: vec![1i64].into(),
            split: std::iter::once(Some("test")).collect(),
            regions: RegionColumn::new(values, 2, width).expect("an image"),
        };
        let mut host = copy(&made);
        host.input_tables.insert("regions".to_owned(), vec![columns.into_batch().expect("regions")]);
        host
    };
    let wide = fails(&mut with_image(vec![0.5; 8], 4), "");
    assert_eq!(wide, "`x.regions` has vectors of 4 values, the model was trained on 3");
    let empty = fails(&mut with_image(vec![0.0; 6], 3), "");
    assert_eq!(empty, "image 1 of `x.regions` has no region: all its values are 0");
    let mut twice = copy(&made);
    twice.input_tables.get_mut("captions").expect("captions").push(captions(split_of).slice(0, 1));
    assert_eq!(fails(&mut twice, ""), "caption 0 appears twice");
}

/// Settings and methods that do not fit a model are refused when the file is checked.
#[test]
fn methods_that_need_kept_scores_are_refused() {
    let problems = |text: &str| -> Vec<(String, String)> {
        let stage: Evaluate = toml::from_str(text).expect("settings");
        stage.check().into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let refused = |more: &str| problems(&format!("{INPUTS}\n{more}")).into_iter().map(|(at, _)| at).collect::<Vec<_>>();
    assert_eq!(refused(METHODS), [""; 0]);
    let methods = "methods = [{ local_scaling = {} }, { mutual_proximity = {} }, { qb_norm = {} }, { relaxed_greedy = {} }, \
                   { assignment = {} }, { dis_sim_local = {} }, { nnn = {} }, { dual_softmax = {} }]";
    let expected = [
        "methods.0.local_scaling",
        "methods.1.mutual_proximity",
        "methods.2.qb_norm",
        "methods.3.relaxed_greedy",
        "methods.4.assignment",
        "methods.5.dis_sim_local",
        "methods.6.nnn",
        "methods.7.dual_softmax",
    ];
    assert_eq!(refused(methods), expected);
    assert_eq!(
        refused("query_bank = { images = \"a.image_embeddings\", captions = \"a.caption_embeddings\" }"),
        ["query_bank"]
    );
    assert_eq!(refused("similarity = { order = {} }"), ["similarity"]);
    assert_eq!(refused("images = \"a.image_embeddings\""), ["images"]);
    assert_eq!(refused("features = \"a.features\""), ["regions"]);
    assert_eq!(refused("scores = \"a.scores\""), ["model", "regions"]);
    let without = "captions = \"x.captions\"\ndataset = \"made\"\nmodel = \"fit.model\"";
    assert_eq!(problems(without)[0].0, "features");

    // A model that reads features is not for regions.
    let read = |text: &str| toml::from_str::<AnyStage>(text).expect("a stage");
    let train = read("[train]\nfeatures = \"x.features\"\ncaptions = \"x.captions\"\nepochs = 1");
    let evaluate = read(&format!("[evaluate]\n{INPUTS}"));
    let mut known = KnownFacts::default();
    known.add("fit", &train);
    let found = evaluate.check_inputs(&known);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].setting, "regions");
}
