//! F-scores of tuples, for any image with any caption.

use std::collections::HashSet;

use super::SceneGraph;
use super::vocabulary::{Vocabulary, kind};
use super::words::Words;
use crate::similarity::{Similarity, best_first};

/// SPICE of every image with every caption.
///
/// With `R` the tuples of an image's references, `C` those of a caption, each merged (of tuples that match the first
/// stays), and `M` the tuples of `C` that match one of `R`, at most as many as `R` has: precision `|M| / |C|`, recall
/// `|M| / |R|`, `φ = 2 |M| / (|C| + |R|)`, which is 0 where there is no tuple. Tuples match where they have as many
/// elements and each is the same lemma or in a common synset.
#[derive(Debug)]
pub struct Spice {
    /// For each tuple those that match it.
    matches: Vec<Vec<u32>>,
    kinds: Vec<u8>,
    /// Tuples of each caption.
    captions: Vec<Vec<u32>>,
    /// Tuples of each image, ascending.
    images: Vec<Vec<u32>>,
    /// For each tuple the captions that have it.
    postings: Vec<Vec<u32>>,
}

/// SPICE of one image and one caption, with what it is made of. A score of no tuples on either side is missing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scores {
    /// F-score of all tuples: φ.
    pub f: f64,
    /// Share of the caption's tuples that the references have; 0 of none.
    pub precision: f64,
    /// Share of the references' tuples that the caption has; 0 of none.
    pub recall: f64,
    /// F-score of the objects alone.
    pub object: Option<f64>,
    /// F-score of the attributes alone.
    pub attribute: Option<f64>,
    /// F-score of the relations alone.
    pub relation: Option<f64>,
    /// F-score of the attributes that are colours.
    pub color: Option<f64>,
    /// F-score of the attributes that are numbers.
    pub count: Option<f64>,
    /// F-score of the attributes that are sizes.
    pub size: Option<f64>,
}

/// Takes the graphs of captions one by one and keeps their tuples as numbers.
#[derive(Debug, Default)]
pub struct SpiceBuilder {
    vocabulary: Vocabulary,
    captions: Vec<Vec<u32>>,
}

impl SpiceBuilder {
    /// Adds the graph of the next caption.
    pub fn push(&mut self, graph: &SceneGraph, words: &impl Words) {
        let tuples = self.vocabulary.tuples(graph, words);
        self.captions.push(tuples);
    }

    /// The similarity, given which captions are the references of each image. Cost: proportional to the tuples and to the
    /// pairs of them that match.
    ///
    /// # Panics
    ///
    /// Where a reference is no caption that was pushed.
    #[must_use]
    pub fn build(self, references: &[Vec<usize>]) -> Spice {
        let matches = self.vocabulary.matches();
        let image = |references: &Vec<usize>| {
            let all = references.iter().flat_map(|reference| &self.captions[*reference]);
            let mut tuples = merged(all, &matches);
            tuples.sort_unstable();
            tuples
        };
        let images = references.iter().map(image).collect();
        let captions: Vec<Vec<u32>> = self.captions.iter().map(|tuples| merged(tuples, &matches)).collect();
        let mut postings = vec![Vec::new(); matches.len()];
        for (caption, tuples) in (0..).zip(&captions) {
            for tuple in tuples {
                postings[*tuple as usize].push(caption);
            }
        }
        Spice { matches, kinds: self.vocabulary.kinds, captions, images, postings }
    }
}

/// `tuples` without those that match an earlier one.
fn merged<'a>(tuples: impl IntoIterator<Item = &'a u32>, matches: &[Vec<u32>]) -> Vec<u32> {
    let mut kept = Vec::new();
    let mut known = HashSet::new();
    for tuple in tuples {
        if !matches[*tuple as usize].iter().any(|other| known.contains(other)) {
            known.insert(*tuple);
            kept.push(*tuple);
        }
    }
    kept
}

impl Spice {
    /// φ with precision, recall and sub-scores.
    #[must_use]
    pub fn scores(&self, image: usize, caption: usize) -> Scores {
        let all = self.shared(image, caption, kind::ALL);
        let f = |kind| self.shared(image, caption, kind).f();
        let share = |of| if of == 0 { 0.0 } else { ratio(all.matched, of) };
        Scores {
            f: all.f().unwrap_or(0.0),
            precision: share(all.of_caption),
            recall: share(all.of_image),
            object: f(kind::OBJECT),
            attribute: f(kind::ATTRIBUTE),
            relation: f(kind::RELATION),
            color: f(kind::COLOR),
            count: f(kind::COUNT),
            size: f(kind::SIZE),
        }
    }

    fn shared(&self, image: usize, caption: usize, kind: u8) -> Shared {
        let (image, caption) = (&self.images[image], &self.captions[caption]);
        let is = |tuple: &&u32| self.kinds[**tuple as usize] & kind != 0;
        let of_image = image.iter().filter(is).count();
        let of_caption = caption.iter().filter(is).count();
        let matches =
            |tuple: &&u32| self.matches[**tuple as usize].iter().any(|other| image.binary_search(other).is_ok());
        let matched = caption.iter().filter(is).filter(matches).count().min(of_image);
        Shared { matched, of_caption, of_image }
    }

    /// For each caption how many of its tuples match one of the image.
    fn count(&self, image: usize, scratch: &mut Scratch) {
        scratch.matched.clear();
        scratch.matched.resize(self.captions.len(), 0);
        scratch.tuples.clear();
        scratch.tuples.extend(self.images[image].iter().flat_map(|tuple| &self.matches[*tuple as usize]));
        scratch.tuples.sort_unstable();
        scratch.tuples.dedup();
        for tuple in &scratch.tuples {
            for caption in &self.postings[*tuple as usize] {
                scratch.matched[*caption as usize] += 1;
            }
        }
    }

    fn value(&self, image: usize, caption: usize, matched: u32) -> f64 {
        let (of_image, of_caption) = (self.images[image].len(), self.captions[caption].len());
        Shared { matched: (matched as usize).min(of_image), of_caption, of_image }.f().unwrap_or(0.0)
    }
}

/// Numbers of tuples. Synonymy is not transitive: two tuples of a caption that do not match may match the same tuple of
/// the image, and no more count than the image has.
#[derive(Debug, Clone, Copy)]
struct Shared {
    matched: usize,
    of_caption: usize,
    of_image: usize,
}

impl Shared {
    fn f(self) -> Option<f64> {
        let all = self.of_caption + self.of_image;
        (all > 0).then(|| ratio(2 * self.matched, all))
    }
}

#[expect(clippy::cast_precision_loss, reason = "tuples of a few captions are far below 2^53")]
fn ratio(above: usize, below: usize) -> f64 {
    above as f64 / below as f64
}

/// What a row needs: counts of captions, and the tuples that match the image.
#[derive(Debug, Default)]
pub struct Scratch {
    matched: Vec<u32>,
    tuples: Vec<u32>,
}

impl Similarity for Spice {
    type Scratch = Scratch;

    fn images(&self) -> usize {
        self.images.len()
    }

    fn captions(&self) -> usize {
        self.captions.len()
    }

    fn pair(&self, image: usize, caption: usize) -> f64 {
        self.shared(image, caption, kind::ALL).f().unwrap_or(0.0)
    }

    fn row(&self, image: usize, scratch: &mut Scratch, values: &mut [f32]) {
        self.count(image, scratch);
        for (caption, (value, matched)) in values.iter_mut().zip(&scratch.matched).enumerate() {
            *value = narrow(self.value(image, caption, *matched));
        }
    }

    fn top(&self, image: usize, m: usize, scratch: &mut Scratch) -> Vec<(usize, f64)> {
        self.count(image, scratch);
        let value = |(caption, matched): (usize, &u32)| (caption, self.value(image, caption, *matched));
        let mut best: Vec<(usize, f64)> = scratch.matched.iter().enumerate().map(value).collect();
        best_first(&mut best, m);
        best
    }

    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32> {
        let mut values = Vec::with_capacity(images.len() * captions.len());
        for image in images {
            values.extend(captions.iter().map(|caption| narrow(self.pair(*image, *caption))));
        }
        values
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a row holds f32; a score lies between 0 and 1")]
fn narrow(value: f64) -> f32 {
    value as f32
}
