//! SPICE (Anderson, Fernando, Johnson, Gould: SPICE: Semantic Propositional Image Caption Evaluation, ECCV 2016): the
//! F-score of the scene-graph tuples of a caption against those of an image's references.
//!
//! The caller passes scene graphs and synsets, which need a dictionary. [`Spice`] has the formula. One step of the Java
//! tool is simplified: it merges the graphs of the references object by object; here matching tuples are merged.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use crate::text::{CaptionSimilarity, keep_top};

#[cfg(test)]
mod tests;

/// Scene graph of a caption. Elements are lemmas, in the order of the caption.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SceneGraph {
    /// Objects: `dog`.
    pub objects: Vec<String>,
    /// Object and attribute: `dog`, `brown`.
    pub attributes: Vec<(String, String)>,
    /// Subject, relation and object: `dog`, `sit on`, `wall`.
    pub relations: Vec<(String, String, String)>,
}

impl SceneGraph {
    /// True if there is no object.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds an object.
    pub fn add_object(&mut self, object: &str) {
        self.objects.push(object.to_owned());
    }

    /// Adds an attribute, and its object.
    pub fn add_attribute(&mut self, object: &str, attribute: &str) {
        self.add_object(object);
        self.attributes.push((object.to_owned(), attribute.to_owned()));
    }

    /// Adds a relation, and both of its objects.
    pub fn add_relation(&mut self, subject: &str, relation: &str, object: &str) {
        self.add_object(subject);
        self.add_object(object);
        self.relations.push((subject.to_owned(), relation.to_owned(), object.to_owned()));
    }

    /// Removes duplicates; the first occurrence stays.
    #[must_use]
    pub fn deduplicated(mut self) -> Self {
        remove_duplicates(&mut self.objects);
        remove_duplicates(&mut self.attributes);
        remove_duplicates(&mut self.relations);
        self
    }
}

fn remove_duplicates<T: Clone + Eq + Hash>(all: &mut Vec<T>) {
    let mut seen = HashSet::with_capacity(all.len());
    all.retain(|one| seen.insert(one.clone()));
}

/// SPICE of every image with every caption.
///
/// `R` are the tuples of an image's references, and `C` those of a caption; of tuples that match each other, only the
/// first is kept. `M` are the tuples of `C` that match one of `R`, at most `|R|`. Then precision is `|M| / |C|`, recall
/// is `|M| / |R|`, and `φ = 2 |M| / (|C| + |R|)`, or 0 if there is no tuple. Two tuples match if they have equally many
/// elements, and each pair of elements is the same lemma or has a common synset.
#[derive(Debug)]
pub struct Spice {
    /// For each tuple, the tuples that match it.
    matches: Vec<Vec<u32>>,
    kinds: Vec<u8>,
    /// Tuple ids of each caption.
    captions: Vec<Vec<u32>>,
    /// Tuple ids of each image, ascending.
    images: Vec<Vec<u32>>,
    /// For each tuple, the captions that have it.
    postings: Vec<Vec<u32>>,
}

/// SPICE of one image and one caption, with precision, recall and the scores of subsets of tuples. A subset score is
/// `None` if neither side has a tuple of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SpiceScores {
    /// F-score of all tuples: φ.
    pub f_score: f64,
    /// Fraction of the caption's tuples that the references have; 0 without tuples.
    pub precision: f64,
    /// Fraction of the references' tuples that the caption has; 0 without tuples.
    pub recall: f64,
    /// F-score of the objects.
    pub object: Option<f64>,
    /// F-score of the attributes.
    pub attribute: Option<f64>,
    /// F-score of the relations.
    pub relation: Option<f64>,
    /// F-score of the attributes that are colours.
    pub color: Option<f64>,
    /// F-score of the attributes that are numbers.
    pub count: Option<f64>,
    /// F-score of the attributes that are sizes.
    pub size: Option<f64>,
}

/// Builder of [`Spice`]: takes the scene graph of one caption after the other.
#[derive(Debug, Default)]
pub struct SpiceBuilder {
    vocabulary: TupleVocabulary,
    captions: Vec<Vec<u32>>,
}

impl SpiceBuilder {
    /// Adds the graph of the next caption.
    pub fn push(&mut self, graph: &SceneGraph, words: &impl SpiceDictionary) {
        let tuples = self.vocabulary.add_graph(graph, words);
        self.captions.push(tuples);
    }

    /// Builds the similarity. `references` are the captions of each image, by index.
    ///
    /// # Cost
    /// Linear in the tuples and the pairs of matching tuples.
    ///
    /// # Panics
    /// A reference is no index of a pushed caption.
    #[must_use]
    pub fn build(self, references: &[Vec<usize>]) -> Spice {
        let matches = self.vocabulary.matches();
        let image = |references: &Vec<usize>| {
            let all = references.iter().flat_map(|reference| &self.captions[*reference]);
            let mut tuples = without_matches(all, &matches);
            tuples.sort_unstable();
            tuples
        };
        let images = references.iter().map(image).collect();
        let captions: Vec<Vec<u32>> = self.captions.iter().map(|tuples| without_matches(tuples, &matches)).collect();
        let mut postings = vec![Vec::new(); matches.len()];
        for (caption, tuples) in (0..).zip(&captions) {
            for tuple in tuples {
                postings[*tuple as usize].push(caption);
            }
        }
        Spice { matches, kinds: self.vocabulary.kinds, captions, images, postings }
    }
}

/// Removes tuples that match an earlier one.
fn without_matches<'a>(tuples: impl IntoIterator<Item = &'a u32>, matches: &[Vec<u32>]) -> Vec<u32> {
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
    /// φ with precision, recall and the scores of subsets.
    #[must_use]
    pub fn scores(&self, image: usize, caption: usize) -> SpiceScores {
        let all = self.match_counts(image, caption, kind::ALL);
        let f = |kind| self.match_counts(image, caption, kind).f_score();
        let share = |whole| if whole == 0 { 0.0 } else { ratio(all.matched, whole) };
        SpiceScores {
            f_score: all.f_score().unwrap_or(0.0),
            precision: share(all.in_caption),
            recall: share(all.in_image),
            object: f(kind::OBJECT),
            attribute: f(kind::ATTRIBUTE),
            relation: f(kind::RELATION),
            color: f(kind::COLOR),
            count: f(kind::COUNT),
            size: f(kind::SIZE),
        }
    }

    fn match_counts(&self, image: usize, caption: usize, kind: u8) -> MatchCounts {
        let (image, caption) = (&self.images[image], &self.captions[caption]);
        let is = |tuple: &&u32| self.kinds[**tuple as usize] & kind != 0;
        let in_image = image.iter().filter(is).count();
        let in_caption = caption.iter().filter(is).count();
        let matches =
            |tuple: &&u32| self.matches[**tuple as usize].iter().any(|other| image.binary_search(other).is_ok());
        let matched = caption.iter().filter(is).filter(matches).count().min(in_image);
        MatchCounts { matched, in_caption, in_image }
    }

    /// Counts, for each caption, its tuples that match a tuple of the image.
    fn count_matches(&self, image: usize, scratch: &mut SpiceScratch) {
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

    fn score(&self, image: usize, caption: usize, matched: u32) -> f64 {
        let (in_image, in_caption) = (self.images[image].len(), self.captions[caption].len());
        MatchCounts { matched: (matched as usize).min(in_image), in_caption, in_image }.f_score().unwrap_or(0.0)
    }
}

/// Counts of tuples. Matching is not transitive: two tuples of a caption that do not match each other can match the
/// same tuple of the image. So `matched` is at most `in_image`.
#[derive(Debug, Clone, Copy)]
struct MatchCounts {
    matched: usize,
    in_caption: usize,
    in_image: usize,
}

impl MatchCounts {
    fn f_score(self) -> Option<f64> {
        let all = self.in_caption + self.in_image;
        (all > 0).then(|| ratio(2 * self.matched, all))
    }
}

#[expect(clippy::cast_precision_loss, reason = "captions have far fewer than 2^53 tuples")]
fn ratio(above: usize, below: usize) -> f64 {
    above as f64 / below as f64
}

/// Buffers of [`Spice`] that a thread reuses between rows: matches of each caption, and the tuples that match the
/// image.
#[derive(Debug, Default)]
pub struct SpiceScratch {
    matched: Vec<u32>,
    tuples: Vec<u32>,
}

impl CaptionSimilarity for Spice {
    type Scratch = SpiceScratch;

    fn image_count(&self) -> usize {
        self.images.len()
    }

    fn caption_count(&self) -> usize {
        self.captions.len()
    }

    fn pair(&self, image: usize, caption: usize) -> f64 {
        self.match_counts(image, caption, kind::ALL).f_score().unwrap_or(0.0)
    }

    fn row(&self, image: usize, scratch: &mut SpiceScratch, values: &mut [f32]) {
        self.count_matches(image, scratch);
        for (caption, (value, matched)) in values.iter_mut().zip(&scratch.matched).enumerate() {
            *value = to_f32(self.score(image, caption, *matched));
        }
    }

    fn top_captions(&self, image: usize, m: usize, scratch: &mut SpiceScratch) -> Vec<(usize, f64)> {
        self.count_matches(image, scratch);
        let value = |(caption, matched): (usize, &u32)| (caption, self.score(image, caption, *matched));
        let mut best: Vec<(usize, f64)> = scratch.matched.iter().enumerate().map(value).collect();
        keep_top(&mut best, m);
        best
    }

    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32> {
        let mut values = Vec::with_capacity(images.len() * captions.len());
        for image in images {
            values.extend(captions.iter().map(|caption| to_f32(self.pair(*image, *caption))));
        }
        values
    }
}

#[expect(clippy::cast_possible_truncation, reason = "similarities are stored as f32")]
fn to_f32(value: f64) -> f32 {
    value as f32
}

/// A tuple of one, two or three elements: an object, an object and its attribute, or a relation.
type Tuple = [u32; 3];

/// Id of a missing element.
const NONE: u32 = u32::MAX;

/// Kinds of tuples, as bit flags; an attribute can have several.
pub(super) mod kind {
    pub(crate) const OBJECT: u8 = 1;
    pub(crate) const ATTRIBUTE: u8 = 2;
    pub(crate) const RELATION: u8 = 4;
    pub(crate) const COLOR: u8 = 8;
    pub(crate) const COUNT: u8 = 16;
    pub(crate) const SIZE: u8 = 32;
    pub(crate) const ALL: u8 = OBJECT | ATTRIBUTE | RELATION;
}

/// Vocabulary of the elements and tuples of all graphs.
#[derive(Debug, Default)]
pub(super) struct TupleVocabulary {
    elements: HashMap<String, u32>,
    /// Synsets of each element.
    synsets: Vec<Vec<u32>>,
    ids: HashMap<Tuple, u32>,
    tuples: Vec<Tuple>,
    /// Flags of [`kind`] for each tuple.
    pub kinds: Vec<u8>,
}

impl TupleVocabulary {
    /// Adds the tuples of `graph` and returns their ids: objects, then attributes, then relations.
    pub fn add_graph(&mut self, graph: &SceneGraph, words: &impl SpiceDictionary) -> Vec<u32> {
        let mut found = Vec::with_capacity(graph.objects.len() + graph.attributes.len() + graph.relations.len());
        for object in &graph.objects {
            let tuple = [self.element_id(object, words), NONE, NONE];
            found.push(self.tuple_id(tuple, kind::OBJECT));
        }
        for (object, attribute) in &graph.attributes {
            let tuple = [self.element_id(object, words), self.element_id(attribute, words), NONE];
            let sort = |is, value| if is { value } else { 0 };
            let color = sort(words.is_color(attribute), kind::COLOR);
            let count = sort(words.is_count(attribute), kind::COUNT);
            let size = sort(words.is_size(attribute), kind::SIZE);
            found.push(self.tuple_id(tuple, kind::ATTRIBUTE | color | count | size));
        }
        for (subject, relation, object) in &graph.relations {
            let tuple = [subject, relation, object].map(|element| self.element_id(element, words));
            found.push(self.tuple_id(tuple, kind::RELATION));
        }
        found
    }

    /// For each tuple, all tuples that match it, itself included. Tuples match if they have the same number of elements
    /// and the elements at each position are equal or share a synset.
    pub fn matches(&self) -> Vec<Vec<u32>> {
        let synonyms = self.synonyms();
        let variants = |element: u32| synonyms.get(element as usize).map_or(&[NONE][..], Vec::as_slice);
        let matching = |[a, b, c]: &Tuple| {
            let mut matching = Vec::new();
            for a in variants(*a) {
                for b in variants(*b) {
                    matching.extend(variants(*c).iter().filter_map(|c| self.ids.get(&[*a, *b, *c])));
                }
            }
            matching
        };
        self.tuples.iter().map(matching).collect()
    }

    /// For each element, itself and the elements that share a synset with it.
    fn synonyms(&self) -> Vec<Vec<u32>> {
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for (element, synsets) in (0..).zip(&self.synsets) {
            for synset in synsets {
                members.entry(*synset).or_default().push(element);
            }
        }
        let synonyms = |(element, synsets): (u32, &Vec<u32>)| {
            let mut synonyms: Vec<u32> = synsets.iter().flat_map(|synset| &members[synset]).copied().collect();
            synonyms.push(element);
            synonyms.sort_unstable();
            synonyms.dedup();
            synonyms
        };
        (0..).zip(&self.synsets).map(synonyms).collect()
    }

    /// The id of `element`. Its synsets are looked up once.
    fn element_id(&mut self, element: &str, words: &impl SpiceDictionary) -> u32 {
        if let Some(known) = self.elements.get(element) {
            return *known;
        }
        let id = u32::try_from(self.synsets.len()).expect("memory ends before 2^32 words");
        self.elements.insert(element.to_owned(), id);
        self.synsets.push(words.synsets(element));
        id
    }

    fn tuple_id(&mut self, tuple: Tuple, kind: u8) -> u32 {
        *self.ids.entry(tuple).or_insert_with(|| {
            let id = u32::try_from(self.tuples.len()).expect("memory ends before 2^32 tuples");
            self.tuples.push(tuple);
            self.kinds.push(kind);
            id
        })
    }
}

/// Dictionary of SPICE: synsets, and the words for colours, numbers and sizes.
pub trait SpiceDictionary {
    /// Synsets of an element of a tuple. Elements with a common synset match.
    fn synsets(&self, element: &str) -> Vec<u32>;
    /// True if an attribute is a colour.
    fn is_color(&self, attribute: &str) -> bool;
    /// True if an attribute is a number.
    fn is_count(&self, attribute: &str) -> bool;
    /// True if an attribute is a size.
    fn is_size(&self, attribute: &str) -> bool;
}
