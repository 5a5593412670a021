//! What a noun belongs to: the preposition, verb or noun before it.

use super::clause::{Clause, Link, Relation};
use super::fragments::Opening;
use super::phrases::Item;
use super::tags::{Tag, among};

/// What shows the thing behind `of`: a place that follows is the place of that thing.
const DEPICTIONS: &str = "reflection image picture photo photograph silhouette shadow view painting group";

/// Places that are one preposition behind a verb; behind a noun SPICE has `cat`, `on`, `top` and `cat`, `of`, `box`.
const PLACES: &[(&str, &str, &str)] = &[("on top of", "on", "top"), ("in front of", "in", "front")];

/// Prepositions of places.
const LOCATIVES: &str = "on at in under near by beside behind above below over";

impl Clause<'_> {
    /// Attaches the noun `node`, the item at `at`.
    pub(super) fn attach(&mut self, node: usize, items: &[Item], at: usize) {
        if let Some(preposition) = self.preposition.take() {
            self.attach_preposition(node, &preposition, items, at);
            return;
        }
        let listed = at > 0 && matches!(items[at - 1], Item::Other(_, Tag::Conjunction | Tag::Comma));
        match &self.link {
            Link::Subject if listed => return self.add_subject(node),
            Link::Relation(relation) if listed => {
                let relation = relation.clone();
                return self.add_relation(relation, node);
            }
            _ => {}
        }
        if let Some(verb) = self.verb.as_mut().filter(|verb| !verb.object) {
            verb.object = true;
            verb.used = true;
            let relation = Relation { subjects: verb.subjects.clone(), label: verb.lemma.clone(), silent: verb.silent };
            self.add_relation(relation, node);
        } else if self.be && !self.subjects.is_empty() {
            // `the man is a rider`.
            self.be = false;
            let (subjects, rider) = (self.subjects.clone(), self.nodes[node].head.clone());
            self.describe(&subjects, &rider);
            self.link = Link::None;
        } else if at > 0 && matches!(items[at - 1], Item::Noun(_)) && self.nodes[node].determined && !self.finite {
            // `the watch the man is wearing` says something about the watch.
            self.link = Link::None;
        } else {
            self.finish_verb();
            self.be = false;
            self.subjects = vec![node];
            self.link = Link::Subject;
        }
    }

    fn add_relation(&mut self, relation: Relation, object: usize) {
        if !relation.silent {
            self.relate(&relation.subjects, &relation.label, object);
        }
        self.link = Link::Relation(relation);
    }

    fn attach_preposition(&mut self, node: usize, preposition: &str, items: &[Item], at: usize) {
        let governor =
            items[..at].iter().rev().find(|item| !matches!(item, Item::Other(_, Tag::Preposition | Tag::To)));
        let mut relation = self.governed(governor, preposition, node);
        if relation.subjects.is_empty() && self.subjects.is_empty() {
            self.subjects = vec![node];
        }
        let behind_noun = matches!(governor, Some(Item::Noun(_)));
        relation.silent |= self.opening != Opening::Thing && node == 1 && behind_noun && preposition != "of";
        match PLACES.iter().find(|(place, ..)| *place == preposition) {
            Some((_, place, part)) if behind_noun && !relation.silent && !self.apart => {
                for subject in &relation.subjects {
                    self.relate_to(*subject, place, part);
                }
                self.relate(&relation.subjects, "of", node);
                self.link = Link::Relation(relation);
            }
            _ => self.add_relation(relation, node),
        }
    }

    /// The relation that `preposition` makes, given the last item before it.
    fn governed(&mut self, governor: Option<&Item>, preposition: &str, node: usize) -> Relation {
        let last = self.last;
        let nowhere = Relation { subjects: Vec::new(), label: preposition.to_owned(), silent: true };
        match (governor, &mut self.verb) {
            (Some(Item::Verb { .. }), Some(verb)) => {
                verb.used = true;
                let label = format!("{} {preposition}", verb.lemma);
                Relation { subjects: verb.subjects.clone(), label, silent: verb.silent }
            }
            (Some(Item::Other(_, Tag::Be) | Item::State(_)), _) if !self.subjects.is_empty() => {
                self.be = false;
                let silent = matches!(governor, Some(Item::State(_)));
                Relation { subjects: vec![self.subjects[0]], silent, ..nowhere }
            }
            // `walk in sand from the beach`, `take a picture with a phone`.
            (Some(Item::Noun(_)), Some(verb))
                if preposition != "of" && verb.used && !verb.object && !verb.silent
                    || ["with", "at"].contains(&preposition) && verb.object && verb.finite =>
            {
                let label = format!("{} {preposition}", verb.lemma);
                let subjects = verb.subjects.iter().take(1).copied().collect();
                Relation { subjects, label, silent: verb.silent }
            }
            (Some(Item::Noun(_) | Item::Verb { .. }), _) => match last {
                Some(last) => {
                    let subject = self.governing_noun(last, preposition, node);
                    let silent = self.verb.as_ref().is_some_and(|verb| verb.silent)
                        && preposition != "of"
                        && (self.nodes[subject].determined || preposition == "with");
                    Relation { subjects: vec![subject], silent, ..nowhere }
                }
                None => nowhere,
            },
            _ => nowhere,
        }
    }

    /// Of the nouns before a preposition the one that it belongs to: the last, or the one that the last belongs to.
    fn governing_noun(&self, last: usize, preposition: &str, node: usize) -> usize {
        match &self.link {
            // `on it` is behind what it says something about.
            _ if node == 0 => last,
            Link::Subject => self.subjects[0],
            // `benches on side of a lake` has benches of the lake.
            Link::Relation(relation)
                if self.fragment
                    && preposition == "of"
                    && self.nodes[last].is_bare()
                    && among(LOCATIVES, &relation.label) =>
            {
                relation.subjects.first().copied().unwrap_or(last)
            }
            Link::Relation(relation) if preposition != "of" && relation.label == "of" => match relation.subjects[..] {
                [whole, ..] if !self.is_part(whole, last) => whole,
                _ => last,
            },
            Link::Relation(relation) if !["of", "with"].contains(&preposition) && self.verb.is_none() => {
                match relation.subjects[..] {
                    [whole] if whole != node => whole,
                    _ => last,
                }
            }
            _ => last,
        }
    }

    /// Whether of `whole of last` what follows belongs to `last`: to several things, unless a period ends the caption, and
    /// to what a picture shows.
    fn is_part(&self, whole: usize, last: usize) -> bool {
        self.fragment && self.nodes[last].plural || among(DEPICTIONS, &self.nodes[whole].head)
    }
}
