//! Ids of tuples, and the matches between tuples.

use std::collections::HashMap;

use super::dictionary::SpiceDictionary;
use super::graph::SceneGraph;

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
            let sort = |is, of| if is { of } else { 0 };
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
        let of = |element: u32| synonyms.get(element as usize).map_or(&[NONE][..], Vec::as_slice);
        let matching = |[a, b, c]: &Tuple| {
            let mut matching = Vec::new();
            for a in of(*a) {
                for b in of(*b) {
                    matching.extend(of(*c).iter().filter_map(|c| self.ids.get(&[*a, *b, *c])));
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
