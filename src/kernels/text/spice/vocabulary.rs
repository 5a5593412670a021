//! Tuples as numbers, and which tuples mean the same.

use std::collections::HashMap;

use super::graph::SceneGraph;
use super::words::Words;

/// One, two or three elements: an object, an object with its attribute, or a relation.
type Tuple = [u32; 3];

/// No element.
const NONE: u32 = u32::MAX;

/// Kinds of tuples; an attribute may have several.
pub(super) mod kind {
    pub(crate) const OBJECT: u8 = 1;
    pub(crate) const ATTRIBUTE: u8 = 2;
    pub(crate) const RELATION: u8 = 4;
    pub(crate) const COLOR: u8 = 8;
    pub(crate) const COUNT: u8 = 16;
    pub(crate) const SIZE: u8 = 32;
    pub(crate) const ALL: u8 = OBJECT | ATTRIBUTE | RELATION;
}

/// Elements and tuples of all graphs, each stored once.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    elements: HashMap<String, u32>,
    /// Synsets of each element.
    synsets: Vec<Vec<u32>>,
    numbers: HashMap<Tuple, u32>,
    tuples: Vec<Tuple>,
    /// What each tuple is, of [`kind`].
    pub kinds: Vec<u8>,
}

impl Vocabulary {
    /// Numbers of the tuples of `graph`: objects, attributes, relations.
    pub fn tuples(&mut self, graph: &SceneGraph, words: &impl Words) -> Vec<u32> {
        let mut found = Vec::with_capacity(graph.objects.len() + graph.attributes.len() + graph.relations.len());
        for object in &graph.objects {
            let tuple = [self.element(object, words), NONE, NONE];
            found.push(self.number(tuple, kind::OBJECT));
        }
        for (object, attribute) in &graph.attributes {
            let tuple = [self.element(object, words), self.element(attribute, words), NONE];
            let sort = |is, of| if is { of } else { 0 };
            let color = sort(words.is_color(attribute), kind::COLOR);
            let count = sort(words.is_count(attribute), kind::COUNT);
            let size = sort(words.is_size(attribute), kind::SIZE);
            found.push(self.number(tuple, kind::ATTRIBUTE | color | count | size));
        }
        for (subject, relation, object) in &graph.relations {
            let tuple = [subject, relation, object].map(|element| self.element(element, words));
            found.push(self.number(tuple, kind::RELATION));
        }
        found
    }

    /// For each tuple all that match it, itself among them: as many elements, each equal or in a common synset.
    pub fn matches(&self) -> Vec<Vec<u32>> {
        let synonyms = self.synonyms();
        let of = |element: u32| synonyms.get(element as usize).map_or(&[NONE][..], Vec::as_slice);
        let matching = |[a, b, c]: &Tuple| {
            let mut matching = Vec::new();
            for a in of(*a) {
                for b in of(*b) {
                    matching.extend(of(*c).iter().filter_map(|c| self.numbers.get(&[*a, *b, *c])));
                }
            }
            matching
        };
        self.tuples.iter().map(matching).collect()
    }

    /// For each element itself and those that share a synset with it.
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

    /// The number of `element`, whose synsets are asked for once.
    fn element(&mut self, element: &str, words: &impl Words) -> u32 {
        if let Some(known) = self.elements.get(element) {
            return *known;
        }
        let number = u32::try_from(self.synsets.len()).expect("memory ends before 2^32 words");
        self.elements.insert(element.to_owned(), number);
        self.synsets.push(words.synsets(element));
        number
    }

    fn number(&mut self, tuple: Tuple, kind: u8) -> u32 {
        *self.numbers.entry(tuple).or_insert_with(|| {
            let number = u32::try_from(self.tuples.len()).expect("memory ends before 2^32 tuples");
            self.tuples.push(tuple);
            self.kinds.push(kind);
            number
        })
    }
}
