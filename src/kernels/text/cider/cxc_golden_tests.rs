//! Correlation of CIDEr-D with human judgements: values that were published, or computed by another program, for the
//! Crisscrossed Captions (Parekh et al., EACL 2021).

use std::collections::HashMap;

use super::*;
use crate::caption_similarity::CaptionSimilarity;
use crate::measure::correlation::pearson;
use crate::text::Tokenizer;

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
        assert!((got.0 - all).abs() < 5.1e-5, "{got:?}, wanted {all}");
        assert!((got.1 - others).abs() < 5.1e-4, "{got:?}, wanted {others}");
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
