//! Tests of `train` on the toy data set: learning, resuming bit for bit, and errors.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::testing::{COLOURS, OBJECTS, captions, description, features, file, host, stage};
use crate::testing::RunOnHost as _;
use pairloom_base::error::ErrorCategory;
use pairloom_kernels::epoch::Shuffle;
use pairloom_model::trained_model::{DESCRIPTION_FILE, PARAMETERS_FILE, TrainedModel};
use pairloom_spec::loss::{Loss, MaxLoss};
use pairloom_spec::stages::train::Train;
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_tables as tables;

#[test]
fn a_training_learns_the_toy_data_set() {
    for loss in ["sum", "max"] {
        let mut host = host();
        host.run_stage(&stage(&format!("epochs = 40\nloss = {{ {loss} = {{}} }}"))).expect("a training");
        let found = description(&host);
        // Eight distinct images: the expectation of a random order is about 12 + 60 + 100 in each direction.
        assert!(found.rsum.expect("a validation split") > 540.0, "{loss}: {:?}", found.rsum);
        let validation = host.output("validation");
        let rsums = validation["rsum"].as_primitive::<Float64Type>();
        let best = (0..40).filter(|&row| rsums.value(row) == found.rsum.expect("rsum")).min().expect("a best row");
        assert_eq!(found.epoch, best as u64);
        assert!(validation["best"].as_boolean().value(best));
        // The events have the rows of the table.
        assert_eq!(host.validations.len(), 40);
        for (row, event) in host.validations.iter().enumerate() {
            let number = |column: &str| validation[column].as_primitive::<Float64Type>().value(row);
            let recalls = ["i2t_r1", "i2t_r5", "i2t_r10", "t2i_r1", "t2i_r5", "t2i_r10"].map(number);
            assert_eq!([event.i2t, event.t2i].concat(), recalls);
            let expected = (number("loss"), number("rsum"), number("selection_score"));
            assert_eq!((event.loss, event.rsum, event.selection_score), expected);
            assert_eq!((event.epoch, event.step, event.selection_metric), (row as u64, 5 * (row as u64 + 1), "rsum"));
            assert_eq!(event.best, validation["best"].as_boolean().value(row));
        }

        // 80 pairs in batches of 16: five steps in every epoch.
        let history = host.output("history");
        assert_eq!(history.num_rows(), 40 * 5);
        assert!(history["step"].as_primitive::<Int64Type>().values().iter().copied().eq(0..200));
        let losses = history["loss"].as_primitive::<Float64Type>().values();
        let mean = |range: std::ops::Range<usize>| losses[range].iter().sum::<f64>() / 5.0;
        assert!(mean(195..200) < 0.5 * mean(0..5), "{loss}: {} to {}", mean(0..5), mean(195..200));

        let trained =
            TrainedModel::read(&file(&host, DESCRIPTION_FILE), &file(&host, PARAMETERS_FILE), tch::Device::Cpu);
        assert_eq!(trained.expect("a model").input_spec().values_per_image(), 10);
    }
}

#[test]
fn a_resumed_training_is_identical_bit_for_bit() {
    let stage = stage("epochs = 4\ncheckpoint_steps = 3\nlearning_rate_decay_epochs = 2");
    assert!(
        stage_testing::check_resume_after_every_save(|host| host.run_stage(&stage), host, &["history", "validation"])
            > 4 + 3
    );
}

#[test]
fn a_last_batch_of_one_pair_is_used() {
    let mut host = host();
    let rows = (0..17).map(|i| (i, i, "train", format!("a {} {}", COLOURS[i % 6], OBJECTS[i % 4])));
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    host.run_stage(&stage("epochs = 2")).expect("a training");
    let history = host.output("history");
    assert_eq!(history["pairs"].as_primitive::<Int64Type>().values(), &[16, 1, 16, 1]);
    let losses = history["loss"].as_primitive::<Float64Type>();
    assert_eq!((losses.value(1), losses.value(3)), (0.0, 0.0));
    // Without a validation split the last epoch becomes the model, with a warning.
    assert_eq!((description(&host).epoch, description(&host).rsum), (1, None));
    assert!(!host.output_tables.contains_key("validation"));
    assert!(host.warnings.iter().any(|warning| warning.message.contains("last epoch")), "{:?}", host.warnings);
}

#[test]
fn captions_without_words_or_features_are_reported() {
    let mut host = host();
    let rows = (0..40).map(|i| (i, i + 20, "train", if i == 3 { "  ".to_owned() } else { "a dog".to_owned() }));
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    host.run_stage(&stage("epochs = 1")).expect("a training");
    let messages: Vec<&str> = host.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(messages.iter().any(|text| text.starts_with("12 captions left out: their 12 images")), "{messages:?}");
    assert!(messages.iter().any(|text| text.starts_with("1 training captions hold no word")), "{messages:?}");
    let pairs = host.output("history")["pairs"].as_primitive::<Int64Type>().values().iter().sum::<i64>();
    assert_eq!(pairs, 28);
}

#[test]
fn the_vocabulary_has_words_of_training_captions_only() {
    let mut host = host();
    let rows = (0..20).map(|i| {
        let split = if i < 16 { "train" } else { "val" };
        (i, i, split, if i < 16 { "a dog".to_owned() } else { "a zebra".to_owned() })
    });
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    host.run_stage(&stage("epochs = 1")).expect("a training");
    assert_eq!(description(&host).vocabulary, ["<pad>", "<start>", "<end>", "<unk>", "a", "dog"]);
}

#[test]
fn mostly_unknown_tokens_are_a_warning_and_only_unknown_tokens_an_error() {
    // 16 captions, each of the given words and one word that no other caption has.
    let rows = |words: &'static str| (0..16).map(move |i| (i, i, "train", format!("{words} w{i}")));
    let run = |words, min_count| {
        let mut host = host();
        host.input_tables.insert("captions".to_owned(), vec![captions(rows(words))]);
        let done = host.run_stage(&Train { min_count, ..stage("epochs = 1") });
        let messages: Vec<String> = host.warnings.iter().map(|warning| warning.message.clone()).collect();
        (done, messages.join("\n"))
    };
    let (done, messages) = run("a dog", 16);
    assert!(done.is_ok() && !messages.contains("unknown"), "{messages}");
    // Exactly half of the tokens are unknown: no warning.
    let (done, messages) = run("a", 16);
    assert!(done.is_ok() && !messages.contains("unknown"), "{messages}");
    let (done, messages) = run("", 1);
    assert!(done.is_ok() && !messages.contains("unknown"), "{messages}");
    let (done, messages) = run("a rare", 17);
    let error = done.expect_err("every word is unknown");
    assert_eq!(error.category(), ErrorCategory::Data);
    assert!(error.to_string().contains("none of the 48 words of the training captions occurs 17 times"), "{error}");
    assert!(error.hint_text().expect("a hint").contains("min_count"), "{messages}");

    let mut other = host();
    let rows = (0..16).map(|i| (i, i, "train", format!("a v{i} w{i}")));
    other.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    other.run_stage(&Train { min_count: 16, ..stage("epochs = 1") }).expect("one word is known");
    let messages: Vec<&str> = other.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(
        messages.iter().any(|text| text.starts_with("32 of 48 words of the training captions are unknown")),
        "{messages:?}"
    );
}

#[test]
fn errors_name_the_bad_data() {
    let fails = |host: &mut InMemoryHost, more: &str, kind: ErrorCategory, part: &str| {
        let error = host.run_stage(&stage(more)).expect_err(part);
        assert_eq!(error.category(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let mut other = host();
    other.input_tables.insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i, "test", "a".to_owned())))]);
    let none = "nothing to train on: table `captions` holds no caption of split `train` or `restval`";
    fails(&mut other, "epochs = 1", ErrorCategory::Data, none);

    let mut other = host();
    other
        .input_tables
        .insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i + 90, "train", "a".to_owned())))]);
    let none =
        "nothing to train on: none of the 4 captions of the splits `train` and `restval` has an image with a feature";
    fails(&mut other, "epochs = 1", ErrorCategory::Data, none);

    let mut other = host();
    other.input_tables.insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i, "train", " ".to_owned())))]);
    fails(&mut other, "epochs = 1", ErrorCategory::Data, "none of the 4 training captions holds a word");

    let mut other = host();
    other.input_tables.insert("features".to_owned(), vec![features(20, 10), features(1, 7)]);
    fails(
        &mut other,
        "epochs = 1",
        ErrorCategory::Data,
        "FixedSizeList(7 x non-null Float32)), expected (image_id Int64, split Utf8, feature FixedSizeList(10",
    );

    let mut other = host();
    other.input_tables.insert("features".to_owned(), vec![features(20, 10), features(1, 10)]);
    fails(&mut other, "epochs = 1", ErrorCategory::Data, "image 0 has two features");

    let mut other = host();
    let rows = (0..4).map(|i| (i, i, "train", if i == 2 { "dog ".repeat(1001) } else { "a dog".to_owned() }));
    other.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    fails(&mut other, "epochs = 1", ErrorCategory::Data, "caption 2: 1001 words");

    let mut other = host();
    other.saved_state = Some(bytes::Bytes::from_static(b"no checkpoint"));
    fails(&mut other, "epochs = 1", ErrorCategory::Data, "safetensors");

    // Finite features with an infinite norm.
    let mut other = host();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..48));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; 48]));
    let columns = vec![ids, splits, tables::vector_array(vec![3e38; 480], 10).expect("whole vectors")];
    let huge = tables::batch(&tables::features::table().schema_with_width(10), columns).expect("features");
    other.input_tables.insert("features".to_owned(), vec![huge]);
    fails(&mut other, "epochs = 1", ErrorCategory::Data, "the feature of image 0 holds 3e38");

    // Parameters of 1e38 after a step: the error names the step and the captions of its batch.
    let mut other = host();
    let steep = Train { learning_rate: 1e38, ..stage("epochs = 1") };
    let error = other.run_stage(&steep).expect_err("no finite loss");
    assert_eq!(error.category(), ErrorCategory::Stage, "{error}");
    assert!(error.to_string().starts_with("step 1 (epoch 0): the loss is "), "{error}");
    assert!(error.to_string().contains("caption_id of the batch: "), "{error}");
    assert!(other.output_files.is_empty(), "a diverged model was written");
}

/// The learning rate is too small to change a parameter, so all epochs are equal.
#[test]
fn the_first_of_equal_epochs_becomes_the_model() {
    let mut host = host();
    host.run_stage(&Train { learning_rate: 1e-30, ..stage("epochs = 3") }).expect("a training");
    let validation = host.output("validation");
    let rsums = validation["rsum"].as_primitive::<Float64Type>().values();
    assert!(rsums[0] > 0.0 && rsums.iter().all(|rsum| rsum.to_bits() == rsums[0].to_bits()), "{rsums:?}");
    assert!(validation["best"].as_boolean().values().iter().eq([true, false, false]));
    assert_eq!((description(&host).epoch, description(&host).step), (0, 5));
}

/// The same holds for a training that is resumed with another value.
#[test]
fn checkpoint_steps_change_no_row_and_no_key() {
    let stages = ["epochs = 2", "epochs = 2\ncheckpoint_steps = 2"].map(stage);
    assert_eq!(stages[0].settings(), stages[1].settings());
    assert!(stages[0].settings().get("epochs").is_some());
    let mut hosts = [host(), host()];
    for (host, stage) in hosts.iter_mut().zip(&stages) {
        host.run_stage(stage).expect("a training");
    }
    let [seldom, often] = hosts;
    assert!(often.output_tables["history"].len() > seldom.output_tables["history"].len());
    assert_eq!(often.output("history"), seldom.output("history"));
    assert_eq!(often.output_files, seldom.output_files);

    let mut cut = host();
    cut.cancel_after_save = Some(1);
    cut.run_stage(&stages[1]).expect_err("cancelled");
    let mut rest = host();
    rest.saved_state = cut.saved_state.clone();
    rest.run_stage(&stages[0]).expect("the rest of a training");
    assert_eq!(rest.output_files, seldom.output_files);
}

#[test]
fn all_invalid_settings_are_reported() {
    let mut stage = stage("epochs = 0\ncheckpoint_steps = 0\ngradient_clip = -1.0\nlearning_rate_decay = nan");
    stage.batch_size = 1;
    stage.model = serde_json::from_value(serde_json::json!({"vse": {"embed_size": 1u64 << 40}})).expect("a model");
    stage.loss = Loss::Max(MaxLoss { margin: f64::NAN });
    let settings: Vec<String> = stage.check().into_iter().map(|problem| problem.setting).collect();
    assert_eq!(
        settings,
        [
            "epochs",
            "batch_size",
            "checkpoint_steps",
            "learning_rate_decay",
            "gradient_clip",
            "model.vse.embed_size",
            "loss.max.margin"
        ]
    );
}

#[test]
fn a_checkpoint_with_another_data_order_is_refused() {
    let mut cut = host();
    cut.cancel_after_save = Some(1);
    cut.run_stage(&stage("epochs = 2")).expect_err("cancelled");
    let mut other = host();
    other.saved_state = cut.saved_state.clone();
    let error = other.run_stage(&Train { batch_size: 20, ..stage("epochs = 2") }).expect_err("another data order");
    assert_eq!(error.category(), ErrorCategory::Data);
    let text = error.to_string();
    assert!(text.contains("the checkpoint has another data order: got samples [80]"), "{text}");
    assert!(
        text.contains("batch size 16, seed")
            && text.contains("expected samples [80]")
            && text.contains("batch size 20"),
        "{text}"
    );
}

#[test]
fn cached_training_data_are_reused() {
    let mut first = host();
    first.run_stage(&stage("epochs = 2")).expect("a training");
    let mut second = host();
    second.cached = first.cached.clone();
    // These captions would give another model if they were read.
    second
        .input_tables
        .insert("captions".to_owned(), vec![captions((0..8).map(|i| (i, i, "train", "a cat".to_owned())))]);
    second.run_stage(&stage("epochs = 2")).expect("a training");
    assert_eq!(second.output_files, first.output_files);
    assert_eq!(second.warnings, first.warnings);
    let mut third = host();
    third.cached = first.cached.clone();
    third.run_stage(&Train { min_count: 2, ..stage("epochs = 2") }).expect("a training");
    assert_ne!(third.cached.len(), first.cached.len(), "another vocabulary gives other training data");
}

#[test]
fn data_order_and_samples_describe_the_training_pairs() {
    let mut host = host();
    host.run_stage(&Train { shuffle: Shuffle::Windows(2), ..stage("epochs = 1") }).expect("a training");
    let (order, samples) = (host.output("data_order"), host.output("samples"));
    assert_eq!(order.num_rows(), 1);
    assert_eq!(order["samples"].as_primitive::<Int64Type>().values(), &[80]);
    assert_eq!(order["window"].as_primitive::<Int64Type>().values(), &[2]);
    assert_eq!(samples.num_rows(), 80);
    let images = samples["image_id"].as_primitive::<Int64Type>().values();
    let shards = samples["shard"].as_primitive::<Int64Type>().values();
    let rows = samples["row"].as_primitive::<Int64Type>().values();
    for row in 1..80 {
        assert!((shards[row - 1], rows[row - 1]) <= (shards[row], rows[row]));
        assert_eq!(images[row - 1] == images[row], (shards[row - 1], rows[row - 1]) == (shards[row], rows[row]));
    }
}

/// The second data set has twice the weight, and other images with the same `image_id`s.
#[test]
fn data_sets_are_mixed() {
    let mut host = host();
    host.input_tables.insert("mixed_with.0.features".to_owned(), vec![features(8, 10)]);
    let rows = (0..8).map(|i| (i + 500, i, "train", format!("some thing {i}")));
    host.input_tables.insert("mixed_with.0.captions".to_owned(), vec![captions(rows)]);
    let mixed = "epochs = 2\nmixed_with = [{ features = \"c.features\", captions = \"c.captions\", weight = 2.0 }]";
    let stage = stage(mixed);
    assert_eq!(stage.inputs().len(), 4);
    assert_eq!(stage.inputs()[3].name, "mixed_with.0.captions");
    host.run_stage(&stage).expect("a training");
    assert_eq!(host.output("data_order")["samples"].as_primitive::<Int64Type>().values(), &[80, 8]);
    let pairs = host.output("history")["pairs"].as_primitive::<Int64Type>().values().iter().sum::<i64>();
    assert_eq!(pairs, 2 * 88);
    assert!(description(&host).vocabulary.contains(&"thing".to_owned()));

    host.input_tables.insert("mixed_with.0.features".to_owned(), vec![features(8, 9)]);
    host.cached.clear();
    let error = host.run_stage(&stage).expect_err("another width");
    assert_eq!(error.to_string(), "`mixed_with.0.features` has width 9, expected width 10");
}
