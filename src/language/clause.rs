//! Clause reader: makes the scene graph of the chunks of a sentence, from left to right, and attaches each noun to the
//! preposition, verb or noun before it.

use super::chunker::{Chunk, NounPhrase};
use super::scene_graph::{self, FragmentOpening, GerundReading};
use super::tagger::{PosTag, TaggedWord, list_contains};
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
            opening: if fragment { scene_graph::classify_opening(words) } else { FragmentOpening::Subject },
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
            scene_graph::classify_gerund(text, &subjects, &chunks[at + 1..])
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

/// Nouns that depict the noun after `of`: a following place belongs to that noun.
const DEPICTIONS: &str = "reflection image picture photo photograph silhouette shadow view painting group";

/// Phrases that are a single preposition after a verb. After a noun, SPICE splits them: `cat`, `on`, `top` and `cat`,
/// `of`, `box`.
const SPLIT_PREPOSITIONS: &[(&str, &str, &str)] = &[("on top of", "on", "top"), ("in front of", "in", "front")];

/// Prepositions of place.
const LOCATIVES: &str = "on at in under near by beside behind above below over";

impl ClauseReader<'_> {
    /// Attaches the noun `noun`, which is the chunk at `at`.
    pub(super) fn attach(&mut self, noun: usize, chunks: &[Chunk], at: usize) {
        if let Some(preposition) = self.preposition.take() {
            self.attach_preposition(noun, &preposition, chunks, at);
            return;
        }
        let listed = at > 0 && matches!(chunks[at - 1], Chunk::Other(_, PosTag::Conjunction | PosTag::Comma));
        match &self.attachment {
            Attachment::Subject if listed => return self.add_subject(noun),
            Attachment::Relation(relation) if listed => {
                let relation = relation.clone();
                return self.add_relation(relation, noun);
            }
            _ => {}
        }
        if let Some(verb) = self.verb.as_mut().filter(|verb| !verb.has_object) {
            verb.has_object = true;
            verb.has_relation = true;
            let relation = OpenRelation {
                subjects: verb.subjects.clone(),
                label: verb.lemma.clone(),
                is_suppressed: verb.is_suppressed,
            };
            self.add_relation(relation, noun);
        } else if self.after_be && !self.subjects.is_empty() {
            // `the man is a rider`.
            self.after_be = false;
            let (subjects, complement) = (self.subjects.clone(), self.nouns[noun].head.clone());
            self.add_attributes(&subjects, &complement);
            self.attachment = Attachment::None;
        } else if at > 0
            && matches!(chunks[at - 1], Chunk::NounPhrase(_))
            && self.nouns[noun].has_determiner
            && !self.has_finite_verb
        {
            // `the watch the man is wearing` is a relative clause about the watch.
            self.attachment = Attachment::None;
        } else {
            self.finish_verb();
            self.after_be = false;
            self.subjects = vec![noun];
            self.attachment = Attachment::Subject;
        }
    }

    fn add_relation(&mut self, relation: OpenRelation, object: usize) {
        if !relation.is_suppressed {
            self.add_relations(&relation.subjects, &relation.label, object);
        }
        self.attachment = Attachment::Relation(relation);
    }

    fn attach_preposition(&mut self, noun: usize, preposition: &str, chunks: &[Chunk], at: usize) {
        let governor =
            chunks[..at].iter().rev().find(|chunk| !matches!(chunk, Chunk::Other(_, PosTag::Preposition | PosTag::To)));
        let mut relation = self.governed(governor, preposition, noun);
        if relation.subjects.is_empty() && self.subjects.is_empty() {
            self.subjects = vec![noun];
        }
        let after_noun = matches!(governor, Some(Chunk::NounPhrase(_)));
        relation.is_suppressed |=
            self.opening != FragmentOpening::Subject && noun == 1 && after_noun && preposition != "of";
        match SPLIT_PREPOSITIONS.iter().find(|(place, ..)| *place == preposition) {
            Some((_, place, part)) if after_noun && !relation.is_suppressed && !self.after_phrase_end => {
                for subject in &relation.subjects {
                    self.add_relation_to(*subject, place, part);
                }
                self.add_relations(&relation.subjects, "of", noun);
                self.attachment = Attachment::Relation(relation);
            }
            _ => self.add_relation(relation, noun),
        }
    }

    /// The relation of `preposition`, given the last chunk before it.
    fn governed(&mut self, governor: Option<&Chunk>, preposition: &str, noun: usize) -> OpenRelation {
        let last = self.last_noun;
        let unattached = OpenRelation { subjects: Vec::new(), label: preposition.to_owned(), is_suppressed: true };
        match (governor, &mut self.verb) {
            (Some(Chunk::Verb { .. }), Some(verb)) => {
                verb.has_relation = true;
                let label = format!("{} {preposition}", verb.lemma);
                OpenRelation { subjects: verb.subjects.clone(), label, is_suppressed: verb.is_suppressed }
            }
            (Some(Chunk::Other(_, PosTag::Be) | Chunk::Adjectives(_)), _) if !self.subjects.is_empty() => {
                self.after_be = false;
                let is_suppressed = matches!(governor, Some(Chunk::Adjectives(_)));
                OpenRelation { subjects: vec![self.subjects[0]], is_suppressed, ..unattached }
            }
            // `walk in sand from the beach`, `take a picture with a phone`.
            (Some(Chunk::NounPhrase(_)), Some(verb))
                if preposition != "of" && verb.has_relation && !verb.has_object && !verb.is_suppressed
                    || ["with", "at"].contains(&preposition) && verb.has_object && verb.is_finite =>
            {
                let label = format!("{} {preposition}", verb.lemma);
                let subjects = verb.subjects.iter().take(1).copied().collect();
                OpenRelation { subjects, label, is_suppressed: verb.is_suppressed }
            }
            (Some(Chunk::NounPhrase(_) | Chunk::Verb { .. }), _) => match last {
                Some(last) => {
                    let subject = self.governing_noun(last, preposition, noun);
                    let is_suppressed = self.verb.as_ref().is_some_and(|verb| verb.is_suppressed)
                        && preposition != "of"
                        && (self.nouns[subject].has_determiner || preposition == "with");
                    OpenRelation { subjects: vec![subject], is_suppressed, ..unattached }
                }
                None => unattached,
            },
            _ => unattached,
        }
    }

    /// The noun that a preposition attaches to: the last noun before it, or the noun to which that one is attached.
    fn governing_noun(&self, last: usize, preposition: &str, noun: usize) -> usize {
        match &self.attachment {
            // `it` refers to the first noun; the preposition attaches to the last one.
            _ if noun == 0 => last,
            Attachment::Subject => self.subjects[0],
            // In `benches on side of a lake`, SPICE attaches the lake to the benches.
            Attachment::Relation(relation)
                if self.fragment
                    && preposition == "of"
                    && self.nouns[last].is_bare()
                    && list_contains(LOCATIVES, &relation.label) =>
            {
                relation.subjects.first().copied().unwrap_or(last)
            }
            Attachment::Relation(relation) if preposition != "of" && relation.label == "of" => {
                match relation.subjects[..] {
                    [whole, ..] if !self.is_part(whole, last) => whole,
                    _ => last,
                }
            }
            Attachment::Relation(relation) if !["of", "with"].contains(&preposition) && self.verb.is_none() => {
                match relation.subjects[..] {
                    [whole] if whole != noun => whole,
                    _ => last,
                }
            }
            _ => last,
        }
    }

    /// True if a preposition after `whole of last` attaches to `last`: if `last` is a plural and no period ends the
    /// caption, or if `whole` depicts it.
    fn is_part(&self, whole: usize, last: usize) -> bool {
        self.fragment && self.nouns[last].is_plural || list_contains(DEPICTIONS, &self.nouns[whole].head)
    }
}
