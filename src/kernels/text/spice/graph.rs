//! Scene graph of a caption: objects, their attributes, and relations between them.

use std::collections::HashSet;
use std::hash::Hash;

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
