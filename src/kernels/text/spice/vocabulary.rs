//! Tuples as numbers, and which tuples mean the same.

use std::collections::HashMap;

use super::SceneGraph;

/// One, two or three elements: an object, an object with an attribute, or a relation.
pub(super) type Tuple = [u32; 3];

/// No element.
pub(super) const NONE: u32 = u32::MAX;

/// Elements and tuples of all graphs, each stored once.
#[derive(Debug, Default)]
pub(super) struct Vocabulary {
    elements: HashMap<String, u32>,
    /// Synsets of each element.
    synsets: Vec<Vec<u32>>,
    numbers: HashMap<Tuple, u32>,
    /// Tuples by number.
    pub tuples: Vec<Tuple>,
}

impl Vocabulary {
    /// Number of `element`, whose synsets are asked for once.
    fn element(&mut self, element: &str, synsets: &dyn Fn(&str) -> Vec<u32>) -> u32 {
        if let Some(known) = self.elements.get(element) {
            return *known;
        }
        let number = u32::try_from(self.synsets.len()).expect("fewer words than 2^32");
        self.elements.insert(element.to_owned(), number);
        self.synsets.push(synsets(element));
        number
    }

    fn tuple(&mut self, tuple: Tuple) -> u32 {
        let next = u32::try_from(self.tuples.len()).expect("fewer tuples than 2^32");
        *self.numbers.entry(tuple).or_insert_with(|| {
            self.tuples.push(tuple);
            next
        })
    }

    /// Numbers of the tuples of `graph`, in its order, each once.
    pub fn tuples(&mut self, graph: &SceneGraph, synsets: &dyn Fn(&str) -> Vec<u32>) -> Vec<u32> {
        let mut found = Vec::with_capacity(graph.objects.len() + graph.attributes.len() + graph.relations.len());
        let mut add = |this: &mut Self, words: [&str; 3]| {
            let tuple = words.map(|word| if word.is_empty() { NONE } else { this.element(word, synsets) });
            let tuple = this.tuple(tuple);
            if !found.contains(&tuple) {
                found.push(tuple);
            }
        };
        for object in &graph.objects {
            add(self, [object, "", ""]);
        }
        for (object, attribute) in &graph.attributes {
            add(self, [object, attribute, ""]);
        }
        for (subject, relation, object) in &graph.relations {
            add(self, [subject, relation, object]);
        }
        found
    }

    /// For each tuple all that match it, itself among them, ascending: as many elements, each equal or in a common synset.
    pub fn matches(&self) -> Vec<Vec<u32>> {
        let mut members: HashMap<u32, Vec<u32>> = HashMap::new();
        for (element, synsets) in (0..).zip(&self.synsets) {
            for synset in synsets {
                members.entry(*synset).or_default().push(element);
            }
        }
        let synonyms: Vec<Vec<u32>> = (0..)
            .zip(&self.synsets)
            .map(|(element, synsets)| {
                let mut synonyms: Vec<u32> = synsets.iter().flat_map(|synset| &members[synset]).copied().collect();
                synonyms.push(element);
                synonyms.sort_unstable();
                synonyms.dedup();
                synonyms
            })
            .collect();
        let of = |element: u32| synonyms.get(element as usize).map_or(&[NONE][..], Vec::as_slice);
        self.tuples
            .iter()
            .map(|[a, b, c]| {
                let mut matching = Vec::new();
                for a in of(*a) {
                    for b in of(*b) {
                        matching.extend(of(*c).iter().filter_map(|c| self.numbers.get(&[*a, *b, *c])));
                    }
                }
                matching.sort_unstable();
                matching
            })
            .collect()
    }

    /// The element at `place` of each tuple satisfies `is`.
    pub fn mark(&self, place: usize, arity: usize, is: &dyn Fn(&str) -> bool) -> Vec<bool> {
        let mut marked = vec![false; self.synsets.len()];
        for (element, number) in &self.elements {
            marked[*number as usize] = is(element);
        }
        self.tuples.iter().map(|tuple| self.arity(tuple) == arity && marked[tuple[place] as usize]).collect()
    }

    /// How many elements `tuple` has.
    pub fn arity(&self, tuple: &Tuple) -> usize {
        tuple.iter().filter(|element| **element != NONE).count()
    }
}
