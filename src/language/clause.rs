//! Clause reader: makes the scene graph of the chunks of a sentence, from left to right.

use super::chunker::{Chunk, NounPhrase};
use super::fragments::{self, FragmentOpening, GerundReading};
use super::tagger::TaggedWord;
use super::tags::{PosTag, list_contains};
use pairloom_kernels::text::spice::SceneGraph;

/// State of the clause reader. Nouns are numbered in order of occurrence.
pub(super) struct ClauseReader<'g> {
    graph: &'g mut SceneGraph,
    pub(super) nouns: Vec<NounPhrase>,
    /// Subjects of the next verb.
    pub(super) subjects: Vec<usize>,
    pub(super) verb: Option<PendingVerb>,
    /// Attachment of the last noun.
    pub(super) attachment: Attachment,
    pub(super) last_noun: Option<usize>,
    /// Preposition without its object yet.
    pub(super) preposition: Option<String>,
    /// True after a form of `be`, until its complement.
    pub(super) after_be: bool,
    /// Attribute that a noun of quantity gives to the noun after `of`.
    quantity: Option<String>,
    /// True after a finite verb.
    pub(super) has_finite_verb: bool,
    /// True if no period ends the caption.
    pub(super) fragment: bool,
    pub(super) opening: FragmentOpening,
    /// True after a gerund that ended a noun phrase.
    pub(super) after_phrase_end: bool,
}

/// Verb whose objects may still follow.
#[derive(Debug, Clone)]
pub(super) struct PendingVerb {
    pub(super) lemma: String,
    pub(super) subjects: Vec<usize>,
    /// True if its relations are left out of the graph.
    pub(super) is_suppressed: bool,
    pub(super) is_finite: bool,
    /// True if it has a relation.
    pub(super) has_relation: bool,
    /// True if it has a direct object.
    pub(super) has_object: bool,
}

/// Attachment of a noun. Nouns joined to it by `and` or a comma get the same one.
#[derive(Debug, Clone)]
pub(super) enum Attachment {
    None,
    Subject,
    Relation(OpenRelation),
}

/// Relation without its object.
#[derive(Debug, Clone)]
pub(super) struct OpenRelation {
    pub(super) subjects: Vec<usize>,
    pub(super) label: String,
    pub(super) is_suppressed: bool,
}

/// Nouns of quantity, which are no objects: the graph of `a pair of shoes` has shoes only. After Universal Dependencies
/// for English.
const QUANTITIES: &str = "\
    lot assortment number couple bunch handful slew dozen series variety multitude wad clutch wave mountain array \
    string ton range plethora heap sort form kind type version bit pair triple total";

/// Maximum number of subjects of a verb. Bounds the number of relations, which grows with subjects times objects.
const MAX_SUBJECTS: usize = 16;

/// Maximum number of prepositions that are joined after a verb: `hang down from`.
const MAX_JOINED_PREPOSITIONS: usize = 3;

impl<'g> ClauseReader<'g> {
    pub(super) fn new(words: &[TaggedWord], graph: &'g mut SceneGraph) -> Self {
        let fragment = words.last().is_none_or(|word| word.tag != PosTag::SentenceEnd);
        Self {
            graph,
            nouns: Vec::new(),
            subjects: Vec::new(),
            verb: None,
            attachment: Attachment::None,
            last_noun: None,
            preposition: None,
            after_be: false,
            quantity: None,
            has_finite_verb: false,
            fragment,
            opening: if fragment { fragments::classify_opening(words) } else { FragmentOpening::Subject },
            after_phrase_end: false,
        }
    }

    pub(super) fn read(mut self, chunks: &[Chunk]) {
        for (at, chunk) in chunks.iter().enumerate() {
            match chunk {
                Chunk::NounPhrase(phrase) => self.read_noun(phrase, chunks, at),
                Chunk::Pronoun => self.read_pronoun(chunks, at),
                Chunk::Adjectives(adjectives) => self.read_adjectives(adjectives),
                Chunk::Verb { text, lemma, form } => self.read_verb(text, lemma, *form, chunks, at),
                Chunk::Other(text, tag) => self.read_other(text, *tag, &chunks[at + 1..]),
            }
        }
        self.finish_verb();
    }

    fn read_noun(&mut self, phrase: &NounPhrase, chunks: &[Chunk], at: usize) {
        let counts = phrase.has_determiner || self.verb.is_some() && phrase.head == "lot";
        if let [of, Chunk::NounPhrase(_), ..] = &chunks[at + 1..]
            && of.is_preposition("of")
            && counts
            && list_contains(QUANTITIES, &phrase.head)
        {
            self.quantity = Some(if phrase.has_determiner { "a" } else { &phrase.head }.to_owned());
            return;
        }
        let mut phrase = phrase.clone();
        phrase.modifiers.extend(self.quantity.take());
        let noun = self.add(phrase);
        self.attach(noun, chunks, at);
        self.last_noun = Some(noun);
    }

    /// Adds a noun with its attributes and owners to the graph.
    fn add(&mut self, mut phrase: NounPhrase) -> usize {
        let mut owner = None;
        for mut phrase in std::mem::take(&mut phrase.owners) {
            phrase.owners.clear();
            owner = Some(self.add_owned(phrase, owner));
        }
        self.add_owned(phrase, owner)
    }

    fn add_owned(&mut self, phrase: NounPhrase, owner: Option<usize>) -> usize {
        let noun = self.nouns.len();
        // A verb is no object.
        if self.opening != FragmentOpening::Imperative || noun > 0 {
            self.graph.add_object(&phrase.head);
        }
        let verb_first = self.opening == FragmentOpening::Gerund && noun == 0;
        for modifier in phrase.modifiers.iter().skip(usize::from(verb_first)) {
            self.graph.add_attribute(&phrase.head, modifier);
        }
        let owner = owner.or_else(|| {
            let subject = self.subjects.first().copied().unwrap_or(0);
            (phrase.has_possessive && noun > 0).then_some(subject)
        });
        self.nouns.push(phrase);
        if let Some(owner) = owner {
            self.add_relations(&[owner], "have", noun);
        }
        noun
    }

    pub(super) fn add_relations(&mut self, subjects: &[usize], label: &str, object: usize) {
        for subject in subjects {
            self.add_relation_to(*subject, label, &self.nouns[object].head.clone());
        }
    }

    /// Adds a relation, unless subject and object are equal.
    pub(super) fn add_relation_to(&mut self, subject: usize, label: &str, object: &str) {
        let subject = &self.nouns[subject].head;
        if subject != object {
            self.graph.add_relation(subject, label, object);
        }
    }

    /// Adds `attribute` to each of `subjects`.
    pub(super) fn add_attributes(&mut self, subjects: &[usize], attribute: &str) {
        for subject in subjects {
            let subject = &self.nouns[*subject].head;
            if subject != attribute {
                self.graph.add_attribute(subject, attribute);
            }
        }
    }

    pub(super) fn add_subject(&mut self, noun: usize) {
        if self.subjects.len() < MAX_SUBJECTS {
            self.subjects.push(noun);
        }
    }

    /// Reads a pronoun, which refers to the first noun of the caption.
    fn read_pronoun(&mut self, chunks: &[Chunk], at: usize) {
        let listed = at > 0 && matches!(chunks[at - 1], Chunk::Other(_, PosTag::Conjunction | PosTag::Comma));
        if self.preposition.is_none() && (listed || self.verb.as_ref().is_none_or(|verb| verb.has_object)) {
            self.new_clause();
        } else if self.nouns.is_empty() {
            self.preposition = None;
        } else {
            let (attachment, last) = (self.attachment.clone(), self.last_noun);
            self.attach(0, chunks, at);
            (self.attachment, self.last_noun) = (attachment, last);
        }
    }

    fn read_adjectives(&mut self, adjectives: &[String]) {
        if self.after_be {
            let subjects = self.subjects.clone();
            for adjective in adjectives {
                self.add_attributes(&subjects, adjective);
            }
        }
    }

    fn read_other(&mut self, text: &str, tag: PosTag, rest: &[Chunk]) {
        match tag {
            PosTag::Be => {
                // In `has been painted`, only the last word is the verb.
                self.verb.take_if(|verb| verb.lemma == "have" && !verb.has_relation);
                self.finish_verb();
                self.after_be = true;
                self.has_finite_verb = true;
                self.preposition = None;
            }
            PosTag::Preposition if text == "of" && self.quantity.is_some() => {}
            PosTag::Preposition => self.push_preposition(text),
            PosTag::To if !matches!(rest.first(), Some(Chunk::Verb { form: PosTag::Verb, .. })) => {
                self.push_preposition(text);
            }
            PosTag::Conjunction | PosTag::Comma => {
                let clause = matches!(
                    rest,
                    [
                        Chunk::NounPhrase(_),
                        Chunk::Verb { form: PosTag::ThirdPerson | PosTag::Verb, .. } | Chunk::Other(_, PosTag::Be),
                        ..
                    ]
                );
                if clause && (self.after_be || self.verb.as_ref().is_some_and(|verb| verb.is_finite)) {
                    self.new_clause();
                }
                self.preposition = None;
            }
            PosTag::Relative => {
                if let Some(last) = self.last_noun {
                    self.finish_verb();
                    self.subjects = vec![last];
                }
                self.after_be = false;
                self.preposition = None;
            }
            PosTag::Existential => self.new_clause(),
            _ => {}
        }
    }

    fn push_preposition(&mut self, text: &str) {
        match &mut self.preposition {
            Some(known) if self.verb.as_ref().is_some_and(|verb| !verb.has_object) => {
                if known.split(' ').count() < MAX_JOINED_PREPOSITIONS {
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
        self.attachment = Attachment::None;
        self.last_noun = None;
        self.after_be = false;
        self.preposition = None;
    }

    /// Ends a verb: a finite verb without a relation is an attribute of its subjects.
    pub(super) fn finish_verb(&mut self) {
        if let Some(verb) = self.verb.take()
            && verb.is_finite
            && !verb.has_relation
            && !verb.is_suppressed
        {
            self.add_attributes(&verb.subjects, &verb.lemma);
        }
    }

    fn read_verb(&mut self, text: &str, lemma: &str, form: PosTag, chunks: &[Chunk], at: usize) {
        let before = at.checked_sub(1).map(|at| &chunks[at]);
        if form == PosTag::Past
            && matches!(before, Some(Chunk::Verb { lemma, .. }) if lemma == "have")
            && let Some(have) = &mut self.verb
        {
            // `have folded` is one verb.
            lemma.clone_into(&mut have.lemma);
            return;
        }
        let infinitive = matches!(before, Some(Chunk::Other(_, PosTag::To)));
        let listed = matches!(before, Some(Chunk::Other(_, PosTag::Conjunction | PosTag::Comma)));
        let after_noun = matches!(before, Some(Chunk::NounPhrase(_)));
        let auxiliary = std::mem::take(&mut self.after_be);
        let participle = matches!(form, PosTag::Gerund | PosTag::Past) && !auxiliary;
        let earlier = self.verb.clone();
        self.finish_verb();
        let bare =
            self.fragment && earlier.is_none() && !self.has_finite_verb && self.nouns.len() == self.subjects.len();
        let reading = if participle && form == PosTag::Gerund && bare && after_noun {
            let subjects: Vec<&NounPhrase> = self.subjects.iter().map(|noun| &self.nouns[*noun]).collect();
            fragments::classify_gerund(text, &subjects, &chunks[at + 1..])
        } else {
            GerundReading::Clause
        };
        match &reading {
            GerundReading::Noun => return self.make_gerund_head(text),
            GerundReading::Attribute(object) => self.graph.add_attribute(object, text),
            GerundReading::Compound(object) => {
                self.graph.add_attribute(object, text);
                for subject in self.subjects.iter().map(|subject| &self.nouns[*subject].head) {
                    if subject != object {
                        self.graph.add_attribute(object, subject);
                    }
                }
            }
            GerundReading::PhraseEnd => {
                self.make_gerund_head(text);
                if let Some(subject) = self.nouns.first().filter(|subject| subject.has_determiner) {
                    self.graph.add_attribute(text, &subject.head);
                }
                self.new_clause();
                self.after_phrase_end = true;
                return;
            }
            GerundReading::Clause | GerundReading::Unrelated => {}
        }
        let subjects = match &earlier {
            Some(earlier) if listed => earlier.subjects.clone(),
            _ if participle && after_noun => self.subjects_of_participle(form),
            _ => self.subjects.clone(),
        };
        let is_suppressed = infinitive
            || reading != GerundReading::Clause
            || auxiliary && form == PosTag::Past
            || listed && earlier.as_ref().is_some_and(|verb| verb.is_suppressed);
        let is_finite = !participle && !infinitive;
        self.has_finite_verb |= is_finite;
        let is_finite = is_finite || listed && earlier.is_some_and(|verb| verb.is_finite);
        self.verb = Some(PendingVerb {
            lemma: lemma.to_owned(),
            subjects,
            is_suppressed,
            is_finite,
            has_relation: false,
            has_object: false,
        });
        self.preposition = None;
    }

    /// The subjects of a participle after a noun phrase: the last noun or, in most cases, the subjects of the clause.
    fn subjects_of_participle(&self, form: PosTag) -> Vec<usize> {
        let after_of = matches!(&self.attachment, Attachment::Relation(relation) if relation.label == "of");
        let nearest =
            form == PosTag::Past && !after_of || form == PosTag::Gerund && self.fragment && self.nouns.len() > 1;
        match self.last_noun {
            Some(last) if nearest || self.subjects.is_empty() => vec![last],
            _ => self.subjects.clone(),
        }
    }

    /// Makes the gerund `text` the head of the noun phrase before it.
    fn make_gerund_head(&mut self, text: &str) {
        let Some(subject) = self.subjects.first().copied() else { return };
        let mut phrase = NounPhrase { head: text.to_owned(), ..self.nouns[subject].clone() };
        if phrase.has_determiner || phrase.is_plural {
            phrase.modifiers.clear();
        } else {
            let head = &self.nouns[subject].head;
            self.graph.attributes.retain(|(object, _)| object != head);
            phrase.modifiers.push(head.clone());
        }
        let noun = self.add(phrase);
        self.last_noun = Some(noun);
        self.subjects = vec![noun];
    }
}
