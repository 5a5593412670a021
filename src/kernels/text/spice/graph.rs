//! What a caption says: objects, their attributes, and relations between them.

use std::collections::HashSet;
use std::hash::Hash;

/// The scene graph of a caption, in lemmas, in the order of the caption.
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
    /// Whether it says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Adds an object.
    pub fn object(&mut self, object: &str) {
        self.objects.push(object.to_owned());
    }

    /// Adds an attribute and its object.
    pub fn attribute(&mut self, object: &str, attribute: &str) {
        self.object(object);
        self.attributes.push((object.to_owned(), attribute.to_owned()));
    }

    /// Adds a relation and its objects.
    pub fn relation(&mut self, subject: &str, relation: &str, object: &str) {
        self.object(subject);
        self.object(object);
        self.relations.push((subject.to_owned(), relation.to_owned(), object.to_owned()));
    }

    /// The graph with everything once, where it was first.
    #[must_use]
    pub fn unique(mut self) -> Self {
        keep_first(&mut self.objects);
        keep_first(&mut self.attributes);
        keep_first(&mut self.relations);
        self
    }
}

fn keep_first<T: Clone + Eq + Hash>(all: &mut Vec<T>) {
    let mut seen = HashSet::with_capacity(all.len());
    all.retain(|one| seen.insert(one.clone()));
}
