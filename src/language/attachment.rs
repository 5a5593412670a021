//! Attachment of a noun to the preposition, verb or noun before it.

use super::chunker::Chunk;
use super::clause::{Attachment, ClauseReader, OpenRelation};
use super::fragments::FragmentOpening;
use super::tags::{PosTag, list_contains};

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
