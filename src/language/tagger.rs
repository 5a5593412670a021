//! Which part of speech each word of a caption has, and its lemma.
//!
//! A word of an open class is looked up in WordNet with its inflections taken off; what is left open its neighbours
//! decide, by rules about captions: most are noun phrases, a verb that is possible after a finished noun phrase mostly is
//! one. One pass, linear in the words.

use super::lemmas::{self, Form};
use super::lexicon::{Lexicon, Part};
use super::tags::{COLORS, PHRASES, Tag, closed};

/// Gerunds that name things rather than what somebody does.
const THINGS: &[&str] = &[
    "building", "painting", "drawing", "writing", "wedding", "opening", "landing", "carving", "engraving", "etching",
    "molding", "moulding", "padding", "seasoning", "serving", "earring", "wiring", "piping", "roofing", "decking",
    "piercing", "matting", "netting", "rigging", "seating", "shelving", "stocking", "tiling",
    "frosting", "icing", "topping", "siding", "lighting", "flooring", "dressing", "stuffing", "bedding", "covering",
    "railing", "clothing", "ceiling", "clearing", "crossing", "lettering", "fencing", "paneling", "marking", "tubing",
];

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

/// What a word of an open class can be, with frequencies.
#[derive(Debug, Clone, Default)]
struct Readings {
    noun: Option<u32>,
    plural: Option<String>,
    verb: Option<(u32, String, Form)>,
    adjective: Option<u32>,
    adverb: Option<u32>,
    /// Whether a past form ends in `-ed` and WordNet has the verb.
    regular: bool,
    /// Whether it is a gerund that makes a noun with the next word, as in `parking lot`.
    compound: bool,
}

impl Readings {

    /// Whether a participle before a noun is an adjective with a lemma of its own: `curved`, not `painted`.
    fn is_adjective(&self, verbs: u32, form: Form) -> bool {
        match form {
            Form::Ing => {
                self.adjective.is_some_and(|count| count >= 3) || self.noun.is_some() && verbs < 10 || self.compound
            }
            Form::Past => {
                !self.regular || self.noun.is_some() || self.adjective.is_some_and(|count| count >= verbs)
            }
            Form::Base | Form::Third => true,
        }
    }
}

/// A word before its tag is decided.
#[derive(Debug, Clone)]
enum Candidate {
    Closed(Tag),
    Open(Readings),
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
            None => Candidate::Open(readings(lexicon, word)),
        })
        .collect();
    for at in 1..words.len() {
        if let [Candidate::Open(first), Candidate::Open(_)] = &mut candidates[at - 1..=at] {
            first.compound = lexicon.is_gerund_compound(&words[at - 1], &words[at]);
        }
    }
    let mut tagged: Vec<Word> = Vec::with_capacity(words.len());
    for (i, text) in words.iter().enumerate() {
        let around = Around { lexicon, words: &words, candidates: &candidates, tagged: &tagged, at: i };
        let word = match &candidates[i] {
            Candidate::Closed(tag) => {
                let tag = around.closed(*tag);
                Word { lemma: lemma_of_closed(text), text: text.clone(), tag }
            }
            Candidate::Open(readings) => {
                let tag = around.open(readings);
                let lemma = match (tag, &readings.plural, &readings.verb) {
                    (Tag::Plural, Some(lemma), _)
                    | (Tag::Verb | Tag::Third | Tag::Ing | Tag::Past, _, Some((_, lemma, _))) => lemma.clone(),
                    (Tag::Adjective, _, Some((verbs, lemma, form))) if !readings.is_adjective(*verbs, *form) => lemma.clone(),
                    _ => text.clone(),
                };
                Word { text: text.clone(), lemma, tag }
            }
        };
        tagged.push(word);
    }
    tagged
}

fn lemma_of_closed(text: &str) -> String {
    match text {
        "w/" => "with",
        other => other,
    }
    .to_owned()
}

/// Words with those of a preposition of several words joined.
fn with_phrases(words: &[String]) -> Vec<String> {
    let mut joined = Vec::with_capacity(words.len());
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let phrase = PHRASES.iter().find(|phrase| rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(a, b)| a == b));
        if let Some(phrase) = phrase {
            joined.push(phrase.join(" "));
            rest = &rest[phrase.len()..];
        } else {
            joined.push(first.clone());
            rest = after;
        }
    }
    joined
}

fn readings(lexicon: &Lexicon, word: &str) -> Readings {
    let plural = lemmas::plural(lexicon, word);
    let own = lexicon.count(Part::Noun, word);
    let noun = match &plural {
        Some(lemma) => Some(lexicon.count(Part::Noun, lemma).unwrap_or(1).max(own.unwrap_or(0))),
        None => own,
    };
    let verb = lemmas::verb(lexicon, word)
        .filter(|_| plural.as_deref() != Some(word))
        .filter(|_| !word.ends_with("thing") || own.is_none())
        .map(|(lemma, form)| (lexicon.count(Part::Verb, &lemma).unwrap_or(0), lemma, form));
    let mut found = Readings {
        noun,
        plural,
        verb,
        adjective: lexicon.count(Part::Adjective, word).or_else(|| comparative(lexicon, word)),
        adverb: lexicon.count(Part::Adverb, word),
        regular: word.ends_with("ed"),
        compound: false,
    };
    if COLORS.contains(&word) {
        found.adjective = found.adjective.max(found.noun);
    }
    if found.noun.is_none() && found.verb.is_none() && found.adjective.is_none() && found.adverb.is_none() {
        guess(word, &mut found);
    }
    found
}

/// Frequency of the adjective whose comparative or superlative `word` is.
fn comparative(lexicon: &Lexicon, word: &str) -> Option<u32> {
    if let Some(lemma) = lexicon.exception(Part::Adjective, word) {
        return lexicon.count(Part::Adjective, lemma);
    }
    let stem = word.strip_suffix("er").or_else(|| word.strip_suffix("est"))?;
    let stem_of_y = stem.strip_suffix('i').map(|stem| format!("{stem}y"));
    [Some(stem.to_owned()), Some(format!("{stem}e")), stem_of_y]
        .into_iter()
        .flatten()
        .find_map(|lemma| lexicon.count(Part::Adjective, &lemma))
}

/// A word that WordNet lacks: its ending says what it is.
fn guess(word: &str, found: &mut Readings) {
    let stem = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 3);
    if word.contains('-') || stem("ish").is_some() {
        found.adjective = Some(1);
        found.noun = Some(1);
    } else if let Some(stem) = stem("ing").filter(|_| !word.ends_with("thing")) {
        found.verb = Some((0, stem.to_owned(), Form::Ing));
        found.noun = Some(0);
    } else if let Some(stem) = stem("ed") {
        found.verb = Some((0, stem.to_owned(), Form::Past));
        found.regular = false;
    } else if stem("ly").is_some() {
        found.adverb = Some(1);
    } else if let Some(stem) = stem("s").filter(|stem| !stem.ends_with(['s', 'u', 'i'])) {
        found.noun = Some(1);
        found.plural = Some(stem.to_owned());
    } else {
        found.noun = Some(1);
    }
}

/// A word and its neighbours.
struct Around<'a> {
    lexicon: &'a Lexicon,
    words: &'a [String],
    candidates: &'a [Candidate],
    tagged: &'a [Word],
    at: usize,
}

impl Around<'_> {
    /// The tag before, adverbs left out.
    fn before(&self) -> Option<Tag> {
        self.tagged.iter().rev().map(|word| word.tag).find(|tag| *tag != Tag::Adverb)
    }

    fn next_closed(&self) -> Option<Tag> {
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
            Some(Candidate::Open(readings)) => match readings.verb {
                Some((_, _, Form::Ing)) => readings.compound || THINGS.contains(&self.words[self.at + 1].as_str()),
                // `top` of `a white top stopped at the light` is no adjective.
                Some((_, _, Form::Past)) => matches!(self.candidates.get(self.at + 2), Some(Candidate::Open(_))),
                _ => readings.noun.is_some() || readings.adjective.is_some(),
            },
            None => false,
        }
    }

    fn closed(&self, tag: Tag) -> Tag {
        let word = self.words[self.at].as_str();
        let before = self.tagged.last().map(|word| word.tag);
        let next = self.next_closed();
        match word {
            "'s" if matches!(before, Some(Tag::Pronoun | Tag::There)) => Tag::Be,
            "'" if !matches!(before, Some(Tag::Plural | Tag::Noun)) => Tag::Comma,
            "her" if next.is_some() && !self.nominal_next() => Tag::Pronoun,
            "there" if next == Some(Tag::Be) => Tag::There,
            "that" if !matches!(before, Some(Tag::Noun | Tag::Plural)) && self.nominal_next() => Tag::Determiner,
            "this" | "these" | "those" | "that" if next == Some(Tag::Be) => Tag::Pronoun,
            "like" if matches!(before, Some(Tag::Pronoun | Tag::To)) => Tag::Verb,
            "can" if next != Some(Tag::Auxiliary) && before.is_none_or(Tag::opens_noun_phrase) => Tag::Noun,
            "back" if before.is_some_and(Tag::opens_noun_phrase) => Tag::Noun,
            "other" | "others" if self.at > 0 && self.words[self.at - 1] == "each" => Tag::Noun,
            "other" | "others" if matches!(next, Some(Tag::End | Tag::Preposition)) => Tag::Noun,
            "one" if matches!(next, Some(Tag::Be | Tag::Preposition)) && before == Some(Tag::Determiner) => Tag::Noun,
            _ => tag,
        }
    }

    fn open(&self, readings: &Readings) -> Tag {
        let word = self.words[self.at].as_str();
        let noun = if readings.plural.is_some() { Tag::Plural } else { Tag::Noun };
        let nouns = readings.noun.unwrap_or(0);
        let adjectives = readings.adjective.unwrap_or(0);
        let (verbs, form) = readings.verb.as_ref().map_or((0, None), |(count, _, form)| (*count, Some(*form)));
        let next = self.next_closed();
        let nominal_next = self.nominal_next();
        let compound = readings.compound;
        let thing = THINGS.contains(&word);
        let verb_before = matches!(self.before(), Some(Tag::Verb | Tag::Third | Tag::Ing | Tag::Past));
        // `blue and clear`, which nothing follows that they describe.
        let after_adjectives = matches!(self.tagged, [.., first, and]
            if first.tag == Tag::Adjective && matches!(and.tag, Tag::Conjunction | Tag::Comma));
        // What it is where a noun phrase may begin or go on.
        let nominal = || {
            if compound {
                return Tag::Adjective;
            }
            let listed = matches!(next, Some(Tag::Conjunction | Tag::Comma));
            if readings.adjective.is_some() && (nominal_next || listed) && (readings.noun.is_none() || adjectives * 3 >= nouns) {
                Tag::Adjective
            } else if verb_before && adjectives > nouns || after_adjectives && adjectives * 3 > nouns {
                Tag::Adjective
            } else if readings.noun.is_some() {
                noun
            } else if readings.adjective.is_some() {
                Tag::Adjective
            } else if readings.adverb.is_some() {
                Tag::Adverb
            } else {
                Tag::Verb
            }
        };
        match self.before() {
            Some(Tag::Auxiliary) if form == Some(Form::Base) => Tag::Verb,
            Some(Tag::To) if form == Some(Form::Base) && (verbs > nouns || readings.noun.is_none()) => Tag::Verb,
            Some(Tag::Be) if form == Some(Form::Ing) && !compound => Tag::Ing,
            Some(Tag::Be) if form == Some(Form::Past) => {
                let state = readings.adjective.is_some() && next != Some(Tag::Preposition) && adjectives >= verbs;
                if state || nominal_next && next.is_none() && readings.adjective.is_some() { Tag::Adjective } else { Tag::Past }
            }
            Some(Tag::Be) => {
                if readings.adjective.is_some() && (nominal_next || adjectives >= nouns) {
                    Tag::Adjective
                } else {
                    nominal()
                }
            }
            Some(Tag::Noun | Tag::Plural | Tag::Pronoun) => self.after_noun(readings, &nominal),
            before => {
                let inside = before.is_some_and(Tag::opens_noun_phrase);
                let listed = matches!(before, Some(Tag::Conjunction | Tag::Comma | Tag::Relative));
                match form {
                    Some(Form::Ing) if compound => Tag::Adjective,
                    Some(Form::Ing) if thing => Tag::Noun,
                    Some(Form::Ing) if listed && adjectives == 0 => Tag::Ing,
                    Some(Form::Ing) if nominal_next && next.is_none() => Tag::Adjective,
                    Some(Form::Ing) if inside && before != Some(Tag::Number) => Tag::Noun,
                    Some(Form::Ing) => Tag::Ing,
                    Some(Form::Past) if nominal_next && next.is_none() => Tag::Adjective,
                    Some(Form::Past)
                        if readings.noun.is_some()
                            && (!readings.regular && (inside || before == Some(Tag::Preposition))
                                || nouns * 2 > verbs) =>
                    {
                        noun
                    }
                    Some(Form::Past) if inside && matches!(next, Some(Tag::Conjunction | Tag::Comma)) => Tag::Adjective,
                    Some(Form::Past) => Tag::Past,
                    Some(Form::Third) if listed && readings.noun.is_some_and(|nouns| nouns * 2 < verbs) => Tag::Third,
                    Some(Form::Third) if readings.noun.is_none() => Tag::Third,
                    _ => nominal(),
                }
            }
        }
    }

    /// After a noun or a pronoun a verb may come.
    fn after_noun(&self, readings: &Readings, nominal: &dyn Fn() -> Tag) -> Tag {
        let before = self.tagged.last();
        let plural = before.is_some_and(|word| matches!(word.tag, Tag::Plural | Tag::Pronoun));
        let nouns = readings.noun;
        let next = self.next_closed();
        let object_next = matches!(next, Some(Tag::Determiner | Tag::Possessive | Tag::Pronoun | Tag::Number));
        match &readings.verb {
            Some((_, _, Form::Ing)) if THINGS.contains(&self.words[self.at].as_str()) && !object_next => nominal(),
            Some((_, _, Form::Ing)) if !readings.compound => Tag::Ing,
            // `tan colored pillow`.
            Some((_, _, Form::Past))
                if next.is_none() && self.nominal_next() && before.is_some_and(|word| COLORS.contains(&word.text.as_str())) =>
            {
                Tag::Adjective
            }
            Some((verbs, _, Form::Past)) if nouns.is_none_or(|nouns| nouns < 2 * verbs + 1) => Tag::Past,
            Some((verbs, _, Form::Third)) => match nouns {
                None => Tag::Third,
                Some(_) if object_next => Tag::Third,
                Some(nouns) if matches!(next, Some(Tag::Preposition | Tag::To)) && *verbs * 2 > nouns * 3 => Tag::Third,
                Some(nouns) if *verbs > 2 * nouns + 5 => Tag::Third,
                Some(_) => nominal(),
            },
            Some((verbs, _, Form::Base)) if plural => match nouns {
                None if readings.adjective.is_none() => Tag::Verb,
                _ if object_next => Tag::Verb,
                Some(nouns) if *verbs > nouns && *verbs > readings.adjective.unwrap_or(0) => Tag::Verb,
                _ => self.adjective_or(readings, nominal),
            },
            _ => self.adjective_or(readings, nominal),
        }
    }

    fn adjective_or(&self, readings: &Readings, nominal: &dyn Fn() -> Tag) -> Tag {
        let ends = matches!(self.next_closed(), Some(Tag::Preposition | Tag::End | Tag::To));
        if ends && readings.adjective.is_some_and(|count| readings.noun.is_none_or(|nouns| count > 5 * nouns)) {
            Tag::Adjective
        } else {
            nominal()
        }
    }
}
