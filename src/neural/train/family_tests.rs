//! Tests of `train`, `embed` and `evaluate` with a late-interaction family, whose score is not a function of one vector
//! per item: learning, resuming bit for bit, validation, evaluation, and refusal of unsupported settings.

use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch, StringArray};
use arrow::compute::concat_batches;
use arrow::datatypes::{Float64Type, Int64Type};

use super::testing::{description, host};
use crate::testing::RunOnHost as _;
use pairloom_retrieval::Method;
use pairloom_retrieval::methods::{MethodContext, ScoreKind};
use pairloom_spec::stages::embed::Embed;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_spec::stages::train::Train;
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_tables as tables;

fn stage(more: &str) -> Train {
    let text = format!(
        "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch_size = 16\nmodel = {{ late = {{}} }}\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// Eight distinct images: the expectation of a random order is about 12 + 60 + 100 in each direction.
#[test]
fn a_late_interaction_model_learns_the_toy_data_set() {
    let stage = stage("epochs = 40\nloss = { sum = {} }");
    assert_eq!(stage.check(), []);
    let mut host = host();
    host.run_stage(&stage).expect("a training");
    assert!(description(&host).rsum.expect("a validation split") > 500.0, "{:?}", description(&host).rsum);
    let history = host.output("history");
    let losses = history["loss"].as_primitive::<Float64Type>().values();
    let mean = |range: std::ops::Range<usize>| losses[range].iter().sum::<f64>() / 5.0;
    assert!(mean(195..200) < 0.5 * mean(0..5), "{} to {}", mean(0..5), mean(195..200));

    // 200 steps, each with both auxiliary losses.
    let auxiliary = host.output("auxiliary_losses");
    assert!(auxiliary["step"].as_primitive::<Int64Type>().values().iter().copied().eq((0..400).map(|row| row / 2)));
    let names = auxiliary["name"].as_string::<i32>();
    assert!((0..400).all(|row| names.value(row) == ["word_norm", "image_spread"][row % 2]));
    let values = auxiliary["value"].as_primitive::<Float64Type>().values();
    assert!(values[399] < 0.8 * values[1], "the auxiliary loss `image_spread` falls: {} to {}", values[1], values[399]);
}

#[test]
fn a_resumed_training_of_a_late_interaction_model_is_identical_bit_for_bit() {
    let stage = stage("epochs = 3\ncheckpoint_steps = 2");
    let tables = ["history", "auxiliary_losses", "validation"];
    assert!(stage_testing::check_resume_after_every_save(|host| host.run_stage(&stage), host, &tables) > 4);
}

#[test]
fn settings_that_a_family_does_not_support_are_refused_by_check() {
    let refused = |more: &str| -> Vec<(String, String)> {
        let problems = stage(&format!("epochs = 2\n{more}")).check();
        problems.into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let bank = refused("loss = { hal = {} }\nmemory_bank = {}");
    let expected = "a model of `late` has no similarity of one vector per item";
    assert_eq!(bank, [("memory_bank".to_owned(), expected.to_owned())]);
    let names = |more: &str| refused(more).into_iter().map(|(setting, _)| setting).collect::<Vec<_>>();
    assert_eq!(names("precision = \"mixed\""), ["precision"]);
    let narrow = Train {
        model: serde_json::from_value(serde_json::json!({"late": {"width": 0}})).unwrap(),
        ..stage("epochs = 1")
    };
    assert_eq!(narrow.check()[0].setting, "model.late.width");
}

/// Host for an evaluation of the model that `trained` wrote, with the input names `inputs`. The first half of the
/// validation split becomes the test split.
fn evaluation_host(trained: &InMemoryHost, inputs: [&str; 3]) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let [model, features, captions] = inputs;
    let files =
        trained.output_files.iter().map(|((_, name), content)| ((model.to_owned(), name.clone()), content.clone()));
    host.input_files = files.collect();
    let split = |image: i64| if image < 40 { "train" } else { ["test", "val"][usize::from(image >= 44)] };
    for (input, table) in [(features, "features"), (captions, "captions")] {
        host.input_tables.insert(input.to_owned(), with_splits(&trained.input_tables[table], split));
    }
    host
}

/// The same rows, in the split `split(image_id)`.
fn with_splits(batches: &[RecordBatch], split: impl Fn(i64) -> &'static str) -> Vec<RecordBatch> {
    let batch = |batch: &RecordBatch| {
        let images = tables::int_column(batch, "image_id").expect("a column").values();
        let splits = StringArray::from_iter_values(images.iter().map(|&image| split(image)));
        let at = batch.schema().index_of("split").expect("a column");
        let mut columns = batch.columns().to_vec();
        columns[at] = Arc::new(splits);
        tables::batch(&batch.schema(), columns).expect("the same columns")
    };
    batches.iter().map(batch).collect()
}

/// Host for an evaluation of the scores of the splits `test` and `val`.
fn scored_host(trained: &InMemoryHost) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    for (split, prefix) in [("test", ""), ("val", "validation.")] {
        let text = "model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"";
        let stage: ScorePairs = toml::from_str(&format!("{text}\nsplit = \"{split}\"")).expect("settings");
        let mut scored = evaluation_host(trained, ["model", "features", "captions"]);
        scored.run_stage(&stage).expect("scores");
        for (input, table) in [("scores", "scores"), ("captions", "scored_captions")] {
            host.input_tables.insert(format!("{prefix}{input}"), vec![scored.output(table)]);
        }
    }
    host
}

fn evaluate_scores(more: &str) -> Evaluate {
    let scores = "scores = \"p.scores\"\ncaptions = \"p.scored_captions\"\ndataset = \"made\"";
    toml::from_str(&format!("{scores}\n{more}")).expect("settings of an evaluation")
}

/// Every query with its retrieved items.
fn retrieved(host: &InMemoryHost) -> Vec<(i64, Vec<i64>)> {
    let rankings = host.output("rankings");
    let lists = rankings["top_ids"].as_list::<i32>();
    let list = |row: usize| lists.value(row).as_primitive::<Int64Type>().values().to_vec();
    let queries = rankings["query_id"].as_primitive::<Int64Type>();
    (0..rankings.num_rows()).map(|row| (queries.value(row), list(row))).collect()
}

/// On the validation split, `evaluate` has the rsum of the training's own validation.
#[test]
fn evaluating_a_late_interaction_model_reproduces_its_validation() {
    let mut trained = host();
    trained.run_stage(&stage("epochs = 10\nloss = { sum = {} }")).expect("a training");
    let mut of_val = evaluation_host(&trained, ["model", "features", "captions"]);
    let split = |image: i64| if image < 40 { "train" } else { "val" };
    for table in ["features", "captions"] {
        of_val.input_tables.insert(table.to_owned(), with_splits(&trained.input_tables[table], split));
    }
    let text = "model = \"f.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"\nsplit = \"val\"";
    of_val.run_stage(&toml::from_str::<ScorePairs>(text).expect("settings")).expect("scores");
    let mut host = InMemoryHost::default();
    host.input_tables.insert("scores".to_owned(), vec![of_val.output("scores")]);
    host.input_tables.insert("captions".to_owned(), vec![of_val.output("scored_captions")]);
    host.run_stage(&evaluate_scores("split = \"val\"")).expect("an evaluation");
    let summary = host.output("summary");
    let rsum = summary["rsum"].as_primitive::<Float64Type>().value(0);
    assert_eq!(Some(rsum), description(&trained).rsum);
    assert_eq!(retrieved(&host).len(), 8 + 16);
}

/// Host of a training of a model that scores by cosine, and host of its embeddings.
fn trained_and_embedded() -> (InMemoryHost, InMemoryHost) {
    let mut trained = host();
    trained.run_stage(&super::testing::stage("epochs = 5")).expect("a training");
    let embed: Embed = toml::from_str("model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"")
        .expect("settings");
    let mut embedded = evaluation_host(&trained, ["model", "features", "captions"]);
    embedded.run_stage(&embed).expect("embeddings");
    (trained, embedded)
}

#[test]
fn evaluating_scores_of_a_model_equals_evaluating_its_embeddings() {
    let (trained, embedded) = trained_and_embedded();
    let methods = "validation_split = \"val\"\nmethods = [{ nns = {} }, { csls = { k = 3 } }, { best_of = { methods = \
                   [{ inverted_softmax = { beta = 5.0 } }, { inverted_softmax = { beta = 50.0 } }] } }]";
    let vectors = "images = \"v.image_embeddings\"\ncaptions = \"v.caption_embeddings\"\ndataset = \"made\"";
    let by_vectors: Evaluate = toml::from_str(&format!("{vectors}\n{methods}")).expect("settings of an evaluation");
    let mut of_vectors = InMemoryHost::default();
    for (input, table) in [("images", "image_embeddings"), ("captions", "caption_embeddings")] {
        of_vectors.input_tables.insert(input.to_owned(), vec![embedded.output(table)]);
    }
    of_vectors.run_stage(&by_vectors).expect("an evaluation");
    let mut of_scores = scored_host(&trained);
    let validation = "validation = { scores = \"v.scores\", captions = \"v.scored_captions\" }";
    of_scores.run_stage(&evaluate_scores(&format!("{validation}\n{methods}"))).expect("an evaluation");
    assert_eq!(retrieved(&of_scores), retrieved(&of_vectors));
    assert_eq!(retrieved(&of_scores).len(), 3 * (4 + 8));
}

/// The same rankings from a query bank of scores, which `score_pairs` computes across splits, as from one of embeddings.
#[test]
fn a_query_bank_of_scores_equals_one_of_embeddings() {
    let (trained, embedded) = trained_and_embedded();
    let methods = "methods = [{ nnn = { k = 3 } }, { csls = { k = 3, query_bank = true } }, { qb_norm = {} }, \
                   { inverted_softmax = { beta = 20.0, query_bank = true } }, { distribution_normalisation = {} }, \
                   { sinkhorn = { tau = 0.1, query_bank = true } }, { dual_bank_sinkhorn = { tau = 0.1 } }, \
                   { nicdm = { k = 3, query_bank = true } }, \
                   { mutual_proximity = { query_bank = true, distribution = \"empirical\" } }]";
    let bank = "images = \"v.image_embeddings\"\ncaptions = \"v.caption_embeddings\"";
    let vectors =
        format!("{bank}\ndataset = \"made\"\nquery_bank = {{ {}, split = \"val\" }}", bank.replace('\n', ", "));
    let by_vectors: Evaluate = toml::from_str(&format!("{vectors}\n{methods}")).expect("settings of an evaluation");
    assert_eq!(by_vectors.check(), []);
    let mut of_vectors = InMemoryHost::default();
    for (input, table) in [("images", "image_embeddings"), ("captions", "caption_embeddings")] {
        of_vectors.input_tables.insert(input.to_owned(), vec![embedded.output(table)]);
        of_vectors.input_tables.insert(format!("query_bank.{input}"), vec![embedded.output(table)]);
    }
    of_vectors.run_stage(&by_vectors).expect("an evaluation");

    let mut of_scores = scored_host(&trained);
    for (prefix, images, captions) in
        [("image_scores", "val", "test"), ("caption_scores", "test", "val"), ("bank_scores", "val", "val")]
    {
        let text = "model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"";
        let splits = format!("split = \"{images}\"\ncaption_split = \"{captions}\"");
        let stage: ScorePairs = toml::from_str(&format!("{text}\n{splits}")).expect("settings");
        let mut scored = evaluation_host(&trained, ["model", "features", "captions"]);
        scored.run_stage(&stage).expect("scores");
        // Rows and columns may have another order than in the evaluated split.
        let scores = scored.output("scores");
        let halves = [
            scores.slice(scores.num_rows() / 2, scores.num_rows().div_ceil(2)),
            scores.slice(0, scores.num_rows() / 2),
        ];
        of_scores.input_tables.insert(format!("query_bank.{prefix}.scores"), halves.to_vec());
        of_scores.input_tables.insert(format!("query_bank.{prefix}.captions"), vec![scored.output("scored_captions")]);
    }
    let named =
        |name: &str| format!("{name} = {{ scores = \"{name}.scores\", captions = \"{name}.scored_captions\" }}");
    let [images, captions, pairs] = ["image_scores", "caption_scores", "bank_scores"].map(named);
    let stage =
        evaluate_scores(&format!("query_bank = {{ {images}, {captions}, {pairs}, split = \"val\" }}\n{methods}"));
    assert_eq!(stage.check(), []);
    of_scores.run_stage(&stage).expect("an evaluation");
    assert_eq!(retrieved(&of_scores), retrieved(&of_vectors));
    assert_eq!(retrieved(&of_scores).len(), 9 * (4 + 8));

    let names = |stage: &Evaluate| stage.check().into_iter().map(|problem| problem.setting).collect::<Vec<_>>();
    let without = evaluate_scores(&format!("query_bank = {{ {images}, {captions}, split = \"val\" }}\n{methods}"));
    assert_eq!(names(&without), ["methods.6.dual_bank_sinkhorn"]);
    let same = evaluate_scores(&format!("query_bank = {{ {images}, {captions}, split = \"test\" }}"));
    assert_eq!(names(&same), ["query_bank.split"]);
    assert_eq!(names(&evaluate_scores(&format!("query_bank = {{ {images} }}"))), ["query_bank"]);
    let items = evaluate_scores(&format!(
        "query_bank = {{ {images}, {captions} }}\nmethods = [{{ db_norm = {{}} }}, {{ dis_sim_local = {{}} }}, {{ localized_centering = {{}} }}]"
    ));
    assert_eq!(
        names(&items),
        ["methods.0.db_norm", "methods.1.dis_sim_local", "methods.2.localized_centering"],
        "they compare items with items"
    );
    let fewer = |table: &str, change: &dyn Fn(&RecordBatch) -> RecordBatch| {
        let mut host = InMemoryHost::default();
        host.input_tables = of_scores.input_tables.clone();
        let batches = host.input_tables.get_mut(table).expect("a table");
        *batches = vec![change(&concat_batches(&batches[0].schema(), batches.iter()).expect("one schema"))];
        host.run_stage(&stage).expect_err("a row is missing").to_string()
    };
    let error = fewer("query_bank.caption_scores.scores", &|rows| rows.slice(1, rows.num_rows() - 1));
    assert!(error.starts_with("`query_bank.caption_scores.scores` has no image "), "{error}");
}

/// All other methods run.
#[test]
fn methods_that_need_vectors_or_a_query_bank_are_refused_by_check() {
    let mut trained = host();
    trained.run_stage(&stage("epochs = 1")).expect("a training");
    let score_kind = ScoreKind::Model;
    let given = MethodContext {
        query_bank: false,
        bank_items: false,
        bank_pairs: false,
        has_validation_split: false,
        bank_of_validation: false,
        score_kind,
    };
    let (mut refused, scored) = (0, scored_host(&trained));
    for method in Method::samples() {
        let stage = Evaluate { methods: vec![method.clone()], ..evaluate_scores("") };
        assert_eq!(stage.check().is_empty(), method.problems("", given).is_empty());
        let mut host = InMemoryHost::default();
        host.input_tables = scored.input_tables.clone();
        let done = host.run_stage(&stage);
        assert_eq!(done.is_ok(), stage.check().is_empty(), "{method:?}: {done:?}");
        refused += usize::from(done.is_err());
    }
    assert!(refused > 4);
}

#[test]
fn a_late_interaction_model_has_no_embeddings_and_no_query_bank() {
    let mut trained = host();
    trained.run_stage(&stage("epochs = 1")).expect("a training");
    let embed: Embed = toml::from_str("model = \"fit.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"")
        .expect("settings");
    let mut host = evaluation_host(&trained, ["model", "features", "captions"]);
    let error = host.run_stage(&embed).expect_err("sets of vectors");
    assert!(error.to_string().starts_with("the scores of this model do not follow from one vector"), "{error}");
    assert!(host.output_tables.is_empty());

    let names = |stage: &Evaluate| stage.check().into_iter().map(|problem| problem.setting).collect::<Vec<_>>();
    let more = "images = \"v.image_embeddings\"\nquery_bank = { memory_bank = \"fit.memory_bank\" }\nsimilarity = { order = {} }";
    assert_eq!(names(&evaluate_scores(more)), ["images", "similarity", "query_bank"]);
    assert_eq!(names(&Evaluate { scores: None, ..evaluate_scores("") }), ["images"]);
    assert_eq!(names(&Evaluate { captions: None, ..evaluate_scores("") }), ["captions"]);
    assert_eq!(names(&evaluate_scores("validation_split = \"val\"")), ["validation"]);

    let refused = |change: &dyn Fn(&mut InMemoryHost), more: &str| {
        let mut host = scored_host(&trained);
        change(&mut host);
        host.run_stage(&evaluate_scores(more)).expect_err("a mistake").to_string()
    };
    let repeat = |input: &'static str| {
        move |host: &mut InMemoryHost| {
            let rows = host.input_tables.get_mut(input).expect("a table");
            rows.push(rows[0].slice(1, 1));
        }
    };
    assert_eq!(refused(&repeat("captions"), ""), "`captions` has caption 81 twice, expected one row");
    assert_eq!(refused(&repeat("scores"), ""), "`scores` has image 41 twice, expected one row");
    let fewer = |host: &mut InMemoryHost| {
        let rows = host.input_tables.get_mut("captions").expect("a table");
        rows[0] = rows[0].slice(0, 7);
    };
    assert_eq!(refused(&fewer, ""), "`scores` has 8 scores of an image, `captions` 7 captions");
    let other = refused(&|_| (), "split = \"dev\"");
    assert_eq!(other, "no rows of split `dev` in `captions`; there are `test`");
}

/// Captions whose image is absent are left out, and the others are ranked in the order of the images.
#[test]
fn captions_of_scores_may_have_any_order() {
    let mut host = InMemoryHost::default();
    let scores = tables::VectorColumn::new(vec![0.1, 0.9, 0.2, 0.3, 0.8, 0.3, 0.7, 0.4], 4).expect("two rows");
    let (image_id, split) = (vec![1i64, 2].into(), tables::repeated("test", 2));
    let rows = tables::scores::TableColumns { image_id, split, scores }.into_batch().expect("scores");
    let (caption_id, image_id) = (vec![20i64, 10, 90, 11].into(), vec![2i64, 1, 9, 1].into());
    let columns = tables::scored_captions::TableColumns { caption_id, image_id, split: tables::repeated("test", 4) };
    host.input_tables.insert("scores".to_owned(), vec![rows]);
    host.input_tables.insert("captions".to_owned(), vec![columns.into_batch().expect("captions")]);
    host.run_stage(&evaluate_scores("cutoffs = [1]")).expect("an evaluation");
    assert!(host.warnings.iter().any(|warning| warning.message.contains("caption_id 90")), "{:?}", host.warnings);
    let mut found = retrieved(&host);
    found.sort();
    assert_eq!(
        found,
        [(1, vec![10, 11, 20]), (2, vec![20, 11, 10]), (10, vec![1, 2]), (11, vec![2, 1]), (20, vec![2, 1])]
    );
}
