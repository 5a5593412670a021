//! Comparison of graphs and scores with SPICE's Java tool, on real captions if the data sets are installed.

use std::collections::{BTreeSet, HashMap};

use test_data::public_text;

use super::lexicon::Lexicon;
use super::scene_graph::parse;
use super::tests::tuples;
use pairloom_kernels::measure::correlation::pearson;
use pairloom_kernels::text::CaptionSimilarity;
use pairloom_kernels::text::spice::SpiceBuilder;

/// F1 of tuples. As in the file, the tuples of a caption are its attributes (`object, is, attribute`) and relations, or
/// its objects if it has neither. A tuple is correct if the file has exactly the same text for the caption. Precision
/// and recall are over the tuples of all captions.
#[test]
fn tuples_agree_with_the_java_tool_with_f1_of_at_least_0_8() {
    let Some(text) = public_text("spice/spice_parser_tuples.tsv") else { return };
    let (mut right, mut ours, mut theirs) = (0_u32, 0_u32, 0_u32);
    for line in text.lines() {
        let (caption, printed) = line.split_once('\t').expect("a caption and its tuples");
        let expected: BTreeSet<String> = printed
            .split(" ) , ( ")
            .map(|tuple| tuple.trim_matches(['(', ')', ' ']).split(" , ").collect::<Vec<_>>().join(", "))
            .collect();
        let got: BTreeSet<String> = tuples(&parse(caption)).into_iter().collect();
        let size = |set: usize| u32::try_from(set).expect("few tuples");
        right += size(got.intersection(&expected).count());
        ours += size(got.len());
        theirs += size(expected.len());
    }
    let f1 = f64::from(2 * right) / f64::from(ours + theirs);
    println!("F1 {f1:.4}: {right} of {ours} tuples are right, {theirs} were expected");
    assert!(theirs > 1_000, "only {theirs} tuples in the file");
    assert!(f1 >= 0.80, "F1 {f1:.4}");
}

/// The mean of the Java tool is 0.133.
#[test]
fn the_mean_on_coco_captions_is_near_that_of_the_java_tool() {
    let Some(text) = public_text("cider/coco_fakecap_1000.json") else { return };
    let images: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list");
    let mut builder = SpiceBuilder::default();
    let mut pushed = 0;
    let mut push = |caption: &serde_json::Value| {
        builder.push(&parse(caption.as_str().expect("a caption")), Lexicon::wordnet());
        pushed += 1;
        pushed - 1
    };
    let candidates: Vec<usize> = images.iter().map(|image| push(&image["test"])).collect();
    let references = |image: &serde_json::Value, push: &mut dyn FnMut(&serde_json::Value) -> usize| {
        image["refs"].as_array().expect("a list").iter().map(push).collect()
    };
    let references: Vec<Vec<usize>> = images.iter().map(|image| references(image, &mut push)).collect();
    let spice = builder.build(&references);
    let sum: f64 = candidates.iter().enumerate().map(|(image, caption)| spice.pair(image, *caption)).sum();
    let mean = sum / f64::from(u32::try_from(images.len()).expect("few images"));
    println!("mean {mean:.4}");
    assert_eq!(images.len(), 1_000);
    assert!((0.12..=0.15).contains(&mean), "mean {mean:.4}");
}

/// Biten et al., WACV 2022, Table 1: 0.729 on all pairs of Crisscrossed Captions, 0.536 on the pairs whose caption
/// belongs to another image.
#[test]
fn correlation_with_human_ratings_is_at_least_that_of_the_java_tool() {
    let (Some(captions), Some(ratings)) =
        (public_text("cxc/coco_karpathy_test_captions.tsv"), public_text("cxc/sits_test.csv"))
    else {
        return;
    };
    let mut builder = SpiceBuilder::default();
    let (mut images, mut references, mut numbers) = (HashMap::new(), Vec::<Vec<usize>>::new(), HashMap::new());
    for (number, line) in captions.lines().skip(1).enumerate() {
        let [id, image, caption] = line.splitn(3, '\t').collect::<Vec<_>>()[..] else { panic!("three columns") };
        let next = images.len();
        let image = *images.entry(image.parse::<u64>().expect("an id")).or_insert(next);
        references.resize(images.len(), Vec::new());
        references[image].push(number);
        numbers.insert(id, number);
        builder.push(&parse(caption), Lexicon::wordnet());
    }
    let spice = builder.build(&references);
    let (mut all, mut others) = (Vec::new(), Vec::new());
    for line in ratings.lines().skip(1) {
        let [caption, image, rating, method] = line.split(',').collect::<Vec<_>>()[..] else { panic!("four columns") };
        let caption = numbers[caption.rsplit(':').next().expect("an id")];
        let image = image.trim_end_matches(".jpg").rsplit('_').next().expect("an id");
        let image = images[&image.parse::<u64>().expect("an id")];
        let pair = (spice.pair(image, caption), rating.parse::<f64>().expect("a number"));
        all.push(pair);
        if method.trim() == "c2i_intrasim" {
            others.push(pair);
        }
    }
    let agreement = |pairs: &[(f64, f64)]| {
        let (scores, ratings): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
        pearson(&scores, &ratings).expect("neither is constant")
    };
    let (overall, among_others) = (agreement(&all), agreement(&others));
    println!("Pearson {overall:.4} on {} pairs, {among_others:.4} on {}", all.len(), others.len());
    assert_eq!((all.len(), others.len()), (44_833, 19_833));
    assert!(overall >= 0.729 && among_others >= 0.536, "{overall:.4} {among_others:.4}");
}
