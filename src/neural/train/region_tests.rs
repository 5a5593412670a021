//! Tests of `train` and `evaluate` with models that read regions: learning, resuming, evaluation, and refusals.

use arrow::array::{Array, AsArray, Int64Array, RecordBatch};
use arrow::datatypes::Float64Type;

use super::testing::{COLOURS, OBJECTS, captions, description, file, host as feature_host};
use crate::testing::RunOnHost as _;
use pairloom_kernels::random::Rng;
use pairloom_model::trained_model::PARAMETERS_FILE;
use pairloom_spec::stages::embed::Embed;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_spec::stages::train::Train;
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_stages::build_concepts::BuildConcepts;
use pairloom_tables::regions::{self, RegionColumn};
use pairloom_tables::{repeated, vector_column};

/// Width of a region.
const WIDTH: usize = 10;

/// Number of places for regions.
const PLACES: usize = 3;

/// Small models of all families that read regions. Where a family has batch normalisation, dropout, size augmentation or
/// an auxiliary loss, they are on.
pub(super) const MODELS: [&str; 6] = [
    "scan = { embed_size = 16, word_dim = 8 }",
    "vse_infinity = { embed_size = 16, word_dim = 8, pooling_dim = 4, size_augmentation = 0.1 }",
    "vsrn = { embed_size = 16, word_dim = 8, reasoning_layers = 2, caption_dim = 8, caption_word_dim = 8, \
     output_batch_norm = true }",
    "sgraf = { embed_size = 16, word_dim = 8, similarity_dim = 8, reasoning_steps = 2, dropout = 0.1 }",
    "sgraf = { module = \"saf\", embed_size = 16, word_dim = 8, similarity_dim = 8, dropout = 0.1 }",
    "cvse = { embed_size = 16, word_dim = 8, dropout = 0.1, level_loss = { sum = {} } }",
];

pub(super) fn stage_of(model: &str, more: &str) -> Train {
    let concepts = if model.starts_with("cvse") { "concepts = \"w.concepts\"" } else { "" };
    let text = format!(
        "{concepts}\nregions = \"x.regions\"\ncaptions = \"x.captions\"\nbatch_size = 16\nmodel = {{ {model} }}\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// CVSE with captions that are labelled with the words of their images.
const LEAKY: &str =
    "cvse = { embed_size = 16, word_dim = 8, level_loss = { sum = {} }, concept_labels = \"leaky_image\" }";

/// CVSE with consensus scores beside those of fused vectors.
const WITH_CONSENSUS: &str =
    "cvse = { embed_size = 16, word_dim = 8, level_loss = { sum = {} }, consensus_score_weight = 0.3 }";

/// Inputs of a stage that applies a model.
pub(super) const INPUTS: &str = "model = \"fit.model\"\nregions = \"x.regions\"\ncaptions = \"x.captions\"";

/// Host of a stage that applies a trained model to the images and captions of the validation split.
pub(super) fn host_with_model(trained: &InMemoryHost) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    let files = trained.output_files.iter();
    host.input_files =
        files.map(|((_, name), content)| (("model".to_owned(), name.clone()), content.clone())).collect();
    host.input_tables.insert("regions".to_owned(), vec![region_table("val").slice(40, 8)]);
    host.input_tables.insert("captions".to_owned(), trained.input_tables["captions"].clone());
    host
}

fn stage(more: &str) -> Train {
    stage_of(MODELS[0], more)
}

/// Regions of the toy data set: one of the colour, one of the object, and of odd images a third one of noise.
pub(super) fn region_table(split: &str) -> RecordBatch {
    let mut rng = Rng::new(3, &[]);
    let mut values = Vec::new();
    for image in 0..48usize {
        for place in 0..PLACES {
            let code = [image % 6, 6 + image / 6 % 4, WIDTH][place];
            let exists = place < 2 || image % 2 == 1;
            #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
            let mut value = |i: usize| f32::from(u8::from(i == code)) + 0.1 * rng.uniform() as f32;
            values.extend((0..WIDTH).map(|i| if exists { value(i) } else { 0.0 }));
        }
    }
    let regions = RegionColumn::new(values, PLACES, WIDTH).expect("whole images");
    let columns =
        regions::TableColumns { image_id: Int64Array::from_iter_values(0..48), split: repeated(split, 48), regions };
    columns.into_batch().expect("regions")
}

pub(super) fn host() -> InMemoryHost {
    let mut host = feature_host();
    host.input_tables.remove("features");
    host.input_tables.insert("regions".to_owned(), vec![region_table("val")]);
    let mut concepts = InMemoryHost::default();
    concepts.input_tables.insert("captions".to_owned(), host.input_tables["captions"].clone());
    concepts
        .run_stage(&toml::from_str::<BuildConcepts>("captions = \"x.captions\"").expect("settings"))
        .expect("concepts");
    host.input_tables.insert("concepts".to_owned(), vec![concepts.output("concepts")]);
    host
}

/// Eight distinct images. `evaluate` on the validation split has the rsum of the training's own validation, from the
/// model's scores of all pairs.
#[test]
fn models_learn_from_regions_and_evaluation_reproduces_their_validation() {
    for model in MODELS.into_iter().chain([LEAKY, WITH_CONSENSUS]) {
        let stage = stage_of(model, "epochs = 16\nloss = { sum = {} }");
        assert_eq!(stage.check(), []);
        let mut trained = host();
        trained.run_stage(&stage).expect("a training");
        let rsum = description(&trained).rsum.expect("a validation split");
        assert!(rsum > 400.0, "{model}: {rsum}");

        let mut scored = host_with_model(&trained);
        scored
            .run_stage(&toml::from_str::<ScorePairs>(&format!("{INPUTS}\nsplit = \"val\"")).expect("settings"))
            .expect("scores");
        let scores = "scores = \"p.scores\"\ncaptions = \"p.scored_captions\"";
        let evaluate: Evaluate =
            toml::from_str(&format!("{scores}\ndataset = \"made\"\nsplit = \"val\"")).expect("settings");
        assert_eq!(evaluate.check(), []);
        let mut evaluated = InMemoryHost::default();
        for (input, table) in [("scores", "scores"), ("captions", "scored_captions")] {
            evaluated.input_tables.insert(input.to_owned(), vec![scored.output(table)]);
        }
        evaluated.run_stage(&evaluate).expect("an evaluation");
        let found = evaluated.output("summary")["rsum"].as_primitive::<Float64Type>().value(0);
        assert!((found - rsum).abs() < 1e-9, "{model}: {found} and {rsum}");
    }
}

#[test]
fn resumed_trainings_on_regions_are_identical_bit_for_bit() {
    for model in MODELS {
        let stage = stage_of(model, "epochs = 3\ncheckpoint_steps = 2");
        let tables = if model.starts_with("vsrn") || model.starts_with("cvse") {
            vec!["history", "validation", "auxiliary_losses"]
        } else {
            vec!["history", "validation"]
        };
        assert!(
            stage_testing::check_resume_after_every_save(|host| host.run_stage(&stage), host, &tables) > 4,
            "{model}"
        );
    }
}

/// A memory bank has the vectors of `embed`, whatever else a training step needs.
#[test]
fn models_of_one_vector_train_with_a_memory_bank() {
    for model in [MODELS[1], MODELS[2], MODELS[5], WITH_CONSENSUS] {
        let stage =
            stage_of(model, "epochs = 2\nloss = { hal = {} }\nmemory_bank = { fraction = 0.5, neighbours = 8 }");
        assert_eq!(stage.check(), []);
        let mut host = host();
        host.run_stage(&stage).expect("a training");
        let bank = host.output("memory_bank");
        assert!(bank.num_rows() > 0, "{model}");
        let width = vector_column(&bank, "image").expect("vectors").1;
        assert_eq!(width, if model == WITH_CONSENSUS { 32 } else { 16 });
    }
}

/// With the labels of images, captions are read with the words of the others, here a colour that only one caption names.
/// With a weight of 0 labels change nothing.
#[test]
fn concept_labels_are_those_that_were_asked_for() {
    let train = |settings: &str| {
        let model = format!("cvse = {{ embed_size = 16, word_dim = 8, level_loss = {{ sum = {{}} }}, {settings} }}");
        let mut host = host();
        let rows = (0..96).map(|i| {
            let (colour, object) = (COLOURS[i / 2 % 6], OBJECTS[i / 12 % 4]);
            let text = if i % 2 == 0 { format!("A {colour} {object}.") } else { format!("There's a {object}.") };
            (i, i / 2, if i < 80 { "train" } else { "val" }, text)
        });
        host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
        host.run_stage(&stage_of(&model, "epochs = 2\nloss = { sum = {} }")).expect("a training");
        let words = host.output("samples")["token_ids"].as_list::<i32>().value_length(0);
        let losses = host.output("history")["loss"].as_primitive::<Float64Type>().values().to_vec();
        (words, losses)
    };
    let own = train("concept_labels = \"caption\"");
    let training = train("concept_labels = \"training\"");
    let image = train("concept_labels = \"leaky_image\"");
    assert_eq!(own, training, "the same labels in training");
    assert!(image.0 > own.0 && image.1 != own.1);
    // `embed` and `score_pairs` read captions alike.
    let mut trained = host();
    trained.run_stage(&stage_of(LEAKY, "epochs = 2")).expect("a training");
    let (mut scored, mut embedded) = (host_with_model(&trained), host_with_model(&trained));
    scored
        .run_stage(&toml::from_str::<ScorePairs>(&format!("{INPUTS}\nsplit = \"val\"")).expect("settings"))
        .expect("scores");
    embedded.run_stage(&toml::from_str::<Embed>(INPUTS).expect("settings")).expect("embeddings");
    let (images, captions) = (embedded.output("image_embeddings"), embedded.output("caption_embeddings"));
    let [images, captions] = [&images, &captions].map(|table| vector_column(table, "embedding").expect("vectors").0);
    let scores = scored.output("scores");
    let (scores, width) = vector_column(&scores, "scores").expect("scores");
    assert_eq!((width, scores.len()), (16, 8 * 16));
    for (place, score) in scores.iter().enumerate() {
        let (image, caption) = (&images[place / width * 16..][..16], &captions[place % width * 16..][..16]);
        let wanted: f32 = image.iter().zip(caption).map(|(a, b)| a * b).sum();
        assert!((score - wanted).abs() < 1e-5, "{place}: {score} and {wanted}");
    }
    let unweighted = train("concept_labels = \"leaky_image\", label_weight = 0.0");
    assert_eq!(unweighted.1, train("label_weight = 0.0").1);
}

/// A lemma has the vector of its line, whether it is a word of the vocabulary or not. Concepts keep their vectors.
#[test]
fn concepts_have_the_vectors_of_their_lemmas() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("glove.txt");
    let line = |word: &str, value: &str| format!("{word}{}\n", format!(" {value}").repeat(8));
    std::fs::write(&path, line("dog", "0.5") + &line("red", "-0.25")).expect("a file");
    let mut host = host();
    host.source_paths.insert("word_vectors.file".to_owned(), path);
    host.run_stage(&stage_of(MODELS[5], "epochs = 1\nword_vectors = { file = \"glove.txt\" }")).expect("a training");
    let lemmas = host.input_tables["concepts"][0]["lemma"].as_string::<i32>().clone();
    let missing = format!("{} of {} concepts are not in the file", lemmas.len() - 2, lemmas.len());
    assert!(host.warnings.iter().any(|warning| warning.message.starts_with(&missing)), "{:?}", host.warnings);
    let parameters = file(&host, PARAMETERS_FILE);
    let tensors = safetensors::SafeTensors::deserialize(&parameters).expect("a file");
    let values: Vec<f32> = tensors
        .tensor("concepts.vectors")
        .expect("vectors")
        .data()
        .as_chunks()
        .0
        .iter()
        .map(|&bytes| f32::from_le_bytes(bytes))
        .collect();
    for (lemma, wanted) in [("dog", 0.5), ("red", -0.25)] {
        let row = lemmas.iter().position(|other| other == Some(lemma)).expect("a concept");
        assert_eq!(values[row * 8..][..8], [wanted; 8], "{lemma}");
    }
}

/// Losses of the first epoch. bf16 products change them a little.
#[test]
fn mixed_precision_has_nearly_the_losses_of_f32() {
    for model in MODELS {
        let losses = |precision: &str| -> Vec<f64> {
            let mut host = host();
            let settings = format!("epochs = 1\nprecision = \"{precision}\"\nloss = {{ sum = {{}} }}");
            let mut stage = stage_of(model, &settings);
            if model.starts_with("cvse") {
                // Its sharp softmax enlarges differences from step to step.
                stage.learning_rate = 1e-3;
            }
            assert_eq!(stage.check(), []);
            host.run_stage(&stage).expect("a training");
            host.output("history")["loss"].as_primitive::<Float64Type>().values().to_vec()
        };
        let (f32s, mixed) = (losses("f32"), losses("mixed"));
        assert_eq!(f32s.len(), 5);
        assert_ne!(f32s, mixed, "{model}: no product is in bf16");
        for (wide, narrow) in f32s.iter().zip(&mixed) {
            assert!((wide - narrow).abs() < 0.03 * wide, "{model}: {f32s:?} {mixed:?}");
        }
    }
}

#[test]
fn settings_that_do_not_fit_the_images_of_a_model_are_refused() {
    let problems = |stage: &Train| -> Vec<(String, String)> {
        stage.check().into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let one = |setting: &str, message: &str| vec![(setting.to_owned(), message.to_owned())];
    let table = |name: &str| Some(pairloom_stage::TableRef::try_from(name.to_owned()).expect("a table"));
    let features = Train { regions: None, features: table("x.features"), ..stage("epochs = 1") };
    assert_eq!(problems(&features), one("features", "a model of `scan` reads regions, not one vector of an image"));
    let both = Train { features: table("x.features"), ..stage("epochs = 1") };
    assert_eq!(problems(&both), one("regions", "set together with `features`: expected one of the two"));
    let none = Train { regions: None, ..stage("epochs = 1") };
    assert_eq!(problems(&none), one("regions", "no images: expected `regions`"));
    let vse = Train { regions: table("x.regions"), features: None, ..super::testing::stage("epochs = 1") };
    assert_eq!(problems(&vse), one("regions", "a model of `vse` reads one vector of an image, not regions"));
    let bank = stage("epochs = 2\nloss = { hal = {} }\nmemory_bank = {}");
    assert_eq!(problems(&bank), one("memory_bank", "a model of `scan` has no similarity of one vector per item"));
    assert!(bank.check()[0].hint.as_ref().is_some_and(|hint| hint.starts_with("remove it") && hint.contains("`vsrn`")));
    let narrow = stage_of("scan = { lambda_softmax = 0.0 }", "epochs = 1");
    assert_eq!(problems(&narrow), one("model.scan.lambda_softmax", "got 0, expected more than 0"));
    let ranks = stage_of(MODELS[3], "epochs = 1\nranks = 2");
    let message =
        "got 2, but a model of `sgraf` is trained by 1: each rank would normalise with the statistics of its own pairs";
    assert_eq!(problems(&ranks), one("ranks", message));
    let frozen = stage_of("sgraf = { batch_norm = \"frozen\" }", "epochs = 1\nranks = 2");
    assert_eq!(problems(&frozen), []);
    let decay = stage("epochs = 1\nweight_decay = -0.1");
    assert_eq!(problems(&decay), one("weight_decay", "got -0.1, expected 0 or more"));
    let concepts = Train { concepts: None, ..stage_of(MODELS[5], "epochs = 1") };
    assert_eq!(problems(&concepts), one("concepts", "a model of `cvse` needs `concepts`, which is not set"));
    let unused = Train { concepts: table("w.concepts"), ..stage("epochs = 1") };
    assert_eq!(problems(&unused), one("concepts", "a model of `scan` has no concepts"));
    let odd = stage_of("vse_infinity = { pooling_dim = 3, size_augmentation = 1.0 }", "epochs = 1");
    let settings: Vec<String> = problems(&odd).into_iter().map(|(setting, _)| setting).collect();
    assert_eq!(settings, ["model.vse_infinity.pooling_dim", "model.vse_infinity.size_augmentation"]);
}

#[test]
fn an_image_without_a_region_and_a_table_of_the_other_kind_are_refused() {
    let mut empty = host();
    let values = vec![0.0; PLACES * WIDTH];
    let regions = RegionColumn::new(values, PLACES, WIDTH).expect("an image");
    let row = regions::TableColumns { image_id: vec![47].into(), split: repeated("val", 1), regions };
    let others = region_table("val").slice(0, 47);
    empty.input_tables.insert("regions".to_owned(), vec![others, row.into_batch().expect("a row")]);
    let error = empty.run_stage(&stage("epochs = 1")).expect_err("no region").to_string();
    assert_eq!(error, "regions: image 47 has no region: all its values are 0");

    let mut trained = host();
    trained.run_stage(&stage("epochs = 1")).expect("a training");
    let embed: Embed =
        toml::from_str("model = \"f.model\"\nfeatures = \"x.features\"\ncaptions = \"x.captions\"").expect("settings");
    let mut host = host_with_model(&trained);
    let error = host.run_stage(&embed).expect_err("features").to_string();
    assert_eq!(error, "the model reads `regions` of images, got `features`");
}
