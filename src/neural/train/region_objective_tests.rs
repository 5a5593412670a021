//! Tests of objectives with models that read regions: every loss, warm-up and masks, learned temperatures, and bad input.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Float64Type;

use super::objective_tests::caption_ngrams;
use super::region_tests::{INPUTS, MODELS, host, host_with_model, region_table, stage_of};
use super::testing::{captions, description, file};
use crate::testing::RunOnHost as _;
use pairloom_model::trained_model::PARAMETERS_FILE;
use pairloom_spec::stages::compute_attention::ComputeAttention;
use pairloom_spec::stages::score_pairs::ScorePairs;
use pairloom_spec::stages::train::Train;
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_tables as tables;

/// Values of the column `name` of a table, and of a table of named values those of `of`.
fn column(batch: &RecordBatch, name: &str, of: Option<&str>) -> Vec<f64> {
    let values = batch[name].as_primitive::<Float64Type>().values();
    let Some(of) = of else { return values.to_vec() };
    let names = tables::text_column(batch, "name").expect("names");
    values.iter().zip(names).filter(|(_, name)| *name == Some(of)).map(|(value, _)| *value).collect()
}

fn trained(stage: &Train) -> InMemoryHost {
    assert_eq!(stage.check(), []);
    let mut host = host();
    host.input_tables.insert("caption_ngrams".to_owned(), vec![caption_ngrams()]);
    host.run_stage(stage).expect("a training");
    host
}

/// The mean loss of the third epoch, or of the eighth with semantic margins, is below that of the first.
#[test]
fn every_model_learns_by_every_loss() {
    for model in MODELS {
        for loss in [
            "{ max = {} }",
            "{ hal = {} }",
            "{ sum = {} }\nsemantic_margin = { temperature = 3.0, sampler = \"nearest\", variant = \"official\" }\n\
             caption_ngrams = \"m.caption_ngrams\"",
            "{ knn_margin = { k = 3 } }",
            "{ local_scaling = { k = 3, over = \"sum\" } }",
            "{ info_nce = {} }",
            "{ info_nce = { learned = true } }",
            "{ sigmoid = {} }",
            "{ sigmoid = { learned = true } }",
        ] {
            let epochs = if loss.contains("semantic_margin") { 8 } else { 3 };
            let stage = stage_of(model, &format!("epochs = {epochs}\nloss = {loss}"));
            let losses = column(&trained(&stage).output("history"), "loss", None);
            let sum_of_epoch = |epoch: usize| losses[5 * epoch..5 * (epoch + 1)].iter().sum::<f64>();
            assert_eq!(losses.len(), 5 * epochs, "five steps an epoch");
            assert!(losses.iter().all(|loss| loss.is_finite()), "{model} {loss}: {losses:?}");
            assert!(sum_of_epoch(epochs - 1) < sum_of_epoch(0), "{model} {loss}: {losses:?}");
        }
    }
}

/// The formula of the published code has no gradient where all scores are below 0, so SUM is first. Eight distinct images,
/// of which a random order has an rsum of about 344.
#[test]
fn every_model_learns_by_the_official_hal_after_a_warm_up() {
    for model in MODELS {
        let objective = "loss = { hal = { variant = \"official\" } }\nwarm_up = { epochs = 4 }";
        let rsum = description(&trained(&stage_of(model, &format!("epochs = 16\n{objective}")))).rsum;
        assert!(rsum.is_some_and(|rsum| rsum > 400.0), "{model}: {rsum:?}");
    }
}

/// CVSE whose level loss is MAX.
const WITH_LEVELS: &str = "cvse = { embed_size = 16, word_dim = 8, dropout = 0.1 }";

/// In the warm-up all three losses are SUM, as if `level_loss` were SUM too.
#[test]
fn a_warm_up_replaces_the_level_losses() {
    let levels = |model: &str, more: &str| {
        let table = trained(&stage_of(model, &format!("epochs = 2\n{more}"))).output("auxiliary_losses");
        ["instance", "consensus"].map(|name| column(&table, "value", Some(name)))
    };
    let warm = levels(WITH_LEVELS, "warm_up = { epochs = 1, margin = 0.3 }");
    let sums = WITH_LEVELS.replace("0.1 }", "0.1, level_loss = { sum = { margin = 0.3 } } }");
    let as_sum = levels(&sums, "loss = { sum = { margin = 0.3 } }");
    let cold = levels(WITH_LEVELS, "");
    for level in 0..2 {
        assert_eq!(warm[level].len(), 10);
        assert_eq!(warm[level][..5], as_sum[level][..5], "the epoch of the warm-up");
        assert_ne!(warm[level][5..], as_sum[level][5..], "MAX after it");
        assert_ne!(warm[level][..5], cold[level][..5]);
    }
}

/// The toy data has two captions of each image, so a batch of all pairs has some; with a mask there are fewer negatives.
#[test]
fn a_mask_applies_to_the_level_losses() {
    let model = WITH_LEVELS.replace("0.1 }", "0.0, level_loss = { sum = {} } }");
    let first = |more: &str| {
        let stage = stage_of(&model, &format!("epochs = 1\nloss = {{ sum = {{}} }}\n{more}"));
        let table = trained(&Train { batch_size: 80, ..stage }).output("auxiliary_losses");
        ["instance", "consensus", "concepts"].map(|name| column(&table, "value", Some(name))[0])
    };
    let (all, masked) = (first(""), first("same_image = \"mask\""));
    assert!(masked[0] < all[0] && masked[1] < all[1], "{masked:?} {all:?}");
    assert_eq!(masked[2], all[2], "the divergence has no negatives");
}

#[test]
fn trainings_with_warm_up_mask_and_learned_scalars_resume_to_the_same_bits() {
    for (model, more) in [
        (WITH_LEVELS, "warm_up = { epochs = 1 }\nsame_image = \"mask\""),
        (MODELS[0], "loss = { sigmoid = { learned = true } }\nwarm_up = { epochs = 1 }"),
        (MODELS[4], "loss = { info_nce = { learned = true } }\nweight_decay = 0.1"),
    ] {
        let stage = stage_of(model, &format!("epochs = 3\ncheckpoint_steps = 2\n{more}"));
        let table = if model == WITH_LEVELS { "auxiliary_losses" } else { "loss_scalars" };
        assert!(
            stage_testing::check_resume_after_every_save(
                |host| host.run_stage(&stage),
                host,
                &["history", "validation", table]
            ) > 4,
            "{model}"
        );
    }
}

/// Temperature and bias begin at the settings, stay there in a warm-up, and then change.
#[test]
fn learned_scalars_begin_at_the_settings() {
    let scalars = |loss: &str, name: &str, more: &str| {
        let host = trained(&stage_of(MODELS[0], &format!("epochs = 2\nloss = {{ {loss} }}\n{more}")));
        column(&host.output("loss_scalars"), "value", Some(name))
    };
    let sigmoid = "sigmoid = { temperature = 5.0, bias = -2.0, learned = true }";
    let warm = "warm_up = { epochs = 1 }";
    for (name, initial) in [("log_temperature", 5f64.ln()), ("bias", -2.0)] {
        let values = scalars(sigmoid, name, warm);
        assert_eq!(values.len(), 10);
        assert!(values[..6].iter().all(|value| (value - initial).abs() < 1e-6), "{values:?}");
        assert!(values[6..].windows(2).all(|two| two[0] != two[1]), "{values:?}");
    }
    let values = scalars("info_nce = { temperature = 0.010001, learned = true }", "log_inverse_temperature", "");
    assert!(values.iter().all(|&value| value <= 100f64.ln() + 1e-6), "{values:?}");
    // Without `learned` there is no such table.
    let fixed = trained(&stage_of(MODELS[0], "epochs = 1\nloss = { sigmoid = {} }"));
    assert!(!fixed.output_tables.contains_key("loss_scalars"));
}

#[test]
fn settings_of_the_level_loss_are_named_with_their_place() {
    let problems = |level: &str| -> Vec<(String, String)> {
        let stage = stage_of(&format!("cvse = {{ level_loss = {{ {level} }} }}"), "epochs = 1");
        stage.check().into_iter().map(|problem| (problem.setting, problem.message)).collect()
    };
    let one = |setting: &str, message: &str| vec![(setting.to_owned(), message.to_owned())];
    let margin = one("model.cvse.level_loss.max.margin", "got -1, expected 0 or more");
    assert_eq!(problems("max = { margin = -1.0 }"), margin);
    let learned = problems("sigmoid = { learned = true }");
    assert_eq!(learned[0].0, "model.cvse.level_loss.sigmoid.learned");
    assert_eq!(problems("sigmoid = {}"), []);
    let stage = stage_of(MODELS[0], "epochs = 1\nloss = { info_nce = { temperature = 0.001, learned = true } }");
    assert_eq!(stage.check()[0].setting, "loss.info_nce.temperature");
}

/// Models of one family may have other modules: what both have is copied, and a warning counts it.
#[test]
fn a_training_begins_with_a_model_of_its_family() {
    let given = trained(&stage_of(MODELS[3], "epochs = 1"));
    let start = |model: &str| {
        let mut host = host();
        for ((_, name), content) in &given.output_files {
            host.input_files.insert(("init_from".to_owned(), name.clone()), content.clone());
        }
        host.run_stage(&stage_of(model, "epochs = 1\ninit_from = \"first.model\"\nlearning_rate_decay = 0.5"))
            .map(|()| host)
    };
    let same = start(MODELS[3]).expect("a training");
    assert!(same.warnings.iter().all(|warning| warning.subject != "init_from"), "{:?}", same.warnings);
    assert!(MODELS[3].starts_with("sgraf") && MODELS[4].starts_with("sgraf"), "SGR and SAF");
    let module = start(MODELS[4]).expect("a training");
    let warning = module.warnings.iter().find(|warning| warning.subject == "init_from").expect("a warning");
    assert!(warning.message.starts_with("the model of `sgraf` has "), "{}", warning.message);
    assert!(warning.message.ends_with(" parameters; the others begin at random"), "{}", warning.message);
    let error = start(MODELS[0]).expect_err("another family").to_string();
    assert_eq!(error, "init_from: got a model of `sgraf`, expected one of `scan`, which is trained here");
    let wide = MODELS[3].replace("embed_size = 16", "embed_size = 20");
    assert_ne!(wide, MODELS[3]);
    let error = start(&wide).expect_err("another width");
    let expected =
        "init_from: the model is of `sgraf` with other sizes: `img_enc.fc.weight` is [16, 10], expected [20, 10]";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.hint_text(), Some("set the widths of `model` as in the training of `init_from`"));
}

/// An image, a caption or a number that no model can have is named.
#[test]
fn bad_regions_and_captions_are_named() {
    let mut long = host();
    let rows = (0..96).map(|i| {
        let text = if i == 7 { "dog ".repeat(1001) } else { "A red dog.".to_owned() };
        (i, i / 2, if i < 80 { "train" } else { "val" }, text)
    });
    long.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    let error = long.run_stage(&stage_of(MODELS[0], "epochs = 1")).expect_err("a long caption").to_string();
    assert!(error.contains("caption 7") && error.contains("1001 words, expected at most 1000"), "{error}");

    let scoring = format!("{INPUTS}\nsplit = \"val\"");
    let score: ScorePairs = toml::from_str(&scoring).expect("settings");
    let attend: ComputeAttention = toml::from_str(&scoring).expect("settings");
    for model in [MODELS[0], MODELS[3], MODELS[4], MODELS[5]] {
        let given = trained(&stage_of(model, "epochs = 1"));
        let mut scored = host_with_model(&given);
        let rows = (0..2).map(|i| (90 + i, 40, "val", if i == 1 { "dog ".repeat(1001) } else { "A dog.".to_owned() }));
        scored.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
        let error = scored.run_stage(&score).expect_err("a long caption").to_string();
        assert_eq!(error, "caption 91: 1001 words, expected at most 1000");

        // Images of four regions; the model was trained on three places.
        let values: Vec<f32> = (1..=8u8).flat_map(|image| vec![f32::from(image); 4 * 10]).collect();
        let regions = tables::regions::RegionColumn::new(values, 4, 10).expect("whole images");
        let image_id = (40..48i64).collect::<Vec<_>>().into();
        let columns = tables::regions::TableColumns { image_id, split: tables::repeated("val", 8), regions };
        let mut many = host_with_model(&given);
        many.input_tables.insert("regions".to_owned(), vec![columns.into_batch().expect("regions")]);
        let found = many.run_stage(&score).map_err(|error| error.to_string());
        let message = "image 40 has 4 regions, expected at most the 3 of the training".to_owned();
        assert_eq!(found, if model == MODELS[0] { Ok(()) } else { Err(message.clone()) }, "{model}");
        if model != MODELS[0] && model != MODELS[5] {
            assert_eq!(many.run_stage(&attend).map_err(|error| error.to_string()), Err(message));
        }
    }
}

/// A training does not read the test split, but warns of what an evaluation would fail on.
#[test]
fn rows_of_the_test_split_that_no_model_reads_are_warned_of() {
    let mut odd = host();
    let rows = (0..96).map(|i| {
        let split = if i < 80 { "train" } else { "test" };
        let text = if i == 85 || i == 90 { "dog ".repeat(1001) } else { "A red dog.".to_owned() };
        (i, i / 2, split, text)
    });
    odd.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    let table = region_table("test");
    let (values, places, width) = tables::regions::values(&table).expect("regions");
    let mut values = values.to_vec();
    values[47 * places * width..].fill(0.0);
    let regions = tables::regions::RegionColumn::new(values, places, width).expect("whole images");
    let image_id = (0..48i64).collect::<Vec<_>>().into();
    let columns = tables::regions::TableColumns { image_id, split: tables::repeated("test", 48), regions };
    odd.input_tables.insert("regions".to_owned(), vec![columns.into_batch().expect("regions")]);
    odd.run_stage(&stage_of(MODELS[0], "epochs = 1")).expect("a training");
    let found: Vec<(&str, &str)> =
        odd.warnings.iter().map(|warning| (warning.subject.as_str(), warning.message.as_str())).collect();
    assert!(
        found.contains(&("captions", "caption 85, which is not trained on, is too long to be scored, as 1 more")),
        "{found:?}"
    );
    let image = "image 47, which is not trained on, has no region, so no model can score it";
    assert!(found.contains(&("regions", image)), "{found:?}");
}

#[test]
fn a_number_that_is_too_large_is_named_with_its_image() {
    let mut large = host();
    let table = region_table("val");
    let (values, places, width) = tables::regions::values(&table).expect("regions");
    let mut values = values.to_vec();
    values[5 * places * width + 1] = 3e38;
    let regions = tables::regions::RegionColumn::new(values, places, width).expect("whole images");
    let image_id = (0..48i64).collect::<Vec<_>>().into();
    let columns = tables::regions::TableColumns { image_id, split: tables::repeated("val", 48), regions };
    large.input_tables.insert("regions".to_owned(), vec![columns.into_batch().expect("regions")]);
    let error = large.run_stage(&stage_of(MODELS[0], "epochs = 1")).expect_err("a large number").to_string();
    assert_eq!(error, "regions: the feature of image 5 holds 3e38, expected numbers of at most 1e12");
}

/// A file whose concepts were changed by hand is refused when it is loaded.
#[test]
fn a_model_with_concepts_that_do_not_exist_is_not_loaded() {
    let given = trained(&stage_of(MODELS[5], "epochs = 1"));
    let mut host = host_with_model(&given);
    let mut parameters =
        pairloom_model::safetensors_file::NamedTensors::from_bytes(&file(&given, PARAMETERS_FILE)).expect("a file");
    let _ = parameters.tensors.get_mut("concepts.of_words").expect("words").get(4).fill_(77.0);
    host.input_files.insert(("model".to_owned(), PARAMETERS_FILE.to_owned()), parameters.to_bytes().expect("a file"));
    let score: ScorePairs = toml::from_str(&format!("{INPUTS}\nsplit = \"val\"")).expect("settings");
    let error = host.run_stage(&score).expect_err("a wrong concept").to_string();
    assert!(error.contains("row 4 of `concepts.of_words` holds 77, expected a whole number from -1 to "), "{error}");
}
