//! Helpers of the tests of `train`: a toy data set, and access to what a training wrote.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};

use pairloom_kernels::random::Rng;
use pairloom_model::trained_model::{DESCRIPTION_FILE, ModelDescription};
use pairloom_spec::stages::train::Train;
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

/// Colours in the captions of the toy data set.
pub(super) const COLOURS: [&str; 6] = ["red", "green", "blue", "black", "white", "brown"];
/// Objects in the captions of the toy data set.
pub(super) const OBJECTS: [&str; 4] = ["dog", "cat", "ball", "car"];

/// Settings of a small training, with the additional lines `more`.
pub(super) fn stage(more: &str) -> Train {
    let text = format!(
        "features = \"x.features\"\ncaptions = \"x.captions\"\nbatch_size = 16\nmodel.vse.embed_size = 32\nmodel.vse.word_dim = 16\nmin_count = 1\n\
         learning_rate = 0.01\nseed = 5\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

/// Host with the toy data set: 48 images, each of an object in a colour, with two captions per image.
pub(super) fn host() -> InMemoryHost {
    let mut host = InMemoryHost::default();
    host.input_tables.insert("features".to_owned(), vec![features(48, 10)]);
    let rows = (0..96).map(|i| {
        let image = i / 2;
        let split = if image < 40 { ["train", "restval"][image % 2] } else { "val" };
        let (colour, object) = (COLOURS[image % 6], OBJECTS[image / 6 % 4]);
        let text =
            if i % 2 == 0 { format!("A {colour} {object}.") } else { format!("There's a {object}, it is {colour}") };
        (i, image, split, text)
    });
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    host
}

/// Features of the toy data set: one-hot codes of colour and object, with noise.
pub(super) fn features(images: usize, width: usize) -> RecordBatch {
    let mut rng = Rng::new(1, &[]);
    let mut values = Vec::new();
    for image in 0..images {
        let code = |i: usize| f32::from(u8::from(i == image % 6 || i == 6 + image / 6 % 4));
        #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
        values.extend((0..width).map(|i| code(i) + 0.1 * rng.uniform() as f32));
    }
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values((0..images).map(to_i64)));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; images]));
    let columns = vec![ids, splits, tables::vector_array(values, width).expect("whole vectors")];
    tables::batch(&tables::features::table().schema_with_width(width), columns).expect("features")
}

/// Table `captions` with rows of (`caption_id`, `image_id`, split, text).
pub(super) fn captions(rows: impl Iterator<Item = (usize, usize, &'static str, String)>) -> RecordBatch {
    let rows: Vec<_> = rows.collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| to_i64(row.0)))),
        Arc::new(Int64Array::from_iter_values(rows.iter().map(|row| to_i64(row.1)))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.2))),
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| row.3.as_str()))),
    ];
    tables::batch(&tables::captions::table().schema(), columns).expect("captions")
}

fn to_i64(count: usize) -> i64 {
    i64::try_from(count).expect("a small number")
}

/// File of the model that a training wrote.
pub(super) fn file(host: &InMemoryHost, name: &str) -> bytes::Bytes {
    host.output_files[&("model".to_owned(), name.to_owned())].clone()
}

/// Description of the model that a training wrote.
pub(super) fn description(host: &InMemoryHost) -> ModelDescription {
    serde_json::from_slice(&file(host, DESCRIPTION_FILE)).expect("a description")
}
