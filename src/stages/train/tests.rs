//! `train` on a small made-up data set: it learns, resumes to the bit, and says what is wrong.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float64Type, Int64Type};

use super::Train;
use crate::error::Kind;
use crate::kernels::epoch::Order;
use crate::kernels::sample::Sample;
use crate::model::loss::Loss;
use crate::model::loss::max::Max;
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS, Trained};
use crate::stage::Stage;
use crate::stages::testing::{self, MemoryWorld};
use crate::tables;

pub(super) const COLOURS: [&str; 6] = ["red", "green", "blue", "black", "white", "brown"];
pub(super) const THINGS: [&str; 4] = ["dog", "cat", "ball", "car"];

pub(super) fn stage(more: &str) -> Train {
    let text = format!(
        "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch = 16\nmodel.vse.embedding = 32\nmodel.vse.word = 16\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// A world of 48 images, each a colour and a thing, with two captions an image.
pub(super) fn world() -> MemoryWorld {
    let mut world = MemoryWorld::default();
    world.tables.insert("features".to_owned(), vec![features(48, 10)]);
    let rows = (0..96).map(|i| {
        let image = i / 2;
        let split = if image < 40 { ["train", "restval"][image % 2] } else { "val" };
        let (colour, thing) = (COLOURS[image % 6], THINGS[image / 6 % 4]);
        let text =
            if i % 2 == 0 { format!("A {colour} {thing}.") } else { format!("There's a {thing}, it is {colour}") };
        (i, image, split, text)
    });
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    world
}

pub(super) fn features(images: usize, width: usize) -> RecordBatch {
    let mut sample = Sample::new(1, &[]);
    let mut values = Vec::new();
    for image in 0..images {
        let place = |i: usize| f32::from(u8::from(i == image % 6 || i == 6 + image / 6 % 4));
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        values.extend((0..width).map(|i| place(i) + 0.1 * sample.unit() as f32));
    }
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..images).map(int)));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; images]));
    let columns = vec![ids, splits, tables::vectors(values, width).expect("whole vectors")];
    tables::batch(&tables::features::table().schema_of_width(width), columns).expect("features")
}

pub(super) fn captions(rows: impl Iterator<Item = (usize, usize, &'static str, String)>) -> RecordBatch {
    let rows: Vec<_> = rows.collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| int(row.0)))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| int(row.1)))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.3.as_str()))),
    ];
    tables::batch(&tables::captions::table().schema(), columns).expect("captions")
}

fn int(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}

pub(super) fn file(world: &MemoryWorld, name: &str) -> bytes::Bytes {
    world.put[&("model".to_owned(), name.to_owned())].clone()
}

pub(super) fn description(world: &MemoryWorld) -> Description {
    serde_json::from_slice(&file(world, DESCRIPTION)).expect("a description")
}

#[test]
fn learns_what_there_is_to_learn() {
    for loss in ["sum", "max"] {
        let mut world = world();
        world.run(&stage(&format!("epochs = 40\nloss = {{ {loss} = {{}} }}"))).expect("a training");
        let found = description(&world);
        // Eight images of which no two are alike: chance gives about 12 + 60 + 100 in either direction.
        assert!(found.rsum.expect("a validation split") > 540.0, "{loss}: {:?}", found.rsum);
        let validation = world.output("validation");
        let rsums = validation["rsum"].as_primitive::<Float64Type>();
        let best = (0..40).filter(|&row| rsums.value(row) == found.rsum.expect("rsum")).min().expect("a best row");
        assert_eq!(found.epoch, best as u64);
        assert!(validation["best"].as_boolean().value(best));

        // 80 pairs in batches of 16; the order differs between epochs, the number of steps does not.
        let history = world.output("history");
        assert_eq!(history.num_rows(), 40 * 5);
        assert!(history["step"].as_primitive::<Int64Type>().values().iter().copied().eq(0..200));
        let losses = history["loss"].as_primitive::<Float64Type>().values();
        let mean = |range: std::ops::Range<usize>| losses[range].iter().sum::<f64>() / 5.0;
        assert!(mean(195..200) < 0.5 * mean(0..5), "{loss}: {} to {}", mean(0..5), mean(195..200));

        let trained = Trained::read(&file(&world, DESCRIPTION), &file(&world, PARAMETERS), tch::Device::Cpu);
        assert_eq!(trained.expect("a model").image_values(), 10);
    }
}

#[test]
fn a_resumed_training_is_the_same_to_the_bit() {
    let stage = stage("epochs = 4\ncheckpoint_steps = 3\ndecay_epochs = 2");
    assert!(testing::resumed_wherever_it_is_cut(&stage, world, &["history", "validation"]) > 4 + 3);
}

#[test]
fn a_short_last_batch_is_used_even_when_it_is_one_pair() {
    let mut world = world();
    let rows = (0..17).map(|i| (i, i, "train", format!("a {} {}", COLOURS[i % 6], THINGS[i % 4])));
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    world.run(&stage("epochs = 2")).expect("a training");
    let history = world.output("history");
    assert_eq!(history["pairs"].as_primitive::<Int64Type>().values(), &[16, 1, 16, 1]);
    let losses = history["loss"].as_primitive::<Float64Type>();
    assert_eq!((losses.value(1), losses.value(3)), (0.0, 0.0));
    // Without a validation split the last epoch is the model, and a person is told.
    assert_eq!((description(&world).epoch, description(&world).rsum), (1, None));
    assert!(!world.written.contains_key("validation"));
    assert!(world.warnings.iter().any(|warning| warning.message.contains("last epoch")), "{:?}", world.warnings);
}

#[test]
fn captions_without_words_or_features_are_counted_and_told() {
    let mut world = world();
    let rows = (0..40).map(|i| (i, i + 20, "train", if i == 3 { "  ".to_owned() } else { "a dog".to_owned() }));
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    world.run(&stage("epochs = 1")).expect("a training");
    let told: Vec<&str> = world.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(told.iter().any(|text| text.starts_with("12 captions left out: their 12 images")), "{told:?}");
    assert!(told.iter().any(|text| text.starts_with("1 training captions hold no word")), "{told:?}");
    let pairs = world.output("history")["pairs"].as_primitive::<Int64Type>().values().iter().sum::<i64>();
    assert_eq!(pairs, 28);
}

#[test]
fn the_vocabulary_holds_words_of_training_captions_only() {
    let mut world = world();
    let rows = (0..20).map(|i| {
        let split = if i < 16 { "train" } else { "val" };
        (i, i, split, if i < 16 { "a dog".to_owned() } else { "a zebra".to_owned() })
    });
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    world.run(&stage("epochs = 1")).expect("a training");
    assert_eq!(description(&world).vocabulary, ["<pad>", "<start>", "<end>", "<unk>", "a", "dog"]);
}

#[test]
fn a_vocabulary_that_knows_little_is_told_and_one_that_knows_nothing_is_refused() {
    // 16 captions of `a`, `dog` and a word of their own.
    let rows = |words: &'static str| (0..16).map(move |i| (i, i, "train", format!("{words} w{i}")));
    let run = |words, min_count| {
        let mut world = world();
        world.tables.insert("captions".to_owned(), vec![captions(rows(words))]);
        let done = world.run(&Train { min_count, ..stage("epochs = 1") });
        let told: Vec<String> = world.warnings.iter().map(|warning| warning.message.clone()).collect();
        (done, told.join("\n"))
    };
    let (done, told) = run("a dog", 16);
    assert!(done.is_ok() && !told.contains("unknown"), "{told}");
    // Half of the words is not more than half of them.
    let (done, told) = run("a", 16);
    assert!(done.is_ok() && !told.contains("unknown"), "{told}");
    let (done, told) = run("", 1);
    assert!(done.is_ok() && !told.contains("unknown"), "{told}");
    let (done, told) = run("a rare", 17);
    let error = done.expect_err("every word is unknown");
    assert_eq!(error.kind(), Kind::Data);
    assert!(error.to_string().contains("none of the 48 words of the training captions occurs 17 times"), "{error}");
    assert!(error.hint_text().expect("a hint").contains("min_count"), "{told}");

    let mut other = world();
    let rows = (0..16).map(|i| (i, i, "train", format!("a v{i} w{i}")));
    other.tables.insert("captions".to_owned(), vec![captions(rows)]);
    other.run(&Train { min_count: 16, ..stage("epochs = 1") }).expect("one word is known");
    let told: Vec<&str> = other.warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert!(
        told.iter().any(|text| text.starts_with("32 of 48 words of the training captions are unknown")),
        "{told:?}"
    );
}

#[test]
fn bad_data_is_named() {
    let fails = |world: &mut MemoryWorld, more: &str, kind: Kind, part: &str| {
        let error = world.run(&stage(more)).expect_err(part);
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    };
    let mut other = world();
    other.tables.insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i, "test", "a".to_owned())))]);
    let none = "nothing to train on: table `captions` holds no caption of split `train` or `restval`";
    fails(&mut other, "epochs = 1", Kind::Data, none);

    let mut other = world();
    other.tables.insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i + 90, "train", "a".to_owned())))]);
    let none =
        "nothing to train on: none of the 4 captions of the splits `train` and `restval` has an image with a feature";
    fails(&mut other, "epochs = 1", Kind::Data, none);

    let mut other = world();
    other.tables.insert("captions".to_owned(), vec![captions((0..4).map(|i| (i, i, "train", " ".to_owned())))]);
    fails(&mut other, "epochs = 1", Kind::Data, "none of the 4 training captions holds a word");

    let mut other = world();
    other.tables.insert("features".to_owned(), vec![features(20, 10), features(1, 7)]);
    fails(
        &mut other,
        "epochs = 1",
        Kind::Data,
        "FixedSizeList(7 x non-null Float32)), wanted (image_id Int64, split Utf8, feature FixedSizeList(10",
    );

    let mut other = world();
    other.tables.insert("features".to_owned(), vec![features(20, 10), features(1, 10)]);
    fails(&mut other, "epochs = 1", Kind::Data, "image 0 has two features");

    let mut other = world();
    let rows = (0..4).map(|i| (i, i, "train", if i == 2 { "dog ".repeat(1001) } else { "a dog".to_owned() }));
    other.tables.insert("captions".to_owned(), vec![captions(rows)]);
    fails(&mut other, "epochs = 1", Kind::Data, "caption 2: 1001 words");

    let mut other = world();
    other.saved = Some(bytes::Bytes::from_static(b"no checkpoint"));
    fails(&mut other, "epochs = 1", Kind::Data, "safetensors");

    // Finite features whose norm is not: the step and the captions of its batch are named.
    let mut other = world();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..48));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; 48]));
    let columns = vec![ids, splits, tables::vectors(vec![3e38; 480], 10).expect("whole vectors")];
    let huge = tables::batch(&tables::features::table().schema_of_width(10), columns).expect("features");
    other.tables.insert("features".to_owned(), vec![huge]);
    fails(&mut other, "epochs = 1", Kind::Stage, "caption_id of the batch: ");
    let error = other.run(&stage("epochs = 1")).expect_err("no finite loss");
    assert!(error.to_string().starts_with("step 0 (epoch 0): the loss is NaN"), "{error}");
    assert!(other.put.is_empty(), "a model that is none was written");
}

/// Steps too small to change a parameter: all epochs are equal.
#[test]
fn of_equal_epochs_the_first_is_the_model() {
    let mut world = world();
    world.run(&Train { learning_rate: 1e-30, ..stage("epochs = 3") }).expect("a training");
    let validation = world.output("validation");
    let rsums = validation["rsum"].as_primitive::<Float64Type>().values();
    assert!(rsums[0] > 0.0 && rsums.iter().all(|rsum| rsum.to_bits() == rsums[0].to_bits()), "{rsums:?}");
    assert!(validation["best"].as_boolean().values().iter().eq([true, false, false]));
    assert_eq!((description(&world).epoch, description(&world).step), (0, 5));
}

/// A training whose checkpoints lie elsewhere is the same training, even one that goes on with another distance.
#[test]
fn the_distance_of_checkpoints_changes_no_row_and_no_key() {
    let stages = ["epochs = 2", "epochs = 2\ncheckpoint_steps = 2"].map(stage);
    assert_eq!(stages[0].settings(), stages[1].settings());
    assert!(stages[0].settings().get("epochs").is_some());
    let mut worlds = [world(), world()];
    for (world, stage) in worlds.iter_mut().zip(&stages) {
        world.run(stage).expect("a training");
    }
    let [seldom, often] = worlds;
    assert!(often.written["history"].len() > seldom.written["history"].len());
    assert_eq!(often.output("history"), seldom.output("history"));
    assert_eq!(often.put, seldom.put);

    let mut cut = world();
    cut.cancel_after_save = Some(1);
    cut.run(&stages[1]).expect_err("cancelled");
    let mut rest = world();
    rest.saved = cut.saved.clone();
    rest.run(&stages[0]).expect("the rest of a training");
    assert_eq!(rest.put, seldom.put);
}

#[test]
fn settings_that_cannot_work_are_all_named() {
    let mut stage = stage("epochs = 0\ncheckpoint_steps = 0\nclip = -1.0\ndecay = nan");
    stage.batch = 1;
    stage.model = serde_json::from_value(serde_json::json!({"vse": {"embedding": 1u64 << 40}})).expect("a model");
    stage.loss = Loss::Max(Max { margin: f64::NAN });
    let settings: Vec<String> = stage.check().into_iter().map(|problem| problem.setting).collect();
    assert_eq!(
        settings,
        ["epochs", "batch", "checkpoint_steps", "decay", "clip", "model.vse.embedding", "loss.max.margin"]
    );
}

/// A position of another plan means nothing in this one.
#[test]
fn a_checkpoint_of_another_plan_is_refused() {
    let mut cut = world();
    cut.cancel_after_save = Some(1);
    cut.run(&stage("epochs = 2")).expect_err("cancelled");
    let mut other = world();
    other.saved = cut.saved.clone();
    let error = other.run(&Train { batch: 20, ..stage("epochs = 2") }).expect_err("another plan");
    assert_eq!(error.kind(), Kind::Data);
    let text = error.to_string();
    assert!(text.contains("a checkpoint of another plan: it has samples [80]"), "{text}");
    assert!(
        text.contains("batch 16, seed") && text.contains("wanted samples [80]") && text.contains("batch 20"),
        "{text}"
    );
}

/// What is kept of the captions is what would be made of them again.
#[test]
fn what_is_kept_is_used_again() {
    let mut first = world();
    first.run(&stage("epochs = 2")).expect("a training");
    let mut second = world();
    second.kept = first.kept.clone();
    // Captions that would give another model if they were read.
    second.tables.insert("captions".to_owned(), vec![captions((0..8).map(|i| (i, i, "train", "a cat".to_owned())))]);
    second.run(&stage("epochs = 2")).expect("a training");
    assert_eq!(second.put, first.put);
    assert_eq!(second.warnings, first.warnings);
    let mut third = world();
    third.kept = first.kept.clone();
    third.run(&Train { min_count: 2, ..stage("epochs = 2") }).expect("a training");
    assert_ne!(third.kept.len(), first.kept.len(), "another vocabulary is another corpus");
}

#[test]
fn the_tables_of_the_plan_say_what_was_trained_on() {
    let mut world = world();
    world.run(&Train { order: Order::Windows(2), ..stage("epochs = 1") }).expect("a training");
    let (plan, samples) = (world.output("plan"), world.output("samples"));
    assert_eq!(plan.num_rows(), 1);
    assert_eq!(plan["samples"].as_primitive::<Int64Type>().values(), &[80]);
    assert_eq!(plan["window"].as_primitive::<Int64Type>().values(), &[2]);
    assert_eq!(samples.num_rows(), 80);
    let images = samples["image_id"].as_primitive::<Int64Type>().values();
    let shards = samples["shard"].as_primitive::<Int64Type>().values();
    let rows = samples["row"].as_primitive::<Int64Type>().values();
    for row in 1..80 {
        assert!((shards[row - 1], rows[row - 1]) <= (shards[row], rows[row]));
        assert_eq!(images[row - 1] == images[row], (shards[row - 1], rows[row - 1]) == (shards[row], rows[row]));
    }
}

/// The second data set has twice the weight; its images have the numbers of the first and are others.
#[test]
fn data_sets_are_mixed() {
    let mut world = world();
    world.tables.insert("mixed_with.0.features".to_owned(), vec![features(8, 10)]);
    let rows = (0..8).map(|i| (i + 500, i, "train", format!("some thing {i}")));
    world.tables.insert("mixed_with.0.captions".to_owned(), vec![captions(rows)]);
    let mixed = "epochs = 2\nmixed_with = [{ features = \"c.features\", captions = \"c.captions\", weight = 2.0 }]";
    let stage = stage(mixed);
    assert_eq!(stage.inputs().len(), 4);
    assert_eq!(stage.inputs()[3].name, "mixed_with.0.captions");
    world.run(&stage).expect("a training");
    assert_eq!(world.output("plan")["samples"].as_primitive::<Int64Type>().values(), &[80, 8]);
    let pairs = world.output("history")["pairs"].as_primitive::<Int64Type>().values().iter().sum::<i64>();
    assert_eq!(pairs, 2 * 88);
    assert!(description(&world).vocabulary.contains(&"thing".to_owned()));

    world.tables.insert("mixed_with.0.features".to_owned(), vec![features(8, 9)]);
    world.kept.clear();
    let error = world.run(&stage).expect_err("another width");
    assert_eq!(error.to_string(), "`mixed_with.0.features` has width 9, wanted 10");
}
