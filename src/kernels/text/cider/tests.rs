//! Tests of CIDEr: against a direct implementation of the formula, against values of the COCO evaluation, and of `row`,
//! `top_captions` and `block` against `pair`; and correlations with the human judgements of the Crisscrossed Captions
//! (Parekh et al., EACL 2021), which were published or computed by another program.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;
use crate::measure::correlation::pearson;
use crate::text::Tokenizer;

/// Weighted vectors of the captions of each image. The weights are `idf` of the document frequencies in the first
/// `counted` images.
fn vectors(images: &[Vec<String>], counted: usize, idf: impl Fn(&DocumentFrequency) -> Idf) -> CaptionVectors {
    let mut ngrams = NgramVocabulary::default();
    let mut frequency = DocumentFrequency::default();
    let mut captions = Vec::new();
    for (image, texts) in images.iter().enumerate() {
        let words: Vec<_> = texts.iter().map(|text| Tokenizer::Whitespace.tokenize(text, false)).collect();
        let found: Vec<_> = words.iter().map(|words| ngrams.count_ngrams(words)).collect();
        if image < counted {
            frequency.add_image(found.iter().map(Vec::as_slice));
        }
        captions.extend(words.iter().zip(found).map(|(words, found)| (image, words.len(), found)));
    }
    let idf = idf(&frequency);
    let mut vectors = CaptionVectors::default();
    for (image, words, found) in captions {
        vectors.push(image, words, &found, &idf);
    }
    vectors
}

fn counted(frequency: &DocumentFrequency) -> Idf {
    frequency.idf(None).expect("images")
}

/// φ of a caption with references, computed directly from the paper's equations and the clipping and penalty of its
/// code.
#[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
#[expect(clippy::iter_over_hash_type, reason = "the order of a sum moves its last bits only")]
fn brute_force(hypothesis: &str, references: &[&str], images: &[Vec<String>], variant: CiderVariant) -> f64 {
    fn grams(text: &str, n: usize) -> HashMap<Vec<&str>, f64> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut counts = HashMap::new();
        for window in words.windows(n) {
            *counts.entry(window.to_vec()).or_insert(0.0) += 1.0;
        }
        counts
    }
    let bigrams = |text: &str| text.split_whitespace().count().max(1) as f64 - 1.0;
    let mut total = 0.0;
    for n in 1..=4 {
        let mut frequency: HashMap<Vec<&str>, f64> = HashMap::new();
        for texts in images {
            let all: HashSet<Vec<&str>> = texts.iter().flat_map(|text| grams(text, n).into_keys()).collect();
            for gram in all {
                *frequency.entry(gram).or_insert(0.0) += 1.0;
            }
        }
        let weigh = |text| -> HashMap<Vec<&str>, f64> {
            let idf = |gram: &Vec<&str>| (images.len() as f64).ln() - frequency.get(gram).map_or(0.0, |df| df.ln());
            grams(text, n)
                .into_iter()
                .map(|(gram, count)| {
                    let w = count * idf(&gram);
                    (gram, w)
                })
                .collect()
        };
        let norm = |v: &HashMap<Vec<&str>, f64>| v.values().map(|w| w * w).sum::<f64>().sqrt();
        let h = weigh(hypothesis);
        for reference in references {
            let r = weigh(reference);
            let mut sum = 0.0;
            for (gram, &hw) in &h {
                let rw = r.get(gram).copied().unwrap_or(0.0);
                sum += if variant == CiderVariant::CiderD { hw.min(rw) * rw } else { hw * rw };
            }
            let norms = norm(&h) * norm(&r);
            let delta = bigrams(hypothesis) - bigrams(reference);
            let penalty = if variant == CiderVariant::CiderD { (-delta * delta / 72.0).exp() } else { 1.0 };
            total += if norms > 0.0 { sum / norms * penalty } else { 0.0 };
        }
    }
    if references.is_empty() { 0.0 } else { 10.0 * total / 4.0 / references.len() as f64 }
}

#[test]
fn rare_ngrams_weigh_more_and_length_differences_are_penalised() {
    // Three images; N = 3. "a" is everywhere (idf 0), "dog" in two, "cat" in one.
    let images = [vec!["a dog".to_owned()], vec!["a cat".to_owned()], vec!["a dog dog".to_owned()]];
    let cider = Cider::new(vectors(&images, 3, counted), CiderVariant::CiderD, OwnCaption::Keep);
    // Caption 0 with image 2. Unigrams: h = (dog 1·w), r = (dog 2·w): min·r = 2w², norms w · 2w, cosine 1.
    // Bigrams: "a dog" has df 2, weight w; r has "a dog" w and "dog dog" ln 3: cosine w/√(w² + ln²3). Δ = 1.
    let (w, l) = ((3f64 / 2.0).ln(), 3f64.ln());
    let expected = 10.0 / 4.0 * (1.0 + w / w.hypot(l)) * (-1f64 / 72.0).exp();
    assert!((cider.pair(2, 0) - expected).abs() < 1e-12, "{} {expected}", cider.pair(2, 0));
    // With hypothesis and reference exchanged, clipping halves the unigrams: min = w, r = w; w²/(2w · w).
    let expected = 10.0 / 4.0 * (0.5 + w / w.hypot(l)) * (-1f64 / 72.0).exp();
    assert!((cider.pair(0, 2) - expected).abs() < 1e-12);
    // Without clipping and penalty both directions are the cosine.
    let cider = Cider::new(vectors(&images, 3, counted), CiderVariant::Cider, OwnCaption::Keep);
    let expected = 10.0 / 4.0 * (1.0 + w / w.hypot(l));
    assert!((cider.pair(2, 0) - expected).abs() < 1e-12 && (cider.pair(0, 2) - expected).abs() < 1e-12);
    assert_eq!(cider.pair(0, 1), 0.0);
}

#[test]
fn agrees_with_the_coco_evaluation_on_each_of_its_thousand_examples() {
    let Some(text) = test_data::public_text("cider/coco_fakecap_1000.json") else { return };
    let examples: Vec<serde_json::Value> = serde_json::from_str(&text).expect("the examples are JSON");
    let string = |value: &serde_json::Value| value.as_str().expect("a text").to_owned();
    let mut images: Vec<Vec<String>> = Vec::new();
    for example in &examples {
        images.push(example["refs"].as_array().expect("references").iter().map(string).collect());
    }
    let references: usize = images.iter().map(Vec::len).sum();
    // Each candidate belongs to an image of its own, which is not counted in the document frequencies.
    images.extend(examples.iter().map(|example| vec![string(&example["test"])]));
    let cider = Cider::new(vectors(&images, examples.len(), counted), CiderVariant::CiderD, OwnCaption::Keep);
    let mut scratch = CiderScratch::default();
    let mut values = vec![0.0; cider.caption_count()];
    for (image, example) in examples.iter().enumerate() {
        let expected = example["cider"].as_f64().expect("a value");
        let got = cider.pair(image, references + image);
        assert!((got - expected).abs() < 1e-9, "image {image}: {got}, expected {expected}");
        cider.row(image, &mut scratch, &mut values);
        assert!((f64::from(values[references + image]) - expected).abs() < 1e-6);
    }
    assert_eq!(examples.len(), 1000);
}

#[test]
fn captions_that_are_empty_long_or_in_other_scripts_match_the_formula() {
    let long = "w ".repeat(10_000) + "dog";
    let images = [
        vec![String::new()],
        vec!["dog".to_owned()],
        vec!["a 🐕 runs".to_owned(), "כלב רץ".to_owned(), long.clone()],
        ["one", "two", "three dogs", "four", "five", "six", "seven dog"].map(str::to_owned).to_vec(),
    ];
    for variant in [CiderVariant::CiderD, CiderVariant::Cider] {
        let cider = Cider::new(vectors(&images, 4, counted), variant, OwnCaption::Keep);
        let texts: Vec<&str> = images.iter().flatten().map(String::as_str).collect();
        for (image, own) in images.iter().enumerate() {
            let references: Vec<&str> = own.iter().map(String::as_str).collect();
            for (caption, text) in texts.iter().enumerate() {
                let expected = brute_force(text, &references, &images, variant);
                assert!((cider.pair(image, caption) - expected).abs() < 1e-12, "{image} {caption}");
            }
        }
        // A caption without words has similarity 0, also with itself.
        assert_eq!((cider.pair(0, 0), cider.pair(1, 0), cider.pair(0, 1)), (0.0, 0.0, 0.0));
        // A caption of one word has unigrams only: a quarter of the maximum.
        assert!((cider.pair(1, 1) - 2.5).abs() < 1e-12);
        assert!(!cider.is_zero());
    }
    // The only caption of an image has no references if it is left out.
    let cider = Cider::new(vectors(&images, 4, counted), CiderVariant::CiderD, OwnCaption::LeaveOut);
    assert_eq!(cider.pair(1, 1), 0.0);
    assert!(cider.pair(3, 11 - 1) > 0.0 || cider.pair(3, 1) > 0.0);
}

#[test]
fn a_corpus_of_one_image_is_zero() {
    let images = [vec!["a dog runs".to_owned(), "a dog runs".to_owned()]];
    let cider = Cider::new(vectors(&images, 1, counted), CiderVariant::CiderD, OwnCaption::Keep);
    assert!(cider.is_zero());
    assert_eq!(cider.top_captions(0, 5, &mut CiderScratch::default()), [(0, 0.0), (1, 0.0)]);
    assert_eq!(cider.block(&[0], &[0, 1]), [0.0, 0.0]);
    let uniform = Cider::new(vectors(&images, 1, |_| Idf::uniform()), CiderVariant::CiderD, OwnCaption::Keep);
    assert!(!uniform.is_zero() && (uniform.pair(0, 0) - 7.5).abs() < 1e-12);
    let nothing = Cider::new(CaptionVectors::default(), CiderVariant::CiderD, OwnCaption::Keep);
    assert_eq!((nothing.image_count(), nothing.caption_count(), nothing.block(&[], &[]).len()), (0, 0, 0));
}

/// No captions share a word, as in a script without spaces: φ of other images' captions is 0, and ties go by index.
#[test]
fn captions_without_common_words_have_similarity_zero() {
    let images: Vec<Vec<String>> = (0..4000).map(|image| vec![format!("w{image}"), format!("v{image}")]).collect();
    let cider = Cider::new(vectors(&images, images.len(), counted), CiderVariant::CiderD, OwnCaption::Keep);
    let mut scratch = CiderScratch::default();
    for image in 0..images.len() {
        let top = cider.top_captions(image, 3, &mut scratch);
        let first = usize::from(image == 0) * 2;
        assert_eq!(top.iter().map(|best| best.0).collect::<Vec<_>>(), [2 * image, 2 * image + 1, first], "{image}");
        assert_eq!(top[2].1.to_bits(), 0.0f64.to_bits());
    }
}

#[test]
fn an_image_without_captions_has_similarity_zero() {
    let mut vectors = CaptionVectors::default();
    let words = ["dog".to_owned()];
    vectors.push(2, 1, &NgramVocabulary::default().count_ngrams(&words), &Idf::uniform());
    let cider = Cider::new(vectors, CiderVariant::CiderD, OwnCaption::LeaveOut);
    assert_eq!(cider.image_count(), 3);
    let mut values = [1.0];
    cider.row(0, &mut CiderScratch::default(), &mut values);
    assert_eq!((values, cider.pair(1, 0)), ([0.0], 0.0));
    assert_eq!(cider.top_captions(1, 3, &mut CiderScratch::default()), [(0, 0.0)]);
    assert_eq!(cider.top_captions(2, 3, &mut CiderScratch::default()), [(0, 0.0)]);
}

/// Captions of few distinct words, so that common n-grams and ties are frequent.
fn corpus() -> impl Strategy<Value = Vec<Vec<String>>> {
    let caption = prop::collection::vec(0..6u8, 0..9)
        .prop_map(|words| words.iter().map(|word| format!("w{word}")).collect::<Vec<_>>().join(" "));
    prop::collection::vec(prop::collection::vec(caption, 1..7), 1..8)
}

proptest! {
    #[test]
    fn pair_is_the_formula(images in corpus(), d: bool, kept: bool) {
        let (variant, own) = (if d { CiderVariant::CiderD } else { CiderVariant::Cider }, if kept { OwnCaption::Keep } else { OwnCaption::LeaveOut });
        let cider = Cider::new(vectors(&images, images.len(), counted), variant, own);
        let texts: Vec<(usize, usize, &str)> = images.iter().enumerate()
            .flat_map(|(i, texts)| texts.iter().enumerate().map(move |(k, text)| (i, k, text.as_str()))).collect();
        for (image, texts_of) in images.iter().enumerate() {
            for (caption, &(owner, place, text)) in texts.iter().enumerate() {
                let references: Vec<&str> = texts_of.iter().enumerate()
                    .filter(|&(k, _)| kept || owner != image || k != place).map(|(_, text)| text.as_str()).collect();
                let expected = brute_force(text, &references, &images, variant);
                let got = cider.pair(image, caption);
                prop_assert!((got - expected).abs() < 1e-12, "{image} {caption}: {got} {expected}");
                prop_assert!((0.0..=10.0 + 1e-12).contains(&got));
            }
        }
    }

    #[test]
    fn row_top_and_block_agree_with_pair(images in corpus(), d: bool, kept: bool, m in 0..12usize) {
        let (variant, own) = (if d { CiderVariant::CiderD } else { CiderVariant::Cider }, if kept { OwnCaption::Keep } else { OwnCaption::LeaveOut });
        let cider = Cider::new(vectors(&images, images.len(), counted), variant, own);
        let mut scratch = CiderScratch::default();
        let mut values = vec![0.0; cider.caption_count()];
        // A caption twice and in another order, as in a mini-batch.
        let captions: Vec<usize> = (0..cider.caption_count()).rev().chain([0]).collect();
        let rows: Vec<usize> = (0..cider.image_count()).chain([0]).collect();
        let block = cider.block(&rows, &captions);
        for (place, &image) in rows.iter().enumerate() {
            cider.row(image, &mut scratch, &mut values);
            let mut all: Vec<(usize, f64)> = (0..cider.caption_count()).map(|c| (c, cider.pair(image, c))).collect();
            for &(caption, expected) in &all {
                prop_assert!((f64::from(values[caption]) - expected).abs() < 1e-6);
                prop_assert!(values[caption].is_sign_positive());
            }
            for (&caption, &got) in captions.iter().zip(&block[place * captions.len()..]) {
                prop_assert!((f64::from(got) - cider.pair(image, caption)).abs() < 1e-6);
            }
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(m);
            prop_assert_eq!(cider.top_captions(image, m, &mut scratch), all);
        }
    }
}

/// A rated pair: image, caption, rating, and true if the caption was selected for its similarity to a caption of the
/// image.
type RatedPair = (usize, usize, f64, bool);

/// A caption: its image and text.
type ImageCaption = (usize, String);

/// Reads the captions and the ratings; `None` if the data set is not installed.
fn data() -> Option<(Vec<ImageCaption>, Vec<RatedPair>)> {
    let captions = test_data::public_text("cxc/coco_karpathy_test_captions.tsv")?;
    let ratings = test_data::public_text("cxc/sits_test.csv")?;
    let mut images: HashMap<String, usize> = HashMap::new();
    let mut ids: HashMap<String, usize> = HashMap::new();
    let mut texts = Vec::new();
    for line in captions.lines().skip(1) {
        let mut fields = line.splitn(3, '\t').map(str::to_owned);
        let [id, image, text] = std::array::from_fn(|_| fields.next().expect("three fields"));
        let next = images.len();
        ids.insert(id, texts.len());
        texts.push((*images.entry(image).or_insert(next), text));
    }
    let rated = ratings.lines().skip(1).map(|line| {
        let fields: Vec<&str> = line.split(',').collect();
        let id = fields[0].rsplit(':').next().expect("a caption id");
        let image = fields[1].rsplit('_').next().and_then(|name| name.strip_suffix(".jpg")).expect("an image's name");
        let rating = fields[2].parse().expect("a rating");
        (images[image.trim_start_matches('0')], ids[id], rating, fields[3] == "c2i_intrasim")
    });
    let rated = rated.collect();
    Some((texts, rated))
}

#[test]
fn correlations_with_human_judgements_match_the_reference() {
    let Some((texts, rated)) = data() else { return };
    assert_eq!((texts.len(), rated.len()), (25_000, 44_833));
    let correlations = |lowercase: bool, weights: &dyn Fn(&DocumentFrequency) -> Idf, own: OwnCaption| {
        let mut ngrams = NgramVocabulary::default();
        let cut: Vec<_> = texts.iter().map(|(_, text)| Tokenizer::Whitespace.tokenize(text, lowercase)).collect();
        let found: Vec<_> = cut.iter().map(|words| ngrams.count_ngrams(words)).collect();
        let mut frequency = DocumentFrequency::default();
        for image in (0..texts.len()).collect::<Vec<_>>().chunk_by(|&a, &b| texts[a].0 == texts[b].0) {
            frequency.add_image(image.iter().map(|&caption| found[caption].as_slice()));
        }
        assert_eq!(frequency.image_count(), 5000);
        let idf = weights(&frequency);
        let mut vectors = CaptionVectors::default();
        for ((words, found), (image, _)) in cut.iter().zip(&found).zip(&texts) {
            vectors.push(*image, words.len(), found, &idf);
        }
        let cider = Cider::new(vectors, CiderVariant::CiderD, own);
        let correlation = |rated: &[&RatedPair]| {
            let (values, ratings): (Vec<f64>, Vec<f64>) =
                rated.iter().map(|&&(i, c, r, _)| (cider.pair(i, c), r)).unzip();
            pearson(&values, &ratings).expect("values that differ")
        };
        let others: Vec<_> = rated.iter().filter(|rated| rated.3).collect();
        assert_eq!(others.len(), 19_833);
        (correlation(&rated.iter().collect::<Vec<_>>()), correlation(&others))
    };
    let counted = |frequency: &DocumentFrequency| frequency.idf(None).expect("images");
    let as_train = |frequency: &DocumentFrequency| frequency.idf(Some(113_287)).expect("images");
    let uniform = |_: &DocumentFrequency| Idf::uniform();
    let near = |got: (f64, f64), all: f64, others: f64| {
        assert!((got.0 - all).abs() < 5.1e-5, "{got:?}, expected {all}");
        assert!((got.1 - others).abs() < 5.1e-4, "{got:?}, expected {others}");
    };
    near(correlations(true, &counted, OwnCaption::Keep), 0.7385, 0.4869);
    near(correlations(false, &counted, OwnCaption::Keep), 0.7360, 0.4692);
    near(correlations(true, &as_train, OwnCaption::Keep), 0.7362, 0.4680);
    near(correlations(false, &as_train, OwnCaption::Keep), 0.7346, 0.4563);
    near(correlations(true, &uniform, OwnCaption::Keep), 0.7158, 0.3907);
    // Compared with the other captions of its image only, a caption scores no better than captions of similar images.
    let without = correlations(true, &counted, OwnCaption::LeaveOut);
    near((without.0, 0.4869), 0.4246, without.1);
}
