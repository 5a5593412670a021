//! Tests of the captions of a training: the share that is trained on, and the vocabulary.

use std::collections::HashMap;

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use test_data::public;

use super::testing::{captions, description, host, stage};
use super::training_data::first_share;
use crate::testing::RunOnHost as _;
use pairloom_formats::delimited::{DelimitedFile, DelimitedForm};
use pairloom_kernels::text::{Tokenizer, Vocabulary};
use pairloom_stage::Stage;

/// Numbers of samples that table 2 of SAM prints for shares of Flickr30k and COCO, whose images have five captions.
#[test]
fn shares_of_the_captions_are_those_of_the_paper() {
    for (captions, fraction, images) in
        [(145_000, 0.1, 2900), (145_000, 0.25, 7250), (566_435, 0.03, 3398), (566_435, 0.05, 5664)]
    {
        assert_eq!(first_share(captions, fraction) / 5, images);
    }
    assert_eq!([first_share(100, 0.29), first_share(7, 1.0), first_share(3, 0.3)], [29, 7, 0]);
}

/// The toy data set has 80 training captions, two for each image, in the order of their identifiers.
#[test]
fn the_first_captions_are_trained_on() {
    let mut host = host();
    host.run_stage(&stage("epochs = 1\ncaption_fraction = 0.3")).expect("a training");
    let samples = host.output("samples");
    let ids = samples["caption_id"].as_primitive::<Int64Type>().values();
    assert!(ids.iter().copied().eq(0..24), "{ids:?}");
    assert_eq!(host.output("validation").num_rows(), 1, "the validation split stays");

    let mut all = super::testing::host();
    all.run_stage(&stage("epochs = 1")).expect("a training");
    assert_eq!(all.output("samples").num_rows(), 80);
    assert_eq!(stage("epochs = 1").settings(), stage("epochs = 1\ncaption_fraction = 1.0").settings());

    let none = host.run_stage(&stage("epochs = 1\ncaption_fraction = 0.001")).expect_err("no caption");
    assert!(
        none.to_string().contains("`caption_fraction` is 0.001, which leaves none of 80 training captions"),
        "{none}"
    );
    for wrong in ["0.0", "1.5", "nan", "-0.1"] {
        let problems = stage(&format!("epochs = 1\ncaption_fraction = {wrong}")).check();
        assert_eq!(problems.iter().map(|problem| problem.setting.as_str()).collect::<Vec<_>>(), ["caption_fraction"]);
    }
}

#[test]
fn the_vocabulary_counts_the_chosen_captions() {
    let words = |more: &str| {
        let mut host = host();
        let text = |i: usize| match i {
            0..10 => "a dog",
            10..80 => "a cat",
            _ => "a bird",
        };
        let split = |i: usize| if i < 80 { "train" } else { "val" };
        host.input_tables
            .insert("captions".to_owned(), vec![captions((0..96).map(|i| (i, i / 2, split(i), text(i).to_owned())))]);
        host.run_stage(&stage(&format!("epochs = 1\n{more}"))).expect("a training");
        description(&host).vocabulary[4..].to_vec()
    };
    assert_eq!(words(""), ["a", "cat", "dog"]);
    assert_eq!(words("caption_fraction = 0.125"), ["a", "dog"]);
    assert_eq!(words("vocabulary_captions = \"train_and_val\""), ["a", "cat", "bird", "dog"]);
    let both = "caption_fraction = 0.125\nvocabulary_captions = \"train_and_val\"";
    assert_eq!(words(both), ["a", "cat", "bird", "dog"]);
}

/// The vocabulary published for `f30k_precomp` has 8,481 words, with those that occur four times or more. The captions
/// of that folder were cut into words before, which changes a few.
#[test]
fn the_vocabulary_of_train_and_val_has_the_size_of_the_published_one() {
    let Some(f30k) = public("f30k-captions") else { return };
    let table = DelimitedFile::open(&f30k.join("captions.tsv.gz"), DelimitedForm::default()).expect("a table");
    let [split, text] = table.columns(["split", "caption"]).expect("columns");
    let mut train: HashMap<String, usize> = HashMap::new();
    let mut both: HashMap<String, usize> = HashMap::new();
    let read = |_: u64, fields: &[&str]| {
        for word in Tokenizer::Treebank.tokenize(fields[text], true) {
            if fields[split] == "train" {
                *train.entry(word.clone()).or_default() += 1;
            }
            if fields[split] != "test" {
                *both.entry(word).or_default() += 1;
            }
        }
        Ok(())
    };
    table.for_each(|| Ok(()), read).expect("rows");
    let size = |counts: &HashMap<String, usize>| {
        Vocabulary::build(counts.iter().map(|(word, count)| (word.as_str(), *count)), 4).words().len()
    };
    assert!(size(&both).abs_diff(8481) <= 5, "{}", size(&both));
    assert!(size(&train) < 8400, "{}", size(&train));
}
