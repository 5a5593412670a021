//! F-scores of tuples, for any image with any caption.

use super::SceneGraph;
use super::vocabulary::Vocabulary;
use crate::kernels::similarity::Similarity;

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

/// What the builder needs to know of words.
pub trait Words {
    /// Synsets of an element of a tuple; elements in a common one match.
    fn synsets(&self, element: &str) -> Vec<u32>;
    /// Whether an attribute is a colour.
    fn is_color(&self, attribute: &str) -> bool;
    /// Whether an attribute is a number.
    fn is_count(&self, attribute: &str) -> bool;
    /// Whether an attribute is a size.
    fn is_size(&self, attribute: &str) -> bool;
}

/// Takes the graphs of captions one by one and keeps numbers of them.
#[derive(Debug, Default)]
pub struct SpiceBuilder {
    vocabulary: Vocabulary,
    captions: Vec<Vec<u32>>,
}

impl SpiceBuilder {
    /// Adds the graph of the next caption.
    pub fn push(&mut self, graph: &SceneGraph, words: &impl Words) {
        let tuples = self.vocabulary.tuples(graph, &|element| words.synsets(element));
        self.captions.push(tuples);
    }

    /// The similarity, given which captions are the references of each image. Cost: proportional to the tuples and the
    /// pairs of them that match.
    ///
    /// # Panics
    ///
    /// Where a reference is no caption that was pushed.
    #[must_use]
    pub fn build(self, references: &[Vec<usize>], words: &impl Words) -> Spice {
        let matches = self.vocabulary.matches();
        let kinds = {
            let color = self.vocabulary.mark(1, 2, &|word| words.is_color(word));
            let count = self.vocabulary.mark(1, 2, &|word| words.is_count(word));
            let size = self.vocabulary.mark(1, 2, &|word| words.is_size(word));
            let kind = |(tuple, elements)| match self.vocabulary.arity(elements) {
                1 => OBJECT,
                2 => {
                    let tuple: usize = tuple;
                    ATTRIBUTE
                        | if color[tuple] { COLOR } else { 0 }
                        | if count[tuple] { COUNT } else { 0 }
                        | if size[tuple] { SIZE } else { 0 }
                }
                _ => RELATION,
            };
            self.vocabulary.tuples.iter().enumerate().map(kind).collect()
        };
        let captions: Vec<Vec<u32>> = self.captions.iter().map(|tuples| merged(tuples, &matches)).collect();
        let images: Vec<Vec<u32>> = references
            .iter()
            .map(|references| {
                let mut all = Vec::new();
                for reference in references {
                    all.extend(self.captions[*reference].iter().copied());
                }
                merged(&all, &matches)
            })
            .collect();
        let mut postings = vec![Vec::new(); matches.len()];
        for (caption, tuples) in (0..).zip(&captions) {
            for tuple in tuples {
                postings[*tuple as usize].push(caption);
            }
        }
        Spice { matches, kinds, captions, images, postings }
    }
}

const OBJECT: u8 = 1;
const ATTRIBUTE: u8 = 2;
const RELATION: u8 = 4;
const COLOR: u8 = 8;
const COUNT: u8 = 16;
const SIZE: u8 = 32;
const ALL: u8 = OBJECT | ATTRIBUTE | RELATION;

/// `tuples` without those that match an earlier one.
fn merged(tuples: &[u32], matches: &[Vec<u32>]) -> Vec<u32> {
    let mut kept: Vec<u32> = Vec::with_capacity(tuples.len());
    for tuple in tuples {
        if !kept.iter().any(|known| matches[*known as usize].binary_search(tuple).is_ok()) {
            kept.push(*tuple);
        }
    }
    kept
}

/// SPICE of every image with every caption.
///
/// With `R` the tuples of an image's references, `C` those of a caption, each merged (of tuples that match one stays),
/// and `M` the tuples of `C` that match one of `R`: precision `|M| / |C|`, recall `|M| / |R|`, `φ = 2 |M| / (|C| + |R|)`.
#[derive(Debug)]
pub struct Spice {
    matches: Vec<Vec<u32>>,
    kinds: Vec<u8>,
    captions: Vec<Vec<u32>>,
    images: Vec<Vec<u32>>,
    /// Captions that have each tuple.
    postings: Vec<Vec<u32>>,
}

impl Spice {
    /// φ with precision, recall and sub-scores.
    #[must_use]
    pub fn scores(&self, image: usize, caption: usize) -> Scores {
        let f = |kind| self.f(image, caption, kind);
        let (matched, of_caption, of_image) = self.sizes(image, caption, ALL);
        let share = |of: usize| if of == 0 { 0.0 } else { ratio(matched, of) };
        Scores {
            f: f(ALL).unwrap_or(0.0),
            precision: share(of_caption),
            recall: share(of_image),
            object: f(OBJECT),
            attribute: f(ATTRIBUTE),
            relation: f(RELATION),
            color: f(COLOR),
            count: f(COUNT),
            size: f(SIZE),
        }
    }

    /// F-score of the tuples of `kind`; nothing where neither side has one.
    fn f(&self, image: usize, caption: usize, kind: u8) -> Option<f64> {
        let (matched, of_caption, of_image) = self.sizes(image, caption, kind);
        (of_caption + of_image > 0).then(|| ratio(2 * matched, of_caption + of_image))
    }

    /// Tuples of `kind` that match, of the caption, and of the image.
    fn sizes(&self, image: usize, caption: usize, kind: u8) -> (usize, usize, usize) {
        let is = |tuple: &&u32| self.kinds[**tuple as usize] & kind != 0;
        let of_image = self.images[image].iter().filter(is).count();
        let of_caption = self.captions[caption].iter().filter(is).count();
        let matched = self.captions[caption].iter().filter(is).filter(|tuple| {
            let matches = &self.matches[**tuple as usize];
            self.images[image].iter().any(|known| matches.binary_search(known).is_ok())
        });
        // Synonymy is not transitive: two tuples of a caption that do not match may match the same one.
        (matched.count().min(of_image), of_caption, of_image)
    }

    /// For each caption how many of its tuples match the image, before that is limited to the tuples of the image.
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

    fn value(&self, image: usize, caption: usize, matched: usize) -> f64 {
        let (of_image, of_caption) = (self.images[image].len(), self.captions[caption].len());
        let matched = matched.min(of_image);
        if matched == 0 { 0.0 } else { ratio(2 * matched, of_caption + of_image) }
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
        self.f(image, caption, ALL).unwrap_or(0.0)
    }

    fn row(&self, image: usize, scratch: &mut Scratch, values: &mut [f32]) {
        self.count(image, scratch);
        for (caption, (value, matched)) in values.iter_mut().zip(&scratch.matched).enumerate() {
            *value = narrow(self.value(image, caption, *matched as usize));
        }
    }

    fn top(&self, image: usize, m: usize, scratch: &mut Scratch) -> Vec<(usize, f64)> {
        self.count(image, scratch);
        let counts = scratch.matched.iter().enumerate();
        let mut best: Vec<(usize, f64)> =
            counts.map(|(caption, matched)| (caption, self.value(image, caption, *matched as usize))).collect();
        let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
        if m < best.len() {
            best.select_nth_unstable_by(m, order);
            best.truncate(m);
        }
        best.sort_unstable_by(order);
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
