//! Part-of-speech tagger with lemmas.
//!
//! A word of an open class is lemmatised and looked up in WordNet. If it is ambiguous, rules
//! decide by its neighbours. The rules are made for captions: most captions are noun phrases, and a word that can be a
//! verb usually is a verb if it follows a complete noun phrase. One pass, linear in the number of words.

use super::lemmatizer::VerbForm;
use super::lexicon::Lexicon;
use super::tags::{COLORS, MULTIWORD_PREPOSITIONS, PosTag, closed_class_tag, list_contains};
use super::word_analysis::WordAnalysis;

/// Tagged word, or preposition of several words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaggedWord {
    /// The word in the caption, in lower case.
    pub text: String,
    /// Its lemma, given its part of speech.
    pub lemma: String,
    /// Its part of speech.
    pub tag: PosTag,
}

/// Tags `words`, which are in lower case.
#[must_use]
pub fn tag(lexicon: &Lexicon, words: &[String]) -> Vec<TaggedWord> {
    let words = join_prepositions(words);
    let mut candidates: Vec<WordClass> = words
        .iter()
        .map(|word| match closed_class_tag(word) {
            Some(tag) => WordClass::Closed(tag),
            None if word.contains(' ') => WordClass::Closed(PosTag::Preposition),
            None => WordClass::Open(WordAnalysis::of(lexicon, word)),
        })
        .collect();
    for at in 1..words.len() {
        if let [WordClass::Open(first), WordClass::Open(_)] = &mut candidates[at - 1..=at] {
            first.forms_compound = lexicon.is_gerund_compound(&words[at - 1], &words[at]);
        }
    }
    let mut tagged: Vec<TaggedWord> = Vec::with_capacity(words.len());
    let (mut before, mut single) = (None, false);
    for (at, text) in words.iter().enumerate() {
        let context = TaggingContext {
            words: &words,
            word_classes: &candidates,
            tagged: &tagged,
            previous_tag: before,
            after_singular: single,
            index: at,
        };
        let (tag, lemma) = match &candidates[at] {
            WordClass::Closed(tag) => (context.tag_closed(*tag), if text == "w/" { "with" } else { text }),
            WordClass::Open(analysis) => {
                let tag = context.tag_open(analysis);
                (tag, lemma(tag, text, analysis))
            }
        };
        single = match tag {
            PosTag::Determiner => list_contains("a an each every this another", text),
            PosTag::Adjective | PosTag::Noun | PosTag::Adverb => single,
            _ => false,
        };
        let lemma = lemma.to_owned();
        if tag != PosTag::Adverb {
            before = Some(tag);
        }
        tagged.push(TaggedWord { text: text.clone(), lemma, tag });
    }
    tagged
}

fn lemma<'a>(tag: PosTag, text: &'a str, analysis: &'a WordAnalysis) -> &'a str {
    match (tag, &analysis.singular, &analysis.verb) {
        (PosTag::Plural, Some(lemma), _) => lemma,
        (PosTag::Verb | PosTag::ThirdPerson | PosTag::Gerund | PosTag::Past, _, Some(verb)) => &verb.lemma,
        (PosTag::Adjective, ..) => analysis.modifier_lemma(text),
        _ => text,
    }
}

/// Class of a word: closed with a known tag, or open with several possible tags.
#[derive(Debug, Clone)]
enum WordClass {
    Closed(PosTag),
    Open(WordAnalysis),
}

/// Joins the words of prepositions of several words.
fn join_prepositions(words: &[String]) -> Vec<String> {
    let mut joined = Vec::with_capacity(words.len());
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let begins =
            |phrase: &&&[&str]| rest.len() >= phrase.len() && phrase.iter().zip(rest).all(|(part, word)| part == word);
        if let Some(phrase) = MULTIWORD_PREPOSITIONS.iter().find(begins) {
            joined.push(phrase.join(" "));
            rest = &rest[phrase.len()..];
        } else {
            joined.push(first.clone());
            rest = after;
        }
    }
    joined
}

/// Word to be tagged, and its neighbours.
struct TaggingContext<'a> {
    words: &'a [String],
    word_classes: &'a [WordClass],
    tagged: &'a [TaggedWord],
    /// Tag of the last word before it that is no adverb.
    previous_tag: Option<PosTag>,
    /// True if the noun phrase before it is a singular with a determiner: `a dog`.
    after_singular: bool,
    index: usize,
}

impl TaggingContext<'_> {
    /// The tag of the next word if its class is closed; `None` if it is open.
    fn next_closed_tag(&self) -> Option<PosTag> {
        match self.word_classes.get(self.index + 1) {
            Some(WordClass::Closed(tag)) => Some(*tag),
            Some(WordClass::Open(_)) => None,
            None => Some(PosTag::SentenceEnd),
        }
    }

    /// True if the next word can be part of the same noun phrase.
    fn next_is_nominal(&self) -> bool {
        match self.word_classes.get(self.index + 1) {
            Some(WordClass::Closed(tag)) => matches!(tag, PosTag::Number | PosTag::Adjective),
            Some(WordClass::Open(analysis)) => match analysis.form() {
                Some(VerbForm::Gerund) => analysis.forms_compound || analysis.names_thing,
                // In `a white top stopped at the light`, `top` is no adjective.
                Some(VerbForm::Past) => matches!(self.word_classes.get(self.index + 2), Some(WordClass::Open(_))),
                _ => analysis.noun.is_some() || analysis.adjective.is_some(),
            },
            None => false,
        }
    }

    /// True if the next word can follow an auxiliary verb.
    fn next_follows_auxiliary(&self) -> bool {
        match self.word_classes.get(self.index + 1) {
            Some(WordClass::Closed(PosTag::Be)) => self.words[self.index + 1] == "be",
            Some(WordClass::Closed(tag)) => matches!(tag, PosTag::Auxiliary | PosTag::Pronoun),
            Some(WordClass::Open(analysis)) => analysis.adverb.is_some() || analysis.form() == Some(VerbForm::Base),
            None => false,
        }
    }

    /// The tag of a word of a closed class. A few of these words are ambiguous.
    fn tag_closed(&self, tag: PosTag) -> PosTag {
        let before = self.tagged.last().map(|word| word.tag);
        let next = self.next_closed_tag();
        match self.words[self.index].as_str() {
            "'s" if matches!(before, Some(PosTag::Pronoun | PosTag::Existential)) => PosTag::Be,
            "'" if !matches!(before, Some(PosTag::Plural | PosTag::Noun)) => PosTag::Comma,
            "her" if next.is_some() && !self.next_is_nominal() => PosTag::Pronoun,
            "there" if next == Some(PosTag::Be) => PosTag::Existential,
            "that" if !matches!(before, Some(PosTag::Noun | PosTag::Plural)) && self.next_is_nominal() => {
                PosTag::Determiner
            }
            "that" if next == Some(PosTag::Be) && before.is_none() => PosTag::Pronoun,
            "this" | "these" | "those" if next == Some(PosTag::Be) => PosTag::Pronoun,
            "like" if matches!(before, Some(PosTag::Pronoun | PosTag::To)) => PosTag::Verb,
            "can" if next != Some(PosTag::Auxiliary) && before.is_none_or(PosTag::opens_noun_phrase) => PosTag::Noun,
            // `a trash can on a sidewalk`.
            "can" if before == Some(PosTag::Noun) && !self.next_follows_auxiliary() => PosTag::Noun,
            "back" if before.is_some_and(|tag| tag.opens_noun_phrase() || tag == PosTag::Preposition) => PosTag::Noun,
            "other" if self.index > 0 && self.words[self.index - 1] == "each" => PosTag::Noun,
            "other" if matches!(next, Some(PosTag::SentenceEnd | PosTag::Preposition)) => PosTag::Noun,
            "one" if matches!(next, Some(PosTag::Be | PosTag::Preposition)) && before == Some(PosTag::Determiner) => {
                PosTag::Noun
            }
            _ => tag,
        }
    }

    /// The tag of a word of an open class.
    fn tag_open(&self, analysis: &WordAnalysis) -> PosTag {
        match (self.previous_tag, analysis.form()) {
            (Some(PosTag::Auxiliary), Some(VerbForm::Base)) => PosTag::Verb,
            (Some(PosTag::Relative), Some(VerbForm::Base)) if verb_frequency(analysis) > noun_frequency(analysis) => {
                PosTag::Verb
            }
            (Some(PosTag::To), Some(VerbForm::Base))
                if verb_frequency(analysis) > noun_frequency(analysis) || analysis.noun.is_none() =>
            {
                PosTag::Verb
            }
            (Some(PosTag::Be), _) => self.tag_after_be(analysis),
            (Some(PosTag::Noun | PosTag::Plural | PosTag::Pronoun), _) => self.tag_after_noun(analysis),
            _ => self.tag_elsewhere(analysis),
        }
    }

    fn tag_after_be(&self, analysis: &WordAnalysis) -> PosTag {
        let adjectives = analysis.adjective.unwrap_or(0);
        match analysis.form() {
            Some(VerbForm::Gerund) if !analysis.forms_compound => PosTag::Gerund,
            Some(VerbForm::Past) => {
                let next = self.next_closed_tag();
                let state = next != Some(PosTag::Preposition) && adjectives >= verb_frequency(analysis);
                let modifies = next.is_none() && self.next_is_nominal();
                if analysis.adjective.is_some() && (state || modifies) { PosTag::Adjective } else { PosTag::Past }
            }
            _ if analysis.adjective.is_some() && (self.next_is_nominal() || adjectives >= noun_frequency(analysis)) => {
                PosTag::Adjective
            }
            _ => self.tag_nominal(analysis),
        }
    }

    /// The tag of a word after a noun or a pronoun, where a verb is possible.
    fn tag_after_noun(&self, analysis: &WordAnalysis) -> PosTag {
        let last = self.tagged.last();
        let plural = last.is_some_and(|word| matches!(word.tag, PosTag::Plural | PosTag::Pronoun));
        let next = self.next_closed_tag();
        let object_next =
            matches!(next, Some(PosTag::Determiner | PosTag::Possessive | PosTag::Pronoun | PosTag::Number));
        let place_next = matches!(next, Some(PosTag::Preposition | PosTag::To));
        let (verbs, nouns) = (verb_frequency(analysis), analysis.noun);
        match analysis.form() {
            Some(VerbForm::Gerund) if analysis.names_thing && !object_next && !(plural && self.next_is_nominal()) => {
                self.tag_nominal(analysis)
            }
            // `zebras drinking water`, but `a kitchen cutting board`.
            Some(VerbForm::Gerund) if !analysis.forms_compound || plural => PosTag::Gerund,
            // `tan colored pillow`.
            Some(VerbForm::Past)
                if next.is_none()
                    && self.next_is_nominal()
                    && last.is_some_and(|word| list_contains(COLORS, &word.text)) =>
            {
                PosTag::Adjective
            }
            Some(VerbForm::Past) if nouns.is_none_or(|nouns| nouns < 2 * verbs + 1) => PosTag::Past,
            Some(VerbForm::ThirdPerson) => match nouns {
                None => PosTag::ThirdPerson,
                Some(_) if object_next || self.after_singular => PosTag::ThirdPerson,
                Some(nouns) if place_next && verbs * 2 > nouns * 3 => PosTag::ThirdPerson,
                Some(nouns) if verbs > 2 * nouns + 5 => PosTag::ThirdPerson,
                Some(_) => self.tag_nominal(analysis),
            },
            Some(VerbForm::Base) if plural && nouns.is_none() && analysis.adjective.is_none() => PosTag::Verb,
            Some(VerbForm::Base) if plural && object_next => PosTag::Verb,
            Some(VerbForm::Base)
                if plural && nouns.is_some_and(|nouns| verbs > nouns && verbs > analysis.adjective.unwrap_or(0)) =>
            {
                PosTag::Verb
            }
            _ => {
                // `a bowl full of fruit`.
                let ends = matches!(self.words.get(self.index + 1).map(String::as_str), Some("of" | "to"));
                let described = |count| nouns.is_none_or(|nouns| count > 5 * nouns);
                if ends && analysis.adjective.is_some_and(described) {
                    PosTag::Adjective
                } else {
                    self.tag_nominal(analysis)
                }
            }
        }
    }

    /// The tag of a word where a noun phrase can begin or continue.
    fn tag_elsewhere(&self, analysis: &WordAnalysis) -> PosTag {
        let inside = self.previous_tag.is_some_and(PosTag::opens_noun_phrase);
        let listed = matches!(self.previous_tag, Some(PosTag::Conjunction | PosTag::Comma | PosTag::Relative));
        let next = self.next_closed_tag();
        let modifies = next.is_none() && self.next_is_nominal();
        match analysis.form() {
            Some(VerbForm::Gerund) if analysis.forms_compound => PosTag::Adjective,
            Some(VerbForm::Gerund) => {
                let verb_likely =
                    (listed || self.previous_tag == Some(PosTag::Gerund)) && analysis.adjective.unwrap_or(0) == 0;
                if analysis.names_thing || inside && self.previous_tag != Some(PosTag::Number) && !modifies {
                    PosTag::Noun
                } else if modifies && !verb_likely {
                    PosTag::Adjective
                } else {
                    PosTag::Gerund
                }
            }
            Some(VerbForm::Past) => {
                let other = analysis.adjective.is_none() && noun_frequency(analysis) > verb_frequency(analysis);
                if other || !modifies && analysis.noun.is_some() && self.is_past_noun(analysis, inside) {
                    noun_tag(analysis)
                } else if modifies || inside && matches!(next, Some(PosTag::Conjunction | PosTag::Comma)) {
                    PosTag::Adjective
                } else {
                    PosTag::Past
                }
            }
            Some(VerbForm::ThirdPerson)
                if analysis.noun.is_none_or(|nouns| listed && nouns * 2 < verb_frequency(analysis)) =>
            {
                PosTag::ThirdPerson
            }
            _ => self.tag_nominal(analysis),
        }
    }

    /// True if a past form is a noun here: `left` in `on the left`.
    fn is_past_noun(&self, analysis: &WordAnalysis, inside: bool) -> bool {
        let regular = self.words[self.index].ends_with("ed");
        !regular && (inside || self.previous_tag == Some(PosTag::Preposition))
            || noun_frequency(analysis) * 2 > verb_frequency(analysis)
    }

    /// The tag of a word in a noun phrase.
    fn tag_nominal(&self, analysis: &WordAnalysis) -> PosTag {
        let (adjectives, nouns) = (analysis.adjective.unwrap_or(0), noun_frequency(analysis));
        let verb_before =
            matches!(self.previous_tag, Some(PosTag::Verb | PosTag::ThirdPerson | PosTag::Gerund | PosTag::Past));
        // `blue and clear`, without a noun after them.
        let after_adjectives = matches!(self.tagged, [.., first, and]
            if first.tag == PosTag::Adjective && matches!(and.tag, PosTag::Conjunction | PosTag::Comma));
        let describes =
            self.next_is_nominal() || matches!(self.next_closed_tag(), Some(PosTag::Conjunction | PosTag::Comma));
        let adjective = analysis.forms_compound
            || analysis.adjective.is_some() && describes && (analysis.noun.is_none() || adjectives * 3 >= nouns)
            || verb_before && adjectives > nouns
            || after_adjectives && adjectives * 3 > nouns;
        if adjective {
            PosTag::Adjective
        } else if analysis.noun.is_some() {
            noun_tag(analysis)
        } else if analysis.adjective.is_some() {
            PosTag::Adjective
        } else if analysis.adverb.is_some() {
            PosTag::Adverb
        } else {
            PosTag::Verb
        }
    }
}

fn noun_tag(analysis: &WordAnalysis) -> PosTag {
    if analysis.singular.is_some() { PosTag::Plural } else { PosTag::Noun }
}

fn noun_frequency(analysis: &WordAnalysis) -> u32 {
    analysis.noun.unwrap_or(0)
}

fn verb_frequency(analysis: &WordAnalysis) -> u32 {
    analysis.verb.as_ref().map_or(0, |verb| verb.count)
}
