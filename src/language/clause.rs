//! Reading the parts of a caption from left to right into its graph.

use super::fragments::{self, Opening, Reading};
use super::phrases::{Item, NounPhrase};
use super::tagger::Word;
use super::tags::{Tag, among};
use crate::kernels::text::spice::SceneGraph;

/// What was read so far, as far as it matters for what follows. Nouns are numbered in their order.
pub(super) struct Clause<'g> {
    graph: &'g mut SceneGraph,
    pub(super) nodes: Vec<NounPhrase>,
    /// What the next verb says something about.
    pub(super) subjects: Vec<usize>,
    pub(super) verb: Option<Verb>,
    /// How the last noun was attached.
    pub(super) link: Link,
    pub(super) last: Option<usize>,
    /// A preposition whose noun has not come.
    pub(super) preposition: Option<String>,
    /// Whether `be` waits for what it says.
    pub(super) be: bool,
    /// An attribute that a word of quantity hands to the noun behind `of`.
    quantity: Option<String>,
    /// Whether a finite verb was seen.
    pub(super) finite: bool,
    /// Whether no period ends the caption.
    pub(super) fragment: bool,
    pub(super) opening: Opening,
    /// Whether a noun phrase begins behind a gerund that ended another.
    pub(super) apart: bool,
}

/// A verb that may still get objects.
#[derive(Debug, Clone)]
pub(super) struct Verb {
    pub(super) lemma: String,
    pub(super) subjects: Vec<usize>,
    /// Whether its relations are left out.
    pub(super) silent: bool,
    pub(super) finite: bool,
    /// Whether it has a relation.
    pub(super) used: bool,
    /// Whether it has a direct object.
    pub(super) object: bool,
}

/// How a noun was attached, for another that `and` adds.
#[derive(Debug, Clone)]
pub(super) enum Link {
    None,
    Subject,
    Relation(Relation),
}

/// A relation whose object is given apart.
#[derive(Debug, Clone)]
pub(super) struct Relation {
    pub(super) subjects: Vec<usize>,
    pub(super) label: String,
    pub(super) silent: bool,
}

/// Nouns of quantity that stand for no thing, as Universal Dependencies for English have them: of `a pair of shoes` the
/// graph has shoes.
const QUANTITIES: &str = "\
    lot assortment number couple bunch handful slew dozen series variety multitude wad clutch wave mountain array \
    string ton range plethora heap sort form kind type version bit pair triple total";

/// Subjects that a verb may have. More are no caption, and pairs of subjects and objects are many.
const SUBJECTS: usize = 16;

/// Words of a preposition behind a verb: `hang down from`.
const PARTICLES: usize = 3;

impl<'g> Clause<'g> {
    pub(super) fn new(words: &[Word], graph: &'g mut SceneGraph) -> Self {
        let fragment = words.last().is_none_or(|word| word.tag != Tag::End);
        Self {
            graph,
            nodes: Vec::new(),
            subjects: Vec::new(),
            verb: None,
            link: Link::None,
            last: None,
            preposition: None,
            be: false,
            quantity: None,
            finite: false,
            fragment,
            opening: if fragment { fragments::opening(words) } else { Opening::Thing },
            apart: false,
        }
    }

    pub(super) fn read(mut self, items: &[Item]) {
        for (at, item) in items.iter().enumerate() {
            match item {
                Item::Noun(phrase) => self.noun(phrase, items, at),
                Item::Pronoun => self.pronoun(items, at),
                Item::State(adjectives) => self.state(adjectives),
                Item::Verb { text, lemma, form } => self.verb(text, lemma, *form, items, at),
                Item::Other(text, tag) => self.other(text, *tag, &items[at + 1..]),
            }
        }
        self.finish_verb();
    }

    fn noun(&mut self, phrase: &NounPhrase, items: &[Item], at: usize) {
        let counts = phrase.determined || self.verb.is_some() && phrase.head == "lot";
        if let [of, Item::Noun(_), ..] = &items[at + 1..]
            && of.is_preposition("of")
            && counts
            && among(QUANTITIES, &phrase.head)
        {
            self.quantity = Some(if phrase.determined { "a" } else { &phrase.head }.to_owned());
            return;
        }
        let mut phrase = phrase.clone();
        phrase.modifiers.extend(self.quantity.take());
        let node = self.add(phrase);
        self.attach(node, items, at);
        self.last = Some(node);
    }

    /// Puts a noun with its attributes and owners into the graph.
    fn add(&mut self, mut phrase: NounPhrase) -> usize {
        let mut owner = None;
        for mut phrase in std::mem::take(&mut phrase.owners) {
            phrase.owners.clear();
            owner = Some(self.add_owned(phrase, owner));
        }
        self.add_owned(phrase, owner)
    }

    fn add_owned(&mut self, phrase: NounPhrase, owner: Option<usize>) -> usize {
        let node = self.nodes.len();
        // A verb is no thing.
        if self.opening != Opening::Command || node > 0 {
            self.graph.object(&phrase.head);
        }
        let verb_first = self.opening == Opening::Gerund && node == 0;
        for modifier in phrase.modifiers.iter().skip(usize::from(verb_first)) {
            self.graph.attribute(&phrase.head, modifier);
        }
        let owner = owner.or_else(|| {
            let subject = self.subjects.first().copied().unwrap_or(0);
            (phrase.possessive && node > 0).then_some(subject)
        });
        self.nodes.push(phrase);
        if let Some(owner) = owner {
            self.relate(&[owner], "have", node);
        }
        node
    }

    pub(super) fn relate(&mut self, subjects: &[usize], label: &str, object: usize) {
        for subject in subjects {
            self.relate_to(*subject, label, &self.nodes[object].head.clone());
        }
    }

    /// Adds a relation, unless it is one of a thing with itself.
    pub(super) fn relate_to(&mut self, subject: usize, label: &str, object: &str) {
        let subject = &self.nodes[subject].head;
        if subject != object {
            self.graph.relation(subject, label, object);
        }
    }

    /// Says of each of `subjects` that it is `attribute`.
    pub(super) fn describe(&mut self, subjects: &[usize], attribute: &str) {
        for subject in subjects {
            let subject = &self.nodes[*subject].head;
            if subject != attribute {
                self.graph.attribute(subject, attribute);
            }
        }
    }

    pub(super) fn add_subject(&mut self, node: usize) {
        if self.subjects.len() < SUBJECTS {
            self.subjects.push(node);
        }
    }

    /// `it` is what the caption is about.
    fn pronoun(&mut self, items: &[Item], at: usize) {
        let listed = at > 0 && matches!(items[at - 1], Item::Other(_, Tag::Conjunction | Tag::Comma));
        if self.preposition.is_none() && (listed || self.verb.as_ref().is_none_or(|verb| verb.object)) {
            self.new_clause();
        } else if self.nodes.is_empty() {
            self.preposition = None;
        } else {
            let (link, last) = (self.link.clone(), self.last);
            self.attach(0, items, at);
            (self.link, self.last) = (link, last);
        }
    }

    fn state(&mut self, adjectives: &[String]) {
        if self.be {
            let subjects = self.subjects.clone();
            for adjective in adjectives {
                self.describe(&subjects, adjective);
            }
        }
    }

    fn other(&mut self, text: &str, tag: Tag, rest: &[Item]) {
        match tag {
            Tag::Be => {
                // Of `has been painted` only the last is a verb.
                self.verb.take_if(|verb| verb.lemma == "have" && !verb.used);
                self.finish_verb();
                self.be = true;
                self.finite = true;
                self.preposition = None;
            }
            Tag::Preposition if text == "of" && self.quantity.is_some() => {}
            Tag::Preposition => self.push_preposition(text),
            Tag::To if !matches!(rest.first(), Some(Item::Verb { form: Tag::Verb, .. })) => self.push_preposition(text),
            Tag::Conjunction | Tag::Comma => {
                let clause = matches!(
                    rest,
                    [Item::Noun(_), Item::Verb { form: Tag::Third | Tag::Verb, .. } | Item::Other(_, Tag::Be), ..]
                );
                if clause && (self.be || self.verb.as_ref().is_some_and(|verb| verb.finite)) {
                    self.new_clause();
                }
                self.preposition = None;
            }
            Tag::Relative => {
                if let Some(last) = self.last {
                    self.finish_verb();
                    self.subjects = vec![last];
                }
                self.be = false;
                self.preposition = None;
            }
            Tag::There => self.new_clause(),
            _ => {}
        }
    }

    fn push_preposition(&mut self, text: &str) {
        match &mut self.preposition {
            Some(known) if self.verb.as_ref().is_some_and(|verb| !verb.object) => {
                if known.split(' ').count() < PARTICLES {
                    known.push(' ');
                    known.push_str(text);
                }
            }
            preposition => *preposition = Some(text.to_owned()),
        }
    }

    fn new_clause(&mut self) {
        self.finish_verb();
        self.subjects.clear();
        self.link = Link::None;
        self.last = None;
        self.be = false;
        self.preposition = None;
    }

    /// A finite verb without objects is an attribute of its subjects.
    pub(super) fn finish_verb(&mut self) {
        if let Some(verb) = self.verb.take()
            && verb.finite
            && !verb.used
            && !verb.silent
        {
            self.describe(&verb.subjects, &verb.lemma);
        }
    }

    fn verb(&mut self, text: &str, lemma: &str, form: Tag, items: &[Item], at: usize) {
        let before = at.checked_sub(1).map(|at| &items[at]);
        if form == Tag::Past
            && matches!(before, Some(Item::Verb { lemma, .. }) if lemma == "have")
            && let Some(have) = &mut self.verb
        {
            // `have folded` is one verb.
            lemma.clone_into(&mut have.lemma);
            return;
        }
        let infinitive = matches!(before, Some(Item::Other(_, Tag::To)));
        let listed = matches!(before, Some(Item::Other(_, Tag::Conjunction | Tag::Comma)));
        let behind_noun = matches!(before, Some(Item::Noun(_)));
        let auxiliary = std::mem::take(&mut self.be);
        let participle = matches!(form, Tag::Ing | Tag::Past) && !auxiliary;
        let earlier = self.verb.clone();
        self.finish_verb();
        let bare = self.fragment && earlier.is_none() && !self.finite && self.nodes.len() == self.subjects.len();
        let reading = if participle && form == Tag::Ing && bare && behind_noun {
            let subjects: Vec<&NounPhrase> = self.subjects.iter().map(|node| &self.nodes[*node]).collect();
            fragments::reading(text, &subjects, &items[at + 1..])
        } else {
            Reading::Clause
        };
        match &reading {
            Reading::Noun => return self.gerund(text),
            Reading::Attribute(object) => self.graph.attribute(object, text),
            Reading::Compound(object) => {
                self.graph.attribute(object, text);
                for subject in self.subjects.iter().map(|subject| &self.nodes[*subject].head) {
                    if subject != object {
                        self.graph.attribute(object, subject);
                    }
                }
            }
            Reading::End => {
                self.gerund(text);
                if let Some(subject) = self.nodes.first().filter(|subject| subject.determined) {
                    self.graph.attribute(text, &subject.head);
                }
                self.new_clause();
                self.apart = true;
                return;
            }
            Reading::Clause | Reading::Apart => {}
        }
        let subjects = match &earlier {
            Some(earlier) if listed => earlier.subjects.clone(),
            _ if participle && behind_noun => self.subjects_of_participle(form),
            _ => self.subjects.clone(),
        };
        let silent = infinitive
            || reading != Reading::Clause
            || auxiliary && form == Tag::Past
            || listed && earlier.as_ref().is_some_and(|verb| verb.silent);
        let finite = !participle && !infinitive;
        self.finite |= finite;
        let finite = finite || listed && earlier.is_some_and(|verb| verb.finite);
        self.verb = Some(Verb { lemma: lemma.to_owned(), subjects, silent, finite, used: false, object: false });
        self.preposition = None;
    }

    /// What a participle behind a noun phrase describes: the noun before it or, mostly, the one that the phrase is about.
    fn subjects_of_participle(&self, form: Tag) -> Vec<usize> {
        let of = matches!(&self.link, Link::Relation(relation) if relation.label == "of");
        let nearest = form == Tag::Past && !of || form == Tag::Ing && self.fragment && self.nodes.len() > 1;
        match self.last {
            Some(last) if nearest || self.subjects.is_empty() => vec![last],
            _ => self.subjects.clone(),
        }
    }

    /// The gerund `text` as the noun of the phrase that it stands behind.
    fn gerund(&mut self, text: &str) {
        let Some(subject) = self.subjects.first().copied() else { return };
        let mut phrase = NounPhrase { head: text.to_owned(), ..self.nodes[subject].clone() };
        if phrase.determined || phrase.plural {
            phrase.modifiers.clear();
        } else {
            let head = &self.nodes[subject].head;
            self.graph.attributes.retain(|(object, _)| object != head);
            phrase.modifiers.push(head.clone());
        }
        let node = self.add(phrase);
        self.last = Some(node);
        self.subjects = vec![node];
    }
}
