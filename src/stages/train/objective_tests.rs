//! `train` with every objective, with a memory bank and with margins from what captions say.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};

use super::tests::{COLOURS, THINGS, captions, description, features, file, stage, world};
use crate::error::Kind;
use crate::kernels::text::cider::{Frequency, Ngrams};
use crate::model::trained::{DESCRIPTION, PARAMETERS, Trained};
use crate::stage::Stage;
use crate::stages::testing::{self, MemoryWorld};
use crate::tables;

/// The captions of [`world`] as vectors, made by the kernels that `compare` makes them with.
fn caption_ngrams() -> RecordBatch {
    let texts: Vec<(usize, usize, Vec<String>)> = (0..96)
        .map(|i| {
            let image = i / 2;
            let (colour, thing) = (COLOURS[image % 6], THINGS[image / 6 % 4]);
            let text =
                if i % 2 == 0 { format!("a {colour} {thing}") } else { format!("there 's a {thing} , it is {colour}") };
            (i, image, text.split(' ').map(str::to_owned).collect())
        })
        .collect();
    let mut ngrams = Ngrams::default();
    let counted: Vec<_> = texts.iter().map(|(.., words)| ngrams.count(words)).collect();
    let mut frequency = Frequency::default();
    for pair in counted.chunks(2) {
        frequency.add(pair.iter().map(Vec::as_slice));
    }
    let idf = frequency.idf(None).expect("document frequencies");
    let schema = tables::caption_ngrams::table().schema();
    let number = |value: usize| i64::try_from(value).expect("a small number");
    let lengths = || counted.iter().map(Vec::len);
    let all = || counted.iter().flatten();
    let list = |name: &str, values: ArrayRef| tables::list(&schema, name, lengths(), values).expect("a list");
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.0)))),
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.1)))),
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.2.len())))),
        list("ngrams", Arc::new(Int64Array::from_iter_values(all().map(|ngram| i64::from(ngram.number))))),
        list("orders", Arc::new(all().map(|ngram| Some(ngram.order)).collect::<arrow::array::Int8Array>())),
        list("counts", Arc::new(all().map(|ngram| Some(ngram.count)).collect::<arrow::array::Int32Array>())),
        list(
            "weights",
            Arc::new(arrow::array::Float64Array::from_iter_values(
                all().map(|ngram| f64::from(ngram.count) * idf.of(ngram.number)),
            )),
        ),
        Arc::new(StringArray::from(vec!["ptb"; texts.len()])),
    ];
    tables::batch(&schema, columns).expect("captions as vectors")
}

pub(super) fn world_with_ngrams() -> MemoryWorld {
    let mut world = world();
    world.tables.insert("caption_ngrams".to_owned(), vec![caption_ngrams()]);
    world
}

const NGRAMS: &str = "caption_ngrams = \"m.caption_ngrams\"";

/// Eight images of which no two are alike: chance gives about 12 + 60 + 100 in either direction.
#[test]
fn every_objective_learns_what_there_is_to_learn() {
    let objectives = [
        "loss = { knn_margin = { k = 3 } }",
        "loss = { local_scaling = { k = 3, over = \"sum\" } }",
        "loss = { local_scaling = { k = 3, over = \"max\" } }",
        "loss = { hal = { gamma = 30.0, epsilon = 0.3 } }",
        "loss = { hal = { variant = \"official\" } }",
        "loss = { hal = {} }\nbank = { fraction = 0.5, neighbours = 5 }",
        "loss = { hal = { variant = \"official\" } }\n\
         bank = { fraction = 0.5, neighbours = 5, sampling = \"batches\", mask = \"batch_captions\" }",
        "loss = { info_nce = {} }",
        "loss = { hal = { epsilon = 0.0 } }\nmodel.vse.similarity = { order = {} }",
        "loss = { max = {} }\nwarm_up = { epochs = 3 }\nsame_image = \"mask\"",
        "loss = { max = {} }\nmodel.vse.similarity = { order = {} }",
        "loss = { sum = { margin = 0.05 } }\nmodel.vse.similarity = { order = { form = \"squared\" } }",
        "loss = { max = {} }\nsemantic_margin = { temperature = 3.0, sampler = \"furthest\" }",
        "loss = { max = {} }\nsemantic_margin = { temperature = 3.0, sampler = \"random\", keep_triplet = false }",
        "loss = { max = {} }\nsemantic_margin = { temperature = 3.0, sampler = \"nearest\", variant = \"official\" }",
        "loss = { sum = {} }\nmodel.vse.bidirectional = true\nmodel.vse.pooling = \"mean\"",
        "loss = { sum = {} }\nmodel.vse.pooling = \"max\"\nprecision = \"mixed\"",
    ];
    for objective in objectives {
        let ngrams = if objective.contains("semantic") { NGRAMS } else { "" };
        let stage = stage(&format!("epochs = 40\n{objective}\n{ngrams}"));
        assert_eq!(stage.check(), [], "{objective}");
        let mut world = world_with_ngrams();
        world.run(&stage).unwrap_or_else(|error| panic!("{objective}: {error}"));
        let rsum = description(&world).rsum.expect("a validation split");
        assert!(rsum > 500.0, "{objective}: {rsum}");
    }
}

#[test]
fn a_bank_holds_what_the_model_saw_when_the_epoch_began() {
    let mut world = world();
    let rows = (0..80).map(|i| (i, i / 2, "train", format!("a {} {}", COLOURS[i / 2 % 6], THINGS[i / 12 % 4])));
    world.tables.insert("captions".to_owned(), vec![captions(rows)]);
    let bank = "loss = { hal = {} }\nbank = { rows = 20, neighbours = 5, first_epoch = 1 }";
    world.run(&stage(&format!("epochs = 3\n{bank}"))).expect("a training");
    let table = world.output("memory_bank");
    let epochs = table["epoch"].as_primitive::<Int64Type>().values();
    assert!(epochs.iter().copied().eq((1..3).flat_map(|epoch| [epoch; 20])), "{epochs:?}");

    // The model after the first epoch is the one that the bank of the second was made with.
    let mut first = MemoryWorld::default();
    first.tables.clone_from(&world.tables);
    first.run(&stage("epochs = 1\nloss = { hal = {} }")).expect("a training");
    let trained = Trained::read(&file(&first, DESCRIPTION), &file(&first, PARAMETERS), tch::Device::Cpu).unwrap();
    let images = table["image_id"].as_primitive::<Int64Type>().values();
    let all = features(48, 10);
    let of = |name: &str, row: usize| -> Vec<f32> {
        let vectors: &FixedSizeListArray = table[name].as_fixed_size_list();
        vectors.value(row).as_primitive::<Float32Type>().values().to_vec()
    };
    for row in 0..20 {
        let vectors = all["feature"].as_fixed_size_list().value(usize::try_from(images[row]).unwrap());
        let feature: &Float32Array = vectors.as_primitive();
        let wanted = trained.vectors(&trained.encode_images(feature.values()).unwrap()).unwrap();
        assert!(of("image", row).iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-6));
        let caption = usize::try_from(table["caption_id"].as_primitive::<Int64Type>().value(row)).unwrap();
        assert_eq!(images[row], i64::try_from(caption / 2).unwrap());
        let text = format!("a {} {}", COLOURS[caption / 2 % 6], THINGS[caption / 12 % 4]);
        let words = trained.words(&text).unwrap();
        let wanted = trained.vectors(&trained.encode_captions(&[&words]).unwrap()).unwrap();
        assert!(of("caption", row).iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    // Another epoch draws other samples.
    assert_ne!(images[..20], images[20..]);
}

#[test]
fn a_resumed_training_with_a_bank_is_the_same_to_the_bit() {
    let more = "epochs = 3\ncheckpoint_steps = 2\nloss = { hal = {} }\nbank = { rows = 30, neighbours = 5 }\n\
                semantic_margin = { sampler = \"random\" }\nselect = \"ncs\"";
    let stage = stage(&format!("{more}\n{NGRAMS}"));
    testing::resumed_wherever_it_is_cut(&stage, world_with_ngrams, &["history", "validation", "memory_bank"]);
}

#[test]
fn warm_up_is_sum_and_then_the_objective() {
    let losses = |more: &str| -> Vec<u64> {
        let mut world = world();
        world.run(&stage(&format!("epochs = 2\n{more}"))).expect("a training");
        let history = world.output("history");
        history["loss"].as_primitive::<Float64Type>().values().iter().map(|loss| loss.to_bits()).collect()
    };
    let (warm, sum) = (losses("loss = { max = {} }\nwarm_up = { epochs = 1 }"), losses("loss = { sum = {} }"));
    assert_eq!(warm[..5], sum[..5], "the first epoch");
    assert_ne!(warm[5..], sum[5..]);
}

/// By hand: NCS of a model that ranks as φ does is 100 at every cut-off in either direction.
#[test]
fn the_best_epoch_is_chosen_by_what_was_asked_for() {
    for (select, least, most) in [("rsum", 500.0, 600.0), ("t2i", 250.0, 300.0), ("ncs", 400.0, 600.0)] {
        let mut world = world_with_ngrams();
        let ngrams = if select == "ncs" { NGRAMS } else { "" };
        world.run(&stage(&format!("epochs = 30\nselect = \"{select}\"\nloss = {{ sum = {{}} }}\n{ngrams}"))).unwrap();
        let validation = world.output("validation");
        let scores = validation["score"].as_primitive::<Float64Type>().values();
        let best = scores.iter().copied().fold(0.0, f64::max);
        assert!((least..=most).contains(&best), "{select}: {best}");
        let epoch = scores.iter().position(|&score| score == best).unwrap();
        assert_eq!(description(&world).epoch, epoch as u64, "{select}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let refuse = |more: &str, part: &str| {
        let mut world = world_with_ngrams();
        let error = world.run(&stage(more)).expect_err(part);
        assert_eq!(world.saves, 0, "before the first step");
        assert_eq!(error.kind(), Kind::Data, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    };
    refuse(
        "epochs = 2\nloss = { hal = {} }\nbank = { rows = 300 }",
        "`bank.rows` is 300, but there are 80 training samples",
    );
    let few = "`bank.neighbours` is 250, but the bank has 4 rows, of 80 training samples";
    refuse("epochs = 2\nloss = { hal = {} }\nbank = {}", few);

    let mut other = world_with_ngrams();
    let all = caption_ngrams();
    other.tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 78)]);
    let semantic = stage(&format!("epochs = 1\nsemantic_margin = {{}}\n{NGRAMS}"));
    let error = other.run(&semantic).expect_err("captions are missing").to_string();
    assert_eq!(error, "2 of 80 training captions are not in `caption_ngrams` (caption_id 78, 79)");
    other.tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 80), all.slice(5, 1)]);
    let error = other.run(&semantic).expect_err("a caption twice").to_string();
    assert_eq!(error, "caption 5 is twice in `caption_ngrams`, wanted once");
    other.tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 80)]);
    let select = stage(&format!("epochs = 1\nselect = \"ncs\"\n{NGRAMS}"));
    let error = other.run(&select).expect_err("validation captions are missing").to_string();
    assert!(error.starts_with("caption 80 of split `val` is not in `caption_ngrams`"), "{error}");

    let settings = |more: &str| -> Vec<String> {
        stage(&format!("epochs = 1\n{more}")).check().into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(settings("bank = { first_epoch = 0 }"), ["bank"]);
    assert_eq!(settings("semantic_margin = {}"), ["semantic_margin"]);
    assert_eq!(settings("select = \"ncs\""), ["select"]);
    assert_eq!(settings(NGRAMS), ["caption_ngrams"]);
    assert_eq!(settings("ranks = 0"), ["ranks"]);
    assert_eq!(settings("ranks = 17"), ["ranks"]);
    assert_eq!(settings("warm_up = { epochs = 0, margin = -1.0 }"), ["warm_up.epochs", "warm_up.margin"]);
    assert_eq!(settings("warm_up = { epochs = 1 }"), ["warm_up.epochs"], "no epoch is left");
    assert_eq!(settings("loss = { hal = {} }\nbank = { first_epoch = 1 }"), ["bank.first_epoch"]);
    assert_eq!(settings("loss = { hal = {} }\nmodel.vse.similarity = { order = {} }"), ["loss.hal.epsilon"]);
    let official = "loss = { hal = { epsilon = 0.0, variant = \"official\" } }\nmodel.vse.similarity = { order = {} }";
    assert_eq!(settings(official), ["loss.hal.variant"]);
    let alone = format!(
        "loss = {{ hal = {{}} }}\nbank = {{ first_epoch = 0 }}\nsemantic_margin = {{ keep_triplet = false }}\n{NGRAMS}"
    );
    assert_eq!(settings(&alone), ["bank"]);
    assert_eq!(settings("loss = { knn_margin = { k = 16 } }"), ["loss.knn_margin.k"]);
    let bank = "loss = { hal = {} }\nbank = { first_epoch = 0, fraction = 0.0, rows = 5, neighbours = 9, alpha = nan, sampling = \"batches\" }";
    assert_eq!(settings(bank), ["bank.fraction", "bank.rows", "bank.neighbours", "bank.alpha"]);
}

/// Two words of the vocabulary in the form of `GloVe`, each in a corner of its own.
#[test]
fn words_begin_with_the_vectors_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("glove.txt");
    let line = |word: &str, value: f32| format!("{word}{}\n", format!(" {value}").repeat(16));
    std::fs::write(&path, line("dog", 0.5) + &line("Red", -0.25) + &line("zebra", 1.0)).unwrap();
    let of = |more: &str| {
        let mut world = world();
        world.paths.insert("word_vectors.file".to_owned(), path.clone());
        world.run(&stage(&format!("epochs = 2\nword_vectors = {{ file = \"glove.txt\"{more} }}"))).expect("a training");
        let told = world.warnings.iter().find(|warning| warning.subject == "word_vectors.file").expect("a warning");
        assert!(told.message.contains("words are not in it: their vectors begin at random"), "{}", told.message);
        let words = description(&world).vocabulary;
        let parameters = file(&world, PARAMETERS);
        let tensors = safetensors::SafeTensors::deserialize(&parameters).unwrap();
        let view = tensors.tensor("txt_enc.embed.weight").unwrap();
        let values: Vec<f32> =
            view.data().chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        move |word: &str| {
            let place = words.iter().position(|other| other == word).unwrap();
            values[place * 16..][..16].to_vec()
        }
    };
    let frozen = of(", train = false");
    assert_eq!((frozen("dog"), frozen("red")), (vec![0.5; 16], vec![-0.25; 16]));
    let trained = of("");
    assert!(trained("dog") != vec![0.5; 16] && trained("dog").iter().all(|value| (value - 0.5).abs() < 0.15));

    std::fs::write(&path, line("zebra", 1.0)).unwrap();
    let mut other = world();
    other.paths.insert("word_vectors.file".to_owned(), path.clone());
    let settings = "epochs = 1\nword_vectors = { file = \"glove.txt\" }";
    let error = other.run(&stage(settings)).expect_err("no word is found");
    assert!(error.to_string().contains("words of the vocabulary"), "{error}");
    std::fs::write(&path, "dog 1 2 3\n").unwrap();
    let error = other.run(&stage(settings)).expect_err("another width");
    assert!(error.to_string().contains("vectors have width 3, wanted 16"), "{error}");
}
