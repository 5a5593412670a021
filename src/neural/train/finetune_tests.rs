//! Tests of `train` with a network that is fine-tuned.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, BinaryArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Float64Type;
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};

use super::testing::{captions, description, file};
use crate::testing::RunOnHost as _;
use pairloom_images::image::picture_digests;
use pairloom_kernels::random::Rng;
use pairloom_loader::{AugmentedImages, PixelFormat};
use pairloom_model::networks::{ImageNetwork, NetworkOutput};
use pairloom_model::trained_model::{DESCRIPTION_FILE, PARAMETERS_FILE, TrainedModel};
use pairloom_spec::stages::train::Train;
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_tables as tables;

const IMAGES: usize = 10;
const COLOURS: [[u8; 3]; 4] = [[230, 20, 20], [20, 230, 20], [20, 20, 230], [220, 220, 30]];
const NAMES: [&str; 4] = ["red", "green", "blue", "yellow"];

/// PNG of one colour with a little noise.
fn png(number: usize) -> Vec<u8> {
    let mut rng = Rng::new(7, &[number as u64]);
    let colour = COLOURS[number % 4];
    let mut rgb = Vec::new();
    for _ in 0..48 * 40 {
        rgb.extend(colour.map(|value| value.saturating_add(u8::try_from(rng.uniform_below(25)).unwrap())));
    }
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&rgb, 48, 40, ExtendedColorType::Rgb8).unwrap();
    bytes
}

fn images() -> RecordBatch {
    let ids = 0..i64::try_from(IMAGES).unwrap();
    let bytes = BinaryArray::from_iter_values((0..IMAGES).map(png));
    let digests = picture_digests(&bytes);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone())),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| if id < 6 { "train" } else { "val" }))),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| format!("number {id}")))),
        Arc::new(StringArray::from_iter(ids.map(|_| None::<&str>))),
        Arc::new(bytes),
        Arc::new(digests),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

fn host() -> InMemoryHost {
    let mut host = InMemoryHost::default();
    host.input_tables.insert("finetune.images".to_owned(), vec![images()]);
    let rows = (0..2 * IMAGES).map(|i| {
        let image = i / 2;
        (i, image, if image < 6 { "train" } else { "val" }, format!("a {} picture", NAMES[image % 4]))
    });
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    host
}

fn stage(more: &str) -> Train {
    let text = format!(
        "captions = \"x.captions\"\nbatch_size = 4\nmodel.vse.embed_size = 16\nmodel.vse.word_dim = 8\nmin_count = 1\nlearning_rate = 1e-3\nseed = 5\n\
         finetune = {{ images = \"x.images\", network = \"squeezenet1_0\", weights = \"random\", crop = 32, resize = 36 }}\n\
         loss = {{ sum = {{}} }}\n{more}"
    );
    toml::from_str(&text).expect("settings of a training")
}

#[test]
fn the_network_is_trained_and_a_training_resumes_bit_for_bit() {
    let stage = stage("epochs = 2\ncheckpoint_steps = 2");
    assert_eq!(stage.check(), []);
    let mut whole = host();
    whole.run_stage(&stage).expect("a training");
    let found = description(&whole);
    let pictures = found.config.input_spec().pictures.expect("a network");
    let architecture = pictures.network.backbone();
    let parameters = file(&whole, PARAMETERS_FILE);
    let device = tch::Device::Cpu;
    let learned = ImageNetwork::from_model(architecture.clone(), &parameters, device).expect("the network");
    let random = ImageNetwork::random(architecture, 5, device).expect("the network");
    let moved = learned.parameters().iter().zip(random.parameters()).filter(|((_, a), (_, b))| a != b).count();
    assert!(moved > 40, "{moved} parameters of the network have changed");

    // The features of the learned network can be embedded.
    let trained = TrainedModel::read(&file(&whole, DESCRIPTION_FILE), &parameters, device).expect("a model");
    assert!(trained.network.is_some() && trained.input_spec().values_per_image() == 512);
    let mut pixels = vec![0.0; 3 * 32 * 32];
    let shown = AugmentedImages::new(vec![images()], None, PixelFormat::imagenet(32)).unwrap();
    shown.write_centre_crop(7, &mut pixels).unwrap();
    let feature = learned.compute(&pixels, 32, NetworkOutput::PooledFeatures).unwrap();
    let norm = feature.iter().map(|value| value * value).sum::<f32>().sqrt();
    let unit: Vec<f32> = feature.iter().map(|value| value / norm).collect();
    let embedded = trained.single_vectors(&trained.encode_images(&unit, 512).unwrap()).unwrap();
    assert!((embedded.iter().map(|value| value * value).sum::<f32>() - 1.0).abs() < 1e-5);
    let rsums = whole.output("validation")["rsum"].as_primitive::<Float64Type>().values().to_vec();
    assert!(rsums.iter().all(|rsum| (0.0..=600.0).contains(rsum)), "{rsums:?}");

    // Augmentations are functions of the position, so a resumed training is identical.
    stage_testing::check_resume_after_every_save(|host| host.run_stage(&stage), host, &["history"]);
}

/// Also with a memory bank, which uses centre crops.
#[test]
fn fine_tuning_is_initialised_from_a_model_of_features() {
    let mut first = InMemoryHost::default();
    first.input_tables = host().input_tables;
    let width = 512;
    let mut rng = Rng::new(1, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    let values: Vec<f32> = (0..IMAGES * width).map(|_| rng.uniform() as f32).collect();
    let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(0..i64::try_from(IMAGES).unwrap()));
    let splits: ArrayRef = Arc::new(StringArray::from(vec!["train"; IMAGES]));
    let columns = vec![ids, splits, tables::vector_array(values, width).unwrap()];
    let features = tables::batch(&tables::features::table().schema_with_width(width), columns).unwrap();
    first.input_tables.insert("features".to_owned(), vec![features]);
    let frozen =
        Train { finetune: None, features: Some("x.features".to_owned().try_into().unwrap()), ..stage("epochs = 1") };
    first.run_stage(&frozen).expect("a training on features");

    let tune = Train { learning_rate: 1e-30, ..stage("init_from = \"first.model\"\nepochs = 1") };
    let mut tuned = host();
    for ((_, name), content) in &first.output_files {
        tuned.input_files.insert(("init_from".to_owned(), name.clone()), content.clone());
    }
    tuned.run_stage(&tune).expect("fine-tuning");
    let tensors = |host: &InMemoryHost| file(host, PARAMETERS_FILE);
    let (before, after) = (tensors(&first), tensors(&tuned));
    let read = |bytes: &bytes::Bytes, name: &str| {
        safetensors::SafeTensors::deserialize(bytes).unwrap().tensor(name).unwrap().data().to_vec()
    };
    for name in ["img_enc.fc.weight", "txt_enc.rnn.weight_hh_l0"] {
        assert_eq!(read(&before, name), read(&after, name), "`{name}` is the initial one");
    }

    let mut other = host();
    other.input_files = tuned.input_files.clone();
    let rows = (0..12).map(|i| (i, i / 2, "train", format!("a {} thing", NAMES[i / 2 % 4])));
    other.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    let error = other.run_stage(&tune).expect_err("another vocabulary");
    assert!(error.to_string().contains("the model of `init_from` has"), "{error}");

    let bank = "loss = { hal = {} }\nmemory_bank = { samples = 6, neighbours = 2, first_epoch = 0 }\nepochs = 1";
    let with_bank: Train = {
        let plain = stage("epochs = 1");
        let settings: Train =
            toml::from_str(&format!("features = \"x.f\"\ncaptions = \"x.captions\"\n{bank}")).unwrap();
        Train { loss: settings.loss, memory_bank: settings.memory_bank, ..plain }
    };
    let mut banked = host();
    banked.run_stage(&with_bank).expect("a fine-tuning with a memory bank");
    assert_eq!(banked.output("memory_bank").num_rows(), 6);
}

#[test]
fn either_features_or_finetune_is_required() {
    let settings = |text: &str| -> Vec<String> {
        let stage: Train = toml::from_str(&format!("captions = \"x.captions\"\nepochs = 1\n{text}")).unwrap();
        stage.check().into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(settings(""), ["features"]);
    let finetune = "finetune = { images = \"x.images\", network = \"resnet18\", weights = \"random\"";
    assert_eq!(settings(&format!("features = \"x.features\"\n{finetune} }}")), ["finetune"]);
    assert_eq!(
        settings(&format!("{finetune}, crop = 8, resize = 4 }}")),
        ["finetune.crop", "finetune.resize", "finetune.resize"]
    );
    let of_batch = format!("{finetune}, batch_norm = \"batch\" }}");
    assert_eq!(settings(&of_batch), [""; 0]);
    assert_eq!(settings(&format!("ranks = 2\n{of_batch}")), ["ranks"]);
    assert_eq!(settings(&of_batch.replace("resnet18", "vgg16")), ["finetune.batch_norm"]);
    let frozen = format!("{finetune}, batch_norm = \"frozen\" }}");
    let keys = [frozen, format!("{finetune} }}")].map(|text| {
        let stage: Train = toml::from_str(&format!("captions = \"x.captions\"\nepochs = 1\n{text}")).unwrap();
        stage.settings()
    });
    assert_eq!(keys[0], keys[1], "the key of older results");
    let mixed = "mixed_with = [{ features = \"y.features\", captions = \"y.captions\", weight = 1.0 }]";
    assert_eq!(settings(&format!("{finetune} }}\n{mixed}")), ["mixed_with"]);
}
