//! Tests of `train` with every objective, with a memory bank, with semantic margins, and with word vectors.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, FixedSizeListArray, Float32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{Float32Type, Float64Type, Int64Type};

use super::testing::{COLOURS, OBJECTS, captions, description, features, file, host, stage};
use crate::testing::RunOnHost as _;
use pairloom_base::error::ErrorCategory;
use pairloom_kernels::text::cider::{DocumentFrequency, NgramVocabulary};
use pairloom_model::trained_model::{DESCRIPTION_FILE, PARAMETERS_FILE, TrainedModel};
use pairloom_stage::Stage;
use pairloom_stage_testing::{self as stage_testing, InMemoryHost};
use pairloom_tables as tables;

/// N-gram vectors of the captions of the toy data set, from the kernels of `score_captions`.
pub(super) fn caption_ngrams() -> RecordBatch {
    let texts: Vec<(usize, usize, Vec<String>)> = (0..96)
        .map(|i| {
            let image = i / 2;
            let (colour, object) = (COLOURS[image % 6], OBJECTS[image / 6 % 4]);
            let text = if i % 2 == 0 {
                format!("a {colour} {object}")
            } else {
                format!("there 's a {object} , it is {colour}")
            };
            (i, image, text.split(' ').map(str::to_owned).collect())
        })
        .collect();
    let mut ngrams = NgramVocabulary::default();
    let counted: Vec<_> = texts.iter().map(|(.., words)| ngrams.count_ngrams(words)).collect();
    let mut frequency = DocumentFrequency::default();
    for pair in counted.chunks(2) {
        frequency.add_image(pair.iter().map(Vec::as_slice));
    }
    let idf = frequency.idf(None).expect("document frequencies");
    let schema = tables::caption_ngrams::table().schema();
    let number = |value: usize| i64::try_from(value).expect("a small number");
    let lengths = || counted.iter().map(Vec::len);
    let all = || counted.iter().flatten();
    let list = |name: &str, values: ArrayRef| tables::list_array(&schema, name, lengths(), values).expect("a list");
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.0)))),
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.1)))),
        Arc::new(Int64Array::from_iter_values(texts.iter().map(|row| number(row.2.len())))),
        list("ngrams", Arc::new(Int64Array::from_iter_values(all().map(|ngram| i64::from(ngram.id))))),
        list("orders", Arc::new(all().map(|ngram| Some(ngram.order)).collect::<arrow::array::Int8Array>())),
        list("counts", Arc::new(all().map(|ngram| Some(ngram.count)).collect::<arrow::array::Int32Array>())),
        list(
            "weights",
            Arc::new(arrow::array::Float64Array::from_iter_values(
                all().map(|ngram| f64::from(ngram.count) * idf.weight(ngram.id)),
            )),
        ),
        Arc::new(StringArray::from(vec!["ptb"; texts.len()])),
    ];
    tables::batch(&schema, columns).expect("captions as vectors")
}

pub(super) fn host_with_ngrams() -> InMemoryHost {
    let mut host = host();
    host.input_tables.insert("caption_ngrams".to_owned(), vec![caption_ngrams()]);
    host
}

const NGRAMS: &str = "caption_ngrams = \"m.caption_ngrams\"";

/// Eight distinct images: the expectation of a random order is about 12 + 60 + 100 in each direction.
#[test]
fn every_objective_learns_the_toy_data_set() {
    let objectives = [
        "loss = { knn_margin = { k = 3 } }",
        "loss = { local_scaling = { k = 3, over = \"sum\" } }",
        "loss = { local_scaling = { k = 3, over = \"max\" } }",
        "loss = { hal = { gamma = 30.0, epsilon = 0.3 } }",
        "loss = { hal = { variant = \"official\" } }",
        "loss = { hal = {} }\nmemory_bank = { fraction = 0.5, neighbours = 5 }",
        "loss = { hal = { variant = \"official\" } }\n\
         memory_bank = { fraction = 0.5, neighbours = 5, sampling = \"batches\", mask = \"batch_captions\" }",
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
        let mut host = host_with_ngrams();
        host.run_stage(&stage).unwrap_or_else(|error| panic!("{objective}: {error}"));
        let rsum = description(&host).rsum.expect("a validation split");
        assert!(rsum > 500.0, "{objective}: {rsum}");
    }
}

#[test]
fn a_memory_bank_has_the_embeddings_at_the_start_of_the_epoch() {
    let mut host = host();
    let rows = (0..80).map(|i| (i, i / 2, "train", format!("a {} {}", COLOURS[i / 2 % 6], OBJECTS[i / 12 % 4])));
    host.input_tables.insert("captions".to_owned(), vec![captions(rows)]);
    let bank = "loss = { hal = {} }\nmemory_bank = { samples = 20, neighbours = 5, first_epoch = 1, keep = \"all\" }";
    host.run_stage(&stage(&format!("epochs = 3\n{bank}"))).expect("a training");
    let table = host.output("memory_bank");
    let epochs = table["epoch"].as_primitive::<Int64Type>().values();
    assert!(epochs.iter().copied().eq((1..3).flat_map(|epoch| [epoch; 20])), "{epochs:?}");

    // The memory bank of the second epoch was embedded by the model after the first epoch.
    let mut first = InMemoryHost::default();
    first.input_tables.clone_from(&host.input_tables);
    first.run_stage(&stage("epochs = 1\nloss = { hal = {} }")).expect("a training");
    let trained =
        TrainedModel::read(&file(&first, DESCRIPTION_FILE), &file(&first, PARAMETERS_FILE), tch::Device::Cpu).unwrap();
    let images = table["image_id"].as_primitive::<Int64Type>().values();
    let all = features(48, 10);
    let of = |name: &str, row: usize| -> Vec<f32> {
        let vectors: &FixedSizeListArray = table[name].as_fixed_size_list();
        vectors.value(row).as_primitive::<Float32Type>().values().to_vec()
    };
    for row in 0..20 {
        let vectors = all["feature"].as_fixed_size_list().value(usize::try_from(images[row]).unwrap());
        let feature: &Float32Array = vectors.as_primitive();
        let expected = trained.single_vectors(&trained.encode_images(feature.values(), 10).unwrap()).unwrap();
        assert!(of("image", row).iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6));
        let caption = usize::try_from(table["caption_id"].as_primitive::<Int64Type>().value(row)).unwrap();
        assert_eq!(images[row], i64::try_from(caption / 2).unwrap());
        let text = format!("a {} {}", COLOURS[caption / 2 % 6], OBJECTS[caption / 12 % 4]);
        let words = trained.token_ids(&text).unwrap();
        let expected = trained.single_vectors(&trained.encode_captions(&[&words]).unwrap()).unwrap();
        assert!(of("caption", row).iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5));
    }
    // Another epoch draws other pairs.
    assert_ne!(images[..20], images[20..]);
}

#[test]
fn a_resumed_training_with_a_memory_bank_is_identical_bit_for_bit() {
    for keep in ["last", "all"] {
        let more = format!(
            "epochs = 3\ncheckpoint_steps = 2\nloss = {{ hal = {{}} }}\nsemantic_margin = {{ sampler = \"random\" }}\n\
             selection_metric = \"ncs\"\nmemory_bank = {{ samples = 30, neighbours = 5, keep = \"{keep}\" }}\n{NGRAMS}"
        );
        let stage = stage(&more);
        stage_testing::check_resume_after_every_save(
            |host| host.run_stage(&stage),
            host_with_ngrams,
            &["history", "validation", "memory_bank"],
        );
    }
}

/// Five batches, each drawn with the probability 0.25: with seed 5 the last epochs draw none.
#[test]
fn the_memory_bank_of_the_chosen_epochs_is_kept() {
    let run = |keep: &str| {
        let mut host = host();
        let sampling = "fraction = 0.25, sampling = \"batches\", neighbours = 5";
        let more = format!("epochs = 8\nloss = {{ hal = {{}} }}\nmemory_bank = {{ {sampling}, keep = \"{keep}\" }}");
        let stage = stage(&more);
        host.run_stage(&stage).expect("a training");
        let declared = stage.outputs().iter().any(|output| output.name == "memory_bank");
        assert_eq!(declared, keep != "none");
        let bank = host.output_tables.contains_key("memory_bank").then(|| host.output("memory_bank"));
        (file(&host, PARAMETERS_FILE), bank)
    };
    let (all, last, none) = (run("all"), run("last"), run("none"));
    assert!(all.0 == last.0 && all.0 == none.0, "the model does not depend on what is kept");
    let (all, last) = (all.1.expect("a bank"), last.1.expect("a bank"));
    let epochs = all["epoch"].as_primitive::<Int64Type>().values();
    let last_epoch = epochs[epochs.len() - 1];
    let first = epochs.partition_point(|&epoch| epoch < last_epoch);
    assert!(first > 0 && last_epoch < 7, "several epochs have a bank, the last one has none: {epochs:?}");
    assert_eq!(last, all.slice(first, all.num_rows() - first));
    assert!(none.1.is_none());
}

#[test]
fn warm_up_is_sum_before_the_objective() {
    let losses = |more: &str| -> Vec<u64> {
        let mut host = host();
        host.run_stage(&stage(&format!("epochs = 2\n{more}"))).expect("a training");
        let history = host.output("history");
        history["loss"].as_primitive::<Float64Type>().values().iter().map(|loss| loss.to_bits()).collect()
    };
    let (warm, sum) = (losses("loss = { max = {} }\nwarm_up = { epochs = 1 }"), losses("loss = { sum = {} }"));
    assert_eq!(warm[..5], sum[..5], "the first epoch");
    assert_ne!(warm[5..], sum[5..]);
}

/// By hand: NCS of a model that ranks by φ is 100 at every cut-off in both directions, so their sum is 600.
#[test]
fn the_selection_metric_selects_the_best_epoch() {
    for (metric, least, most) in [("rsum", 500.0, 600.0), ("t2i", 250.0, 300.0), ("ncs", 400.0, 600.0)] {
        let mut host = host_with_ngrams();
        let ngrams = if metric == "ncs" { NGRAMS } else { "" };
        host.run_stage(&stage(&format!(
            "epochs = 30\nselection_metric = \"{metric}\"\nloss = {{ sum = {{}} }}\n{ngrams}"
        )))
        .unwrap();
        let validation = host.output("validation");
        let scores = validation["selection_score"].as_primitive::<Float64Type>().values();
        let best = scores.iter().copied().fold(0.0, f64::max);
        assert!((least..=most).contains(&best), "{metric}: {best}");
        let epoch = scores.iter().position(|&score| score == best).unwrap();
        assert_eq!(description(&host).epoch, epoch as u64, "{metric}");
    }
}

#[test]
fn invalid_settings_and_data_are_refused() {
    let refuse = |more: &str, part: &str| {
        let mut host = host_with_ngrams();
        let error = host.run_stage(&stage(more)).expect_err(part);
        assert_eq!(host.n_saves, 0, "before the first step");
        assert_eq!(error.category(), ErrorCategory::Data, "{error}");
        assert!(error.to_string().contains(part), "{error}");
        assert!(error.hint_text().is_some(), "{error}");
    };
    refuse(
        "epochs = 2\nloss = { hal = {} }\nmemory_bank = { samples = 300 }",
        "`memory_bank.samples` is 300, but there are 80 training pairs",
    );
    let few = "`memory_bank.neighbours` is 250, but the bank has 4 of 80 training pairs";
    refuse("epochs = 2\nloss = { hal = {} }\nmemory_bank = {}", few);

    let mut other = host_with_ngrams();
    let all = caption_ngrams();
    other.input_tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 78)]);
    let semantic = stage(&format!("epochs = 1\nsemantic_margin = {{}}\n{NGRAMS}"));
    let error = other.run_stage(&semantic).expect_err("captions are missing").to_string();
    assert_eq!(error, "2 of 80 training captions are not in `caption_ngrams` (caption_id 78, 79)");
    other.input_tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 80), all.slice(5, 1)]);
    let error = other.run_stage(&semantic).expect_err("a caption twice").to_string();
    assert_eq!(error, "caption 5 appears twice in `caption_ngrams`, expected once");
    other.input_tables.insert("caption_ngrams".to_owned(), vec![all.slice(0, 80)]);
    let select = stage(&format!("epochs = 1\nselection_metric = \"ncs\"\n{NGRAMS}"));
    let error = other.run_stage(&select).expect_err("validation captions are missing").to_string();
    assert!(error.starts_with("caption 80 of split `val` is not in `caption_ngrams`"), "{error}");

    let settings = |more: &str| -> Vec<String> {
        stage(&format!("epochs = 1\n{more}")).check().into_iter().map(|problem| problem.setting).collect()
    };
    assert_eq!(settings("memory_bank = { first_epoch = 0 }"), ["memory_bank"]);
    assert_eq!(settings("semantic_margin = {}"), ["semantic_margin"]);
    assert_eq!(settings("selection_metric = \"ncs\""), ["selection_metric"]);
    assert_eq!(settings(NGRAMS), ["caption_ngrams"]);
    assert_eq!(settings("product_backend = \"libtorch\""), ["product_backend"]);
    assert_eq!(settings("precision = \"mixed\"\nproduct_backend = \"libtorch\""), [""; 0]);
    assert_eq!(settings("ranks = 0"), ["ranks"]);
    assert_eq!(settings("ranks = 17"), ["ranks"]);
    assert_eq!(settings("warm_up = { epochs = 0, margin = -1.0 }"), ["warm_up.epochs", "warm_up.margin"]);
    assert_eq!(settings("warm_up = { epochs = 1 }"), ["warm_up.epochs"], "no epoch is left for the objective");
    assert_eq!(settings("loss = { hal = {} }\nmemory_bank = { first_epoch = 1 }"), ["memory_bank.first_epoch"]);
    assert_eq!(settings("loss = { hal = {} }\nmodel.vse.similarity = { order = {} }"), ["loss.hal.epsilon"]);
    let official = "loss = { hal = { epsilon = 0.0, variant = \"official\" } }\nmodel.vse.similarity = { order = {} }";
    assert_eq!(settings(official), ["loss.hal.variant"]);
    let alone = format!(
        "loss = {{ hal = {{}} }}\nmemory_bank = {{ first_epoch = 0 }}\nsemantic_margin = {{ keep_triplet = false }}\n{NGRAMS}"
    );
    assert_eq!(settings(&alone), ["memory_bank"]);
    assert_eq!(settings("loss = { knn_margin = { k = 16 } }"), ["loss.knn_margin.k"]);
    let bank = "loss = { hal = {} }\nmemory_bank = { first_epoch = 0, fraction = 0.0, samples = 5, neighbours = 9, alpha = nan, sampling = \"batches\" }";
    assert_eq!(
        settings(bank),
        ["memory_bank.fraction", "memory_bank.samples", "memory_bank.neighbours", "memory_bank.alpha"]
    );
}

/// The file has two words of the vocabulary, in the `GloVe` format.
#[test]
fn word_vectors_are_initialised_from_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("glove.txt");
    let line = |word: &str, value: f32| format!("{word}{}\n", format!(" {value}").repeat(16));
    std::fs::write(&path, line("dog", 0.5) + &line("Red", -0.25) + &line("zebra", 1.0)).unwrap();
    let of = |more: &str| {
        let mut host = host();
        host.source_paths.insert("word_vectors.file".to_owned(), path.clone());
        host.run_stage(&stage(&format!("epochs = 2\nword_vectors = {{ file = \"glove.txt\"{more} }}")))
            .expect("a training");
        let warning = host.warnings.iter().find(|warning| warning.subject == "word_vectors.file").expect("a warning");
        assert!(
            warning.message.contains("words are not in the file: their initial vectors are random"),
            "{}",
            warning.message
        );
        let words = description(&host).vocabulary;
        let parameters = file(&host, PARAMETERS_FILE);
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
    let mut other = host();
    other.source_paths.insert("word_vectors.file".to_owned(), path.clone());
    let settings = "epochs = 1\nword_vectors = { file = \"glove.txt\" }";
    let error = other.run_stage(&stage(settings)).expect_err("no word is found");
    assert!(error.to_string().contains("words of the vocabulary"), "{error}");
    std::fs::write(&path, "dog 1 2 3\n").unwrap();
    let error = other.run_stage(&stage(settings)).expect_err("another width");
    assert!(error.to_string().contains("vectors have width 3, expected 16"), "{error}");
}
