//! The variants of CIDEr-D against human judgements: the correlations that were published or computed elsewhere for the
//! Crisscrossed Captions (Parekh et al., EACL 2021).

use std::collections::HashMap;

use super::*;
use crate::measure::correlation::pearson;
use crate::similarity::Similarity;
use crate::text::Tokenizer;

/// A rated pair: image, caption, rating, whether the caption was taken for its likeness to one of the image's own.
type Rated = (usize, usize, f64, bool);

/// A caption: its image and text.
type Text = (usize, String);

/// The captions and the ratings; nothing where the data are not.
fn data() -> Option<(Vec<Text>, Vec<Rated>)> {
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
fn correlates_with_human_judgement_as_every_variant_should() {
    let Some((texts, rated)) = data() else { return };
    assert_eq!((texts.len(), rated.len()), (25_000, 44_833));
    let correlations = |lowercase: bool, weights: &dyn Fn(&Frequency) -> Idf, own: OwnCaption| {
        let mut ngrams = Ngrams::default();
        let cut: Vec<_> = texts.iter().map(|(_, text)| Tokenizer::Whitespace.words(text, lowercase)).collect();
        let found: Vec<_> = cut.iter().map(|words| ngrams.count(words)).collect();
        let mut frequency = Frequency::default();
        for image in (0..texts.len()).collect::<Vec<_>>().chunk_by(|&a, &b| texts[a].0 == texts[b].0) {
            frequency.add(image.iter().map(|&caption| found[caption].as_slice()));
        }
        assert_eq!(frequency.images(), 5000);
        let idf = weights(&frequency);
        let mut vectors = Vectors::default();
        for ((words, found), (image, _)) in cut.iter().zip(&found).zip(&texts) {
            vectors.push(*image, words.len(), found, &idf);
        }
        let cider = Cider::new(vectors, Form::CiderD, own);
        let correlation = |rated: &[&Rated]| {
            let (values, ratings): (Vec<f64>, Vec<f64>) =
                rated.iter().map(|&&(i, c, r, _)| (cider.pair(i, c), r)).unzip();
            pearson(&values, &ratings).expect("values that differ")
        };
        let others: Vec<_> = rated.iter().filter(|rated| rated.3).collect();
        assert_eq!(others.len(), 19_833);
        (correlation(&rated.iter().collect::<Vec<_>>()), correlation(&others))
    };
    let counted = |frequency: &Frequency| frequency.idf(None).expect("images");
    let as_train = |frequency: &Frequency| frequency.idf(Some(113_287)).expect("images");
    let uniform = |_: &Frequency| Idf::uniform();
    let near = |got: (f64, f64), all: f64, others: f64| {
        assert!((got.0 - all).abs() < 5.1e-5, "{got:?}, wanted {all}");
        assert!((got.1 - others).abs() < 5.1e-4, "{got:?}, wanted {others}");
    };
    near(correlations(true, &counted, OwnCaption::Keep), 0.7385, 0.4869);
    near(correlations(false, &counted, OwnCaption::Keep), 0.7360, 0.4692);
    near(correlations(true, &as_train, OwnCaption::Keep), 0.7362, 0.4680);
    near(correlations(false, &as_train, OwnCaption::Keep), 0.7346, 0.4563);
    near(correlations(true, &uniform, OwnCaption::Keep), 0.7158, 0.3907);
    // Against the other captions of the image only, its own captions are no better than those of its neighbours.
    let without = correlations(true, &counted, OwnCaption::LeaveOut);
    near((without.0, 0.4869), 0.4246, without.1);
}
