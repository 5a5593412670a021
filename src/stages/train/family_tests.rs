//! `train`, `embed` and `evaluate` with a family whose score is no inner product of two vectors: it learns, resumes to the bit,
//! validates, is evaluated, and what the family cannot do is refused.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::Train;
use super::tests::{description, world};
use crate::retrieval::Method;
use crate::retrieval::methods::{Given, ScoreKind};
use crate::stage::Stage;
use crate::stages::embed::Embed;
use crate::stages::evaluate::Evaluate;
use crate::stages::testing::{self, MemoryWorld};
use crate::tables;

fn stage(more: &str) -> Train {
    let text = format!(
        "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch = 16\nmodel = {{ late = {{}} }}\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// Eight images of which no two are alike: chance gives about 12 + 60 + 100 in either direction.
#[test]
fn a_family_of_sets_learns_what_there_is_to_learn() {
    let stage = stage("epochs = 40\nloss = { sum = {} }");
    assert_eq!(stage.check(), []);
    let mut world = world();
    world.run(&stage).expect("a training");
    assert!(description(&world).rsum.expect("a validation split") > 500.0, "{:?}", description(&world).rsum);
    let history = world.output("history");
    let losses = history["loss"].as_primitive::<Float64Type>().values();
    let mean = |range: std::ops::Range<usize>| losses[range].iter().sum::<f64>() / 5.0;
    assert!(mean(195..200) < 0.5 * mean(0..5), "{} to {}", mean(0..5), mean(195..200));

    // 200 steps, each with both losses by their names.
    let auxiliary = world.output("auxiliary_losses");
    assert!(auxiliary["step"].as_primitive::<Int64Type>().values().iter().copied().eq((0..400).map(|row| row / 2)));
    let names = auxiliary["name"].as_string::<i32>();
    assert!((0..400).all(|row| names.value(row) == ["word_norm", "image_spread"][row % 2]));
    let values = auxiliary["value"].as_primitive::<Float64Type>().values();
    assert!(values[399] < 0.8 * values[1], "the spread of images is pushed down: {} to {}", values[1], values[399]);
}

#[test]
fn a_resumed_training_of_a_family_of_sets_is_the_same_to_the_bit() {
    let stage = stage("epochs = 3\ncheckpoint_steps = 2");
    let tables = ["history", "auxiliary_losses", "validation"];
    assert!(testing::resumed_wherever_it_is_cut(&stage, world, &tables) > 4);
}

#[test]
fn what_a_family_cannot_do_is_refused_when_the_file_is_checked() {
    let refused = |more: &str| -> Vec<(String, String)> {
        let problems = stage(&format!("epochs = 2\n{more}")).check();
        problems.into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let bank = refused("loss = { hal = {} }\nbank = {}");
    let wanted = "a model of `late` has no score that follows from one vector of each side";
    assert_eq!(bank, [("bank".to_owned(), wanted.to_owned())]);
    let names = |more: &str| refused(more).into_iter().map(|(setting, _)| setting).collect::<Vec<_>>();
    assert_eq!(names("precision = \"mixed\""), ["precision"]);
    let narrow = Train {
        model: serde_json::from_value(serde_json::json!({"late": {"width": 0}})).unwrap(),
        ..stage("epochs = 1")
    };
    assert_eq!(narrow.check()[0].setting, "model.late.width");
}

/// The inputs of an evaluation of the model that was trained in `trained`, under `inputs`; the first half of the validation
/// split is the test.
fn world_of(trained: &MemoryWorld, inputs: [&str; 3]) -> MemoryWorld {
    let mut world = MemoryWorld::default();
    let [model, features, captions] = inputs;
    let files = trained.put.iter().map(|((_, name), content)| ((model.to_owned(), name.clone()), content.clone()));
    world.files = files.collect();
    let split = |image: i64| if image < 40 { "train" } else { ["test", "val"][usize::from(image >= 44)] };
    for (input, table) in [(features, "features"), (captions, "captions")] {
        world.tables.insert(input.to_owned(), with_splits(&trained.tables[table], split));
    }
    world
}

/// The same rows, in the splits that their images are in.
fn with_splits(batches: &[RecordBatch], split: impl Fn(i64) -> &'static str) -> Vec<RecordBatch> {
    let batch = |batch: &RecordBatch| {
        let images = tables::ids(batch, "image_id").expect("a column").values();
        let splits = StringArray::from_iter_values(images.iter().map(|&image| split(image)));
        let at = batch.schema().index_of("split").expect("a column");
        let mut columns = batch.columns().to_vec();
        columns[at] = Arc::new(splits);
        tables::batch(&batch.schema(), columns).expect("the same columns")
    };
    batches.iter().map(batch).collect()
}

const SCORED: [&str; 3] = ["scores.model", "scores.features", "scores.captions"];

fn scored(more: &str) -> Evaluate {
    let scores = "scores = { model = \"fit.model\", features = \"x.features\", captions = \"x.captions\" }";
    toml::from_str(&format!("{scores}\ndataset = \"made\"\n{more}")).expect("settings of an evaluation")
}

/// Queries and the items that they found.
fn ranks(world: &MemoryWorld) -> Vec<(i64, Vec<i64>)> {
    let rankings = world.output("rankings");
    let lists = rankings["top_ids"].as_list::<i32>();
    let list = |row: usize| lists.value(row).as_primitive::<Int64Type>().values().to_vec();
    let queries = rankings["query_id"].as_primitive::<Int64Type>();
    (0..rankings.num_rows()).map(|row| (queries.value(row), list(row))).collect()
}

/// On the split that a training chose its best epoch by, `evaluate` finds what the training found.
#[test]
fn a_family_of_sets_is_evaluated_as_its_training_validated_it() {
    let mut trained = world();
    trained.run(&stage("epochs = 10\nloss = { sum = {} }")).expect("a training");
    let mut world = world_of(&trained, SCORED);
    for (input, table) in [("scores.features", "features"), ("scores.captions", "captions")] {
        let split = |image: i64| if image < 40 { "train" } else { "val" };
        world.tables.insert(input.to_owned(), with_splits(&trained.tables[table], split));
    }
    world.run(&scored("split = \"val\"")).expect("an evaluation");
    let summary = world.output("summary");
    let rsum = summary["rsum"].as_primitive::<Float64Type>().value(0);
    assert_eq!(Some(rsum), description(&trained).rsum);
    assert_eq!(ranks(&world).len(), 8 + 16);
}

/// A model whose scores are cosines is evaluated by its scores as by its vectors.
#[test]
fn the_scores_of_a_model_rank_as_its_vectors_do() {
    let mut trained = world();
    trained.run(&super::tests::stage("epochs = 5")).expect("a training");
    let embed: Embed = toml::from_str("model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"")
        .expect("settings");
    let mut embedded = world_of(&trained, ["model", "features", "captions"]);
    embedded.run(&embed).expect("embeddings");
    let methods = "validation = \"val\"\nmethods = [{ nns = {} }, { csls = { k = 3 } }, { best_of = { methods = \
                   [{ inverted_softmax = { beta = 5.0 } }, { inverted_softmax = { beta = 50.0 } }] } }]";
    let vectors = "images = \"v.image_embeddings\"\ncaptions = \"v.caption_embeddings\"\ndataset = \"made\"";
    let by_vectors: Evaluate = toml::from_str(&format!("{vectors}\n{methods}")).expect("settings of an evaluation");
    let mut of_vectors = MemoryWorld::default();
    for (input, table) in [("images", "image_embeddings"), ("captions", "caption_embeddings")] {
        of_vectors.tables.insert(input.to_owned(), vec![embedded.output(table)]);
    }
    of_vectors.run(&by_vectors).expect("an evaluation");
    let mut of_scores = world_of(&trained, SCORED);
    of_scores.run(&scored(methods)).expect("an evaluation");
    assert_eq!(ranks(&of_scores), ranks(&of_vectors));
    assert_eq!(ranks(&of_scores).len(), 3 * (4 + 8));
}

/// Methods that want more than scores are refused when the file is checked, and no others fail.
#[test]
fn methods_that_want_more_than_scores_are_refused_when_the_file_is_checked() {
    let mut trained = world();
    trained.run(&stage("epochs = 1")).expect("a training");
    let given = Given { bank: false, validation: false, scores: ScoreKind::Model };
    let mut refused = 0;
    for method in Method::samples() {
        let stage = Evaluate { methods: vec![method.clone()], ..scored("") };
        assert_eq!(stage.check().is_empty(), method.problems("", given).is_empty());
        let done = world_of(&trained, SCORED).run(&stage);
        assert_eq!(done.is_ok(), stage.check().is_empty(), "{method:?}: {done:?}");
        refused += usize::from(done.is_err());
    }
    assert!(refused > 4);
}

#[test]
fn a_family_of_sets_has_no_embeddings_and_scores_have_no_bank() {
    let mut trained = world();
    trained.run(&stage("epochs = 1")).expect("a training");
    let embed: Embed = toml::from_str("model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"")
        .expect("settings");
    let mut world = world_of(&trained, ["model", "features", "captions"]);
    let error = world.run(&embed).expect_err("sets of vectors");
    assert!(error.to_string().starts_with("the scores of this model do not follow from one vector"), "{error}");
    assert!(world.written.is_empty());

    let names = |stage: &Evaluate| stage.check().into_iter().map(|problem| problem.setting).collect::<Vec<_>>();
    let more = "images = \"v.image_embeddings\"\nbank = { memory = \"fit.memory_bank\" }\nsimilarity = { order = {} }";
    assert_eq!(names(&scored(more)), ["images", "bank", "similarity"]);
    assert_eq!(names(&Evaluate { scores: None, ..scored("") }), ["images", "captions"]);
    let mut twice = world_of(&trained, SCORED);
    let captions = twice.tables["scores.captions"][0].slice(80, 1);
    twice.tables.get_mut("scores.captions").expect("captions").push(captions);
    let error = twice.run(&scored("")).expect_err("a caption twice").to_string();
    assert_eq!(error, "caption 80 stands there twice");
    let error = world_of(&trained, SCORED).run(&scored("split = \"dev\"")).expect_err("no such split").to_string();
    assert_eq!(error, "no rows of split `dev` in `scores.features`; there are `test`, `train`, `val`");
}
