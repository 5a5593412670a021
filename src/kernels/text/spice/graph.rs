//! What a caption says: objects, their attributes, and relations between them.

/// The scene graph of a caption, in lemmas. The order is that of the caption; nothing occurs twice.
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

    /// Adds an object, unless it is there.
    pub fn object(&mut self, object: &str) {
        if !self.objects.iter().any(|known| known == object) {
            self.objects.push(object.to_owned());
        }
    }

    /// Adds an attribute and its object, unless they are there.
    pub fn attribute(&mut self, object: &str, attribute: &str) {
        self.object(object);
        if !self.attributes.iter().any(|(o, a)| o == object && a == attribute) {
            self.attributes.push((object.to_owned(), attribute.to_owned()));
        }
    }

    /// Adds a relation and its objects, unless they are there.
    pub fn relation(&mut self, subject: &str, relation: &str, object: &str) {
        self.object(subject);
        self.object(object);
        if !self.relations.iter().any(|(s, r, o)| s == subject && r == relation && o == object) {
            self.relations.push((subject.to_owned(), relation.to_owned(), object.to_owned()));
        }
    }
}
