//! `train` with a network that learns with the rest.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

use super::Train;
use super::tests::{captions, description, file};
use crate::kernels::sample::Sample;
use crate::model::cnn::{Cnn, Output};
use crate::model::trained::{DESCRIPTION, PARAMETERS, Trained};
use crate::stage::Stage;
use crate::stages::testing::{self, MemoryWorld};
use crate::tables;

const IMAGES: usize = 10;
const COLOURS: [[u8; 3]; 4] = [[230, 20, 20], [20, 230, 20], [20, 20, 230], [220, 220, 30]];
const NAMES: [&str; 4] = ["red", "green", "blue", "yellow"];

/// A picture of one colour with a little noise.
fn picture(number: usize) -> Vec<u8> {
    let mut sample = Sample::new(7, &[number as u64]);
    let colour = COLOURS[number % 4];
    let mut rgb = Vec::new();
    for _ in 0..48 * 40 {
        rgb.extend(colour.map(|value| value.saturating_add(u8::try_from(sample.below(25)).unwrap())));
    }
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&rgb, 48, 40, ExtendedColorType::Rgb8).unwrap();
    bytes
}

fn images() -> RecordBatch {
    let ids = 0..i64::try_from(IMAGES).unwrap();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| if id < 6 { "train" } else { "val" }))),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("number {id}")))),
        Arc::new(StringArray::from_iter(ids.map(|_| None::<&str>))),
        Arc::new(BinaryArray::from_iter_values((0..IMAGES).map(picture))),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

fn world() -> MemoryWorld {
    let mut world = MemoryWorld::default();
    world.tables.insert("pictures.images".to_owned(), vec![images()]);
    let rows = (0..2 * IMAGES).map(|i| {
        let image = i / 2;
        (i, image, if image < 6 { "train" } else { "val" }, format!("a {} picture", NAMES[image % 4]))
    });
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    world
}

fn stage(more: &str) -> Train {
    let text = format!(
        "captions = \"x.captions\"\nbatch = 4\nmodel.vse.embedding = 16\nmodel.vse.word = 8\nmin_count = 1\nlearning_rate = 1e-3\nseed = 5\n\
         pictures = {{ images = \"x.images\", network = \"squeezenet1_0\", weights = \"random\", side = 32, resize = 36 }}\n\
         loss = {{ sum = {{}} }}\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

#[test]
fn the_network_learns_and_its_features_embed_as_the_training_did() {
    let stage = stage("epochs = 2\ncheckpoint_steps = 2");
    assert_eq!(stage.check(), []);
    let mut whole = world();
    whole.run(&stage).expect("a training");
    let found = description(&whole);
    let pictures = found.config.data().pictures.expect("a network");
    let architecture = pictures.network.body();
    let parameters = file(&whole, PARAMETERS);
    let device = tch::Device::Cpu;
    let learned = Cnn::from_model(architecture.clone(), &parameters, device).expect("the network");
    let random = Cnn::random(architecture, 5, device).expect("the network");
    let moved = learned.parameters().iter().zip(random.parameters()).filter(|((_, a), (_, b))| a != b).count();
    assert!(moved > 40, "{moved} parameters of the network have moved");

    // What validation ranked is what features of the learned network give.
    let trained = Trained::read(&file(&whole, DESCRIPTION), &parameters, device).expect("a model");
    assert!(trained.network.is_some() && trained.image_values() == 512);
    let mut pixels = vec![0.0; 3 * 32 * 32];
    let shown = crate::loader::AugmentedPictures::new(vec![images()], None, 32).unwrap();
    shown.centre(7, 36, &mut pixels).unwrap();
    let feature = learned.compute(&pixels, 32, Output::Average).unwrap();
    let norm = feature.iter().map(|value| value * value).sum::<f32>().sqrt();
    let unit: Vec<f32> = feature.iter().map(|value| value / norm).collect();
    let embedded = trained.vectors(&trained.encode_images(&unit).unwrap()).unwrap();
    assert!((embedded.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-5);
    let rsums = whole.output("validation")["rsum"].as_primitive::<Float64Type>().values().to_vec();
    assert!(rsums.iter().all(|rsum| (0.0..=600.0).contains(rsum)), "{rsums:?}");

    // Views are functions of the position: going on gives the same to the bit.
    testing::resumed_wherever_it_is_cut(&stage, world, &["history"]);
}

/// What a bank of pictures needs is their centres; and a model of features is where fine-tuning begins.
#[test]
fn fine_tuning_begins_with_a_model_of_features() {
    let mut first = MemoryWorld::default();
    first.tables = world().tables;
    let width = 512;
    let mut sample = Sample::new(1, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    let values: Vec<f32> = (0..IMAGES * width).map(|_| sample.unit() as f32).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..i64::try_from(IMAGES).unwrap()));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; IMAGES]));
    let columns = vec![ids, splits, tables::vectors(values, width).unwrap()];
    let features = tables::batch(&tables::features::table().schema_of_width(width), columns).unwrap();
    first.tables.insert("features".to_owned(), vec![features]);
    let frozen =
        Train { pictures: None, features: Some("x.features".to_owned().try_into().unwrap()), ..stage("epochs = 1") };
    first.run(&frozen).expect("a training on features");

    let tune = Train { learning_rate: 1e-30, ..stage("start = \"first.model\"\nepochs = 1") };
    let mut tuned = world();
    for ((_, name), content) in &first.put {
        tuned.files.insert(("start".to_owned(), name.clone()), content.clone());
    }
    tuned.run(&tune).expect("fine-tuning");
    let tensors = |world: &MemoryWorld| file(world, PARAMETERS);
    let (before, after) = (tensors(&first), tensors(&tuned));
    let read = |bytes: &bytes::Bytes, name: &str| {
        safetensors::SafeTensors::deserialize(bytes).unwrap().tensor(name).unwrap().data().to_vec()
    };
    for name in ["img_enc.fc.weight", "txt_enc.rnn.weight_hh_l0"] {
        assert_eq!(read(&before, name), read(&after, name), "steps that change nothing leave `{name}` as it was given");
    }

    let mut other = world();
    other.files = tuned.files.clone();
    let rows = (0..12).map(|i| (i, i / 2, "train", format!("a {} thing", NAMES[i / 2 % 4])));
    other.tables.insert("captions".to_owned(), vec![captions(rows)]);
    let error = other.run(&tune).expect_err("another vocabulary");
    assert!(error.to_string().contains("the model to start with has"), "{error}");

    let bank = "loss = { hal = {} }\nbank = { rows = 6, neighbours = 2, first_epoch = 0 }\nepochs = 1";
    let with_bank: Train = {
        let plain = stage("epochs = 1");
        let settings: Train =
            toml::from_str(&format!("features = \"x.f\"\ncaptions = \"x.captions\"\n{bank}")).unwrap();
        Train { loss: settings.loss, bank: settings.bank, ..plain }
    };
    let mut banked = world();
    banked.run(&with_bank).expect("a training with a bank of pictures");
    assert_eq!(banked.output("memory_bank").num_rows(), 6);
}

#[test]
fn images_come_from_one_place() {
    let settings = |text: &str| -> Vec<String> {
        let stage: Train = toml::from_str(&format!("captions = \"x.captions\"\nepochs = 1\n{text}")).unwrap();
        stage.check().into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(settings(""), ["features"]);
    let pictures = "pictures = { images = \"x.images\", network = \"resnet18\", weights = \"random\"";
    assert_eq!(settings(&format!("features = \"x.features\"\n{pictures} }}")), ["pictures"]);
    assert_eq!(
        settings(&format!("{pictures}, side = 8, resize = 4 }}")),
        ["pictures.side", "pictures.resize", "pictures.resize"]
    );
    let mixed = "mixed_with = [{ features = \"y.features\", captions = \"y.captions\", weight = 1.0 }]";
    assert_eq!(settings(&format!("{pictures} }}\n{mixed}")), ["mixed_with"]);
}
