//! Which part of speech each word of a caption has, and its lemma.
//!
//! A word of an open class is looked up in WordNet with its inflections taken off; what is left open its neighbours
//! decide, by rules about captions: most are noun phrases, and a verb that is possible after a finished noun phrase
//! mostly is one. One pass, linear in the words.

use super::lemmas::Form;
use super::lexicon::Lexicon;
use super::readings::Readings;
use super::tags::{COLORS, PHRASES, Tag, among, closed};

/// A word, or a preposition of several words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// As it stands in the caption, in lower case.
    pub text: String,
    /// As its part of speech has it in a dictionary.
    pub lemma: String,
    /// Its part of speech.
    pub tag: Tag,
}

/// Tags of words in lower case.
#[must_use]
pub fn tag(lexicon: &Lexicon, words: &[String]) -> Vec<Word> {
    let words = with_phrases(words);
    let mut candidates: Vec<Candidate> = words
        .iter()
        .map(|word| match closed(word) {
            Some(tag) => Candidate::Closed(tag),
            None if word.contains(' ') => Candidate::Closed(Tag::Preposition),
            None => Candidate::Open(Readings::of(lexicon, word)),
        })
        .collect();
    for at in 1..words.len() {
        if let [Candidate::Open(first), Candidate::Open(_)] = &mut candidates[at - 1..=at] {
            first.compound = lexicon.is_gerund_compound(&words[at - 1], &words[at]);
        }
    }
    let mut tagged: Vec<Word> = Vec::with_capacity(words.len());
    let (mut before, mut single) = (None, false);
    for (at, text) in words.iter().enumerate() {
        let place = Place { words: &words, candidates: &candidates, tagged: &tagged, before, single, at };
        let (tag, lemma) = match &candidates[at] {
            Candidate::Closed(tag) => (place.closed(*tag), if text == "w/" { "with" } else { text }),
            Candidate::Open(readings) => {
                let tag = place.open(readings);
                (tag, lemma(tag, text, readings))
            }
        };
        single = match tag {
            Tag::Determiner => among("a an each every this another", text),
            Tag::Adjective | Tag::Noun | Tag::Adverb => single,
            _ => false,
        };
        let lemma = lemma.to_owned();
        if tag != Tag::Adverb {
            before = Some(tag);
        }
        tagged.push(Word { text: text.clone(), lemma, tag });
    }
    tagged
}

fn lemma<'a>(tag: Tag, text: &'a str, readings: &'a Readings) -> &'a str {
    match (tag, &readings.plural, &readings.verb) {
        (Tag::Plural, Some(lemma), _) => lemma,
        (Tag::Verb | Tag::Third | Tag::Ing | Tag::Past, _, Some(verb)) => &verb.lemma,
        (Tag::Adjective, ..) => readings.modifier(text),
        _ => text,
    }
}

/// A word before its tag is decided.
#[derive(Debug, Clone)]
enum Candidate {
    Closed(Tag),
    Open(Readings),
}

/// Words with those of a preposition of several words joined.
fn with_phrases(words: &[String]) -> Vec<String> {
    let mut joined = Vec::with_capacity(words.len());
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let begins =
            |phrase: &&&[&str]| rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(part, word)| part == word);
        if let Some(phrase) = PHRASES.iter().find(begins) {
            joined.push(phrase.join(" "));
            rest = &rest[phrase.len()..];
        } else {
            joined.push(first.clone());
            rest = after;
        }
    }
    joined
}

/// A word and its neighbours.
struct Place<'a> {
    words: &'a [String],
    candidates: &'a [Candidate],
    tagged: &'a [Word],
    /// The tag before, adverbs left out.
    before: Option<Tag>,
    /// Whether the noun phrase before is of one thing: `a dog`.
    single: bool,
    at: usize,
}

impl Place<'_> {
    /// The tag of the next word where it needs no context; nothing for an open class.
    fn next(&self) -> Option<Tag> {
        match self.candidates.get(self.at + 1) {
            Some(Candidate::Closed(tag)) => Some(*tag),
            Some(Candidate::Open(_)) => None,
            None => Some(Tag::End),
        }
    }

    /// Whether the next word can stand in the same noun phrase.
    fn nominal_next(&self) -> bool {
        match self.candidates.get(self.at + 1) {
            Some(Candidate::Closed(tag)) => matches!(tag, Tag::Number | Tag::Adjective),
            Some(Candidate::Open(readings)) => match readings.form() {
                Some(Form::Ing) => readings.compound || readings.thing,
                // `top` of `a white top stopped at the light` is no adjective.
                Some(Form::Past) => matches!(self.candidates.get(self.at + 2), Some(Candidate::Open(_))),
                _ => readings.noun.is_some() || readings.adjective.is_some(),
            },
            None => false,
        }
    }

    /// Whether the next word can follow an auxiliary verb.
    fn verb_next(&self) -> bool {
        match self.candidates.get(self.at + 1) {
            Some(Candidate::Closed(Tag::Be)) => self.words[self.at + 1] == "be",
            Some(Candidate::Closed(tag)) => matches!(tag, Tag::Auxiliary | Tag::Pronoun),
            Some(Candidate::Open(readings)) => readings.adverb.is_some() || readings.form() == Some(Form::Base),
            None => false,
        }
    }

    /// The tag of a word of a closed class: a few are ambiguous.
    fn closed(&self, tag: Tag) -> Tag {
        let before = self.tagged.last().map(|word| word.tag);
        let next = self.next();
        match self.words[self.at].as_str() {
            "'s" if matches!(before, Some(Tag::Pronoun | Tag::There)) => Tag::Be,
            "'" if !matches!(before, Some(Tag::Plural | Tag::Noun)) => Tag::Comma,
            "her" if next.is_some() && !self.nominal_next() => Tag::Pronoun,
            "there" if next == Some(Tag::Be) => Tag::There,
            "that" if !matches!(before, Some(Tag::Noun | Tag::Plural)) && self.nominal_next() => Tag::Determiner,
            "that" if next == Some(Tag::Be) && before.is_none() => Tag::Pronoun,
            "this" | "these" | "those" if next == Some(Tag::Be) => Tag::Pronoun,
            "like" if matches!(before, Some(Tag::Pronoun | Tag::To)) => Tag::Verb,
            "can" if next != Some(Tag::Auxiliary) && before.is_none_or(Tag::opens_noun_phrase) => Tag::Noun,
            // `a trash can on a sidewalk`.
            "can" if before == Some(Tag::Noun) && !self.verb_next() => Tag::Noun,
            "back" if before.is_some_and(|tag| tag.opens_noun_phrase() || tag == Tag::Preposition) => Tag::Noun,
            "other" if self.at > 0 && self.words[self.at - 1] == "each" => Tag::Noun,
            "other" if matches!(next, Some(Tag::End | Tag::Preposition)) => Tag::Noun,
            "one" if matches!(next, Some(Tag::Be | Tag::Preposition)) && before == Some(Tag::Determiner) => Tag::Noun,
            _ => tag,
        }
    }

    /// The tag of a word of an open class.
    fn open(&self, readings: &Readings) -> Tag {
        match (self.before, readings.form()) {
            (Some(Tag::Auxiliary), Some(Form::Base)) => Tag::Verb,
            (Some(Tag::Relative), Some(Form::Base)) if verbs(readings) > nouns(readings) => Tag::Verb,
            (Some(Tag::To), Some(Form::Base)) if verbs(readings) > nouns(readings) || readings.noun.is_none() => {
                Tag::Verb
            }
            (Some(Tag::Be), _) => self.after_be(readings),
            (Some(Tag::Noun | Tag::Plural | Tag::Pronoun), _) => self.after_noun(readings),
            _ => self.elsewhere(readings),
        }
    }

    fn after_be(&self, readings: &Readings) -> Tag {
        let adjectives = readings.adjective.unwrap_or(0);
        match readings.form() {
            Some(Form::Ing) if !readings.compound => Tag::Ing,
            Some(Form::Past) => {
                let next = self.next();
                let state = next != Some(Tag::Preposition) && adjectives >= verbs(readings);
                let modifies = next.is_none() && self.nominal_next();
                if readings.adjective.is_some() && (state || modifies) { Tag::Adjective } else { Tag::Past }
            }
            _ if readings.adjective.is_some() && (self.nominal_next() || adjectives >= nouns(readings)) => {
                Tag::Adjective
            }
            _ => self.nominal(readings),
        }
    }

    /// After a noun or a pronoun a verb may come.
    fn after_noun(&self, readings: &Readings) -> Tag {
        let last = self.tagged.last();
        let plural = last.is_some_and(|word| matches!(word.tag, Tag::Plural | Tag::Pronoun));
        let next = self.next();
        let object_next = matches!(next, Some(Tag::Determiner | Tag::Possessive | Tag::Pronoun | Tag::Number));
        let place_next = matches!(next, Some(Tag::Preposition | Tag::To));
        let (verbs, nouns) = (verbs(readings), readings.noun);
        match readings.form() {
            Some(Form::Ing) if readings.thing && !object_next && !(plural && self.nominal_next()) => {
                self.nominal(readings)
            }
            // `zebras drinking water`, but `a kitchen cutting board`.
            Some(Form::Ing) if !readings.compound || plural => Tag::Ing,
            // `tan colored pillow`.
            Some(Form::Past)
                if next.is_none() && self.nominal_next() && last.is_some_and(|word| among(COLORS, &word.text)) =>
            {
                Tag::Adjective
            }
            Some(Form::Past) if nouns.is_none_or(|nouns| nouns < 2 * verbs + 1) => Tag::Past,
            Some(Form::Third) => match nouns {
                None => Tag::Third,
                Some(_) if object_next || self.single => Tag::Third,
                Some(nouns) if place_next && verbs * 2 > nouns * 3 => Tag::Third,
                Some(nouns) if verbs > 2 * nouns + 5 => Tag::Third,
                Some(_) => self.nominal(readings),
            },
            Some(Form::Base) if plural && nouns.is_none() && readings.adjective.is_none() => Tag::Verb,
            Some(Form::Base) if plural && object_next => Tag::Verb,
            Some(Form::Base)
                if plural && nouns.is_some_and(|nouns| verbs > nouns && verbs > readings.adjective.unwrap_or(0)) =>
            {
                Tag::Verb
            }
            _ => {
                // `a bowl full of fruit`.
                let ends = matches!(self.words.get(self.at + 1).map(String::as_str), Some("of" | "to"));
                let described = |count| nouns.is_none_or(|nouns| count > 5 * nouns);
                if ends && readings.adjective.is_some_and(described) { Tag::Adjective } else { self.nominal(readings) }
            }
        }
    }

    /// Where a noun phrase may begin or go on.
    fn elsewhere(&self, readings: &Readings) -> Tag {
        let inside = self.before.is_some_and(Tag::opens_noun_phrase);
        let listed = matches!(self.before, Some(Tag::Conjunction | Tag::Comma | Tag::Relative));
        let next = self.next();
        let modifies = next.is_none() && self.nominal_next();
        match readings.form() {
            Some(Form::Ing) if readings.compound => Tag::Adjective,
            Some(Form::Ing) => {
                let verb_likely = (listed || self.before == Some(Tag::Ing)) && readings.adjective.unwrap_or(0) == 0;
                if readings.thing || inside && self.before != Some(Tag::Number) && !modifies {
                    Tag::Noun
                } else if modifies && !verb_likely {
                    Tag::Adjective
                } else {
                    Tag::Ing
                }
            }
            Some(Form::Past) => {
                let other = readings.adjective.is_none() && nouns(readings) > verbs(readings);
                if other || !modifies && readings.noun.is_some() && self.is_past_noun(readings, inside) {
                    noun(readings)
                } else if modifies || inside && matches!(next, Some(Tag::Conjunction | Tag::Comma)) {
                    Tag::Adjective
                } else {
                    Tag::Past
                }
            }
            Some(Form::Third) if readings.noun.is_none_or(|nouns| listed && nouns * 2 < verbs(readings)) => Tag::Third,
            _ => self.nominal(readings),
        }
    }

    /// Whether a past form is a noun here: `left` of `on the left`.
    fn is_past_noun(&self, readings: &Readings, inside: bool) -> bool {
        let regular = self.words[self.at].ends_with("ed");
        !regular && (inside || self.before == Some(Tag::Preposition)) || nouns(readings) * 2 > verbs(readings)
    }

    /// What a word of a noun phrase is.
    fn nominal(&self, readings: &Readings) -> Tag {
        let (adjectives, nouns) = (readings.adjective.unwrap_or(0), nouns(readings));
        let verb_before = matches!(self.before, Some(Tag::Verb | Tag::Third | Tag::Ing | Tag::Past));
        // `blue and clear`, which nothing follows that they describe.
        let after_adjectives = matches!(self.tagged, [.., first, and]
            if first.tag == Tag::Adjective && matches!(and.tag, Tag::Conjunction | Tag::Comma));
        let describes = self.nominal_next() || matches!(self.next(), Some(Tag::Conjunction | Tag::Comma));
        let adjective = readings.compound
            || readings.adjective.is_some() && describes && (readings.noun.is_none() || adjectives * 3 >= nouns)
            || verb_before && adjectives > nouns
            || after_adjectives && adjectives * 3 > nouns;
        if adjective {
            Tag::Adjective
        } else if readings.noun.is_some() {
            noun(readings)
        } else if readings.adjective.is_some() {
            Tag::Adjective
        } else if readings.adverb.is_some() {
            Tag::Adverb
        } else {
            Tag::Verb
        }
    }
}

fn noun(readings: &Readings) -> Tag {
    if readings.plural.is_some() { Tag::Plural } else { Tag::Noun }
}

fn nouns(readings: &Readings) -> u32 {
    readings.noun.unwrap_or(0)
}

fn verbs(readings: &Readings) -> u32 {
    readings.verb.as_ref().map_or(0, |verb| verb.count)
}
