//! Part-of-speech tagger with lemmas: the tags, the function words, and the possible tags of words of open classes.
//!
//! A word of an open class is lemmatised and looked up in WordNet. If it is ambiguous, rules
//! decide by its neighbours. The rules are made for captions: most captions are noun phrases, and a word that can be a
//! verb usually is a verb if it follows a complete noun phrase. One pass, linear in the number of words.

use super::lexicon::{self, VerbForm};
use super::lexicon::{Lexicon, PartOfSpeech};

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

/// The number of `words`, which are in lower case, that have a letter, and how many of these are known: function words,
/// and words of which WordNet has a form. Their share is 0.99 in English captions, and at most about 0.5 in those of other
/// languages that share its letters.
#[must_use]
pub fn count_known_words(lexicon: &Lexicon, words: &[String]) -> (usize, usize) {
    let words = words.iter().filter(|word| word.contains(char::is_alphabetic));
    let known = words.clone().filter(|word| {
        closed_class_tag(word).is_some()
            || lexicon.contains(word)
            || lexicon::singular_of(lexicon, word).is_some()
            || lexicon::verb_lemma(lexicon, word).is_some()
    });
    (words.clone().count(), known.count())
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

/// Possible parts of speech of a word, with their frequencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WordAnalysis {
    /// Frequency as a noun, singular or plural.
    pub noun: Option<u32>,
    /// The singular, if the noun is a plural.
    pub singular: Option<String>,
    /// Analysis as a verb.
    pub verb: Option<VerbAnalysis>,
    /// Frequency as an adjective, of any degree.
    pub adjective: Option<u32>,
    /// Frequency as an adverb.
    pub adverb: Option<u32>,
    /// True for a gerund that names a thing: `building`.
    pub names_thing: bool,
    /// True for a gerund that forms a compound noun with the next word: `parking lot`.
    pub forms_compound: bool,
}

/// Analysis of a word as a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbAnalysis {
    /// Frequency of the verb, in any form.
    pub count: u32,
    /// Its lemma.
    pub lemma: String,
    /// Its inflected form.
    pub form: VerbForm,
}

/// Gerunds that name things, not actions.
const OBJECT_GERUNDS: &str = "\
    building painting drawing writing wedding opening landing carving engraving etching molding moulding padding \
    seasoning serving wiring piping roofing decking piercing matting netting rigging seating shelving stocking \
    tiling frosting icing topping siding lighting flooring dressing stuffing bedding covering railing clothing \
    ceiling clearing crossing lettering fencing paneling marking tubing";

/// Nouns with the ending of a gerund.
const NO_GERUNDS: &str = "thing something anything nothing everything plaything clothing ceiling";

/// Minimum frequency of a verb whose participles are verbs. The treebank has participles of rarer verbs as adjectives.
const MIN_VERB_FREQUENCY: u32 = 13;

impl WordAnalysis {
    /// Analyses `word` with the lexicon.
    #[must_use]
    pub fn of(lexicon: &Lexicon, word: &str) -> Self {
        let plural = lexicon::singular_of(lexicon, word);
        let own = lexicon.frequency(PartOfSpeech::Noun, word);
        let noun = match &plural {
            Some(lemma) => Some(lexicon.frequency(PartOfSpeech::Noun, lemma).unwrap_or(1).max(own.unwrap_or(0))),
            None => own,
        };
        // `pants` is no form of `pant`, and `something` no form of a verb.
        let never_verb = plural.as_deref() == Some(word) || list_contains(NO_GERUNDS, word);
        let verb = lexicon::verb_lemma(lexicon, word).filter(|_| !never_verb).map(|(lemma, form)| VerbAnalysis {
            count: lexicon.frequency(PartOfSpeech::Verb, &lemma).unwrap_or(0),
            lemma,
            form,
        });
        let mut found = Self {
            noun,
            singular: plural,
            verb,
            adjective: lexicon
                .frequency(PartOfSpeech::Adjective, word)
                .or_else(|| comparative_frequency(lexicon, word)),
            adverb: lexicon.frequency(PartOfSpeech::Adverb, word),
            names_thing: list_contains(OBJECT_GERUNDS, word),
            forms_compound: false,
        };
        if list_contains(COLORS, word) {
            found.adjective = found.adjective.max(found.noun);
        }
        if found.noun.is_none() && found.verb.is_none() && found.adjective.is_none() && found.adverb.is_none() {
            found.guess_parts_of_speech(word);
        }
        found
    }

    /// Its inflected form as a verb.
    #[must_use]
    pub fn form(&self) -> Option<VerbForm> {
        self.verb.as_ref().map(|verb| verb.form)
    }

    /// The lemma of the word as a modifier of a noun. For a participle (`painted`) it is that of the verb (`paint`),
    /// unless the word is an adjective (`curved`).
    #[must_use]
    pub fn modifier_lemma<'a>(&'a self, word: &'a str) -> &'a str {
        let Some(verb) = &self.verb else { return word };
        let adjective = match verb.form {
            VerbForm::Gerund => {
                self.adjective.is_some_and(|count| count >= 3)
                    || self.noun.is_some() && verb.count < 10
                    || self.forms_compound
            }
            VerbForm::Past => {
                let regular = word.ends_with("ed");
                !regular
                    || verb.count < MIN_VERB_FREQUENCY
                    || self.noun.is_some()
                    || self.adjective.is_some_and(|count| count >= verb.count)
            }
            VerbForm::Base | VerbForm::ThirdPerson => true,
        };
        if adjective { word } else { &verb.lemma }
    }

    /// Guesses the parts of speech of a word that is not in WordNet from its ending.
    fn guess_parts_of_speech(&mut self, word: &str) {
        let stem = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 3);
        let verb = |stem: &str, form| Some(VerbAnalysis { count: 0, lemma: stem.to_owned(), form });
        if word.contains('-') || stem("ish").is_some() {
            self.adjective = Some(1);
            self.noun = Some(1);
        } else if let Some(stem) = stem("ing").filter(|_| !word.ends_with("thing")) {
            self.verb = verb(stem, VerbForm::Gerund);
            self.noun = Some(0);
        } else if let Some(stem) = stem("ed") {
            self.verb = verb(stem, VerbForm::Past);
        } else if stem("ly").is_some() {
            self.adverb = Some(1);
        } else if let Some(stem) = stem("s").filter(|stem| !stem.ends_with(['s', 'u', 'i'])) {
            self.noun = Some(1);
            self.singular = Some(stem.to_owned());
        } else {
            self.noun = Some(1);
        }
    }
}

/// Frequency of the adjective of which `word` is the comparative or superlative; `None` if there is none.
fn comparative_frequency(lexicon: &Lexicon, word: &str) -> Option<u32> {
    if let Some(lemma) = lexicon.irregular_lemma(PartOfSpeech::Adjective, word) {
        return lexicon.frequency(PartOfSpeech::Adjective, lemma);
    }
    let stem = word.strip_suffix("er").or_else(|| word.strip_suffix("est"))?;
    let stem_of_y = stem.strip_suffix('i').map(|stem| format!("{stem}y"));
    [Some(stem.to_owned()), Some(format!("{stem}e")), stem_of_y]
        .into_iter()
        .flatten()
        .find_map(|lemma| lexicon.frequency(PartOfSpeech::Adjective, &lemma))
}

/// Part-of-speech tag of a word in its context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PosTag {
    /// Determiner: `the`.
    Determiner,
    /// Possessive determiner: `his`.
    Possessive,
    /// Possessive marker: `'s` after an owner.
    PossessiveMarker,
    /// Pronoun: `it`.
    Pronoun,
    /// Number: `two`.
    Number,
    /// Adjective: `red`; also a participle before a noun.
    Adjective,
    /// Adverb: `slowly`.
    Adverb,
    /// Noun in the singular: `dog`.
    Noun,
    /// Noun in the plural: `dogs`.
    Plural,
    /// Verb in the base form: `sit`.
    Verb,
    /// Verb in the third person singular: `sits`.
    ThirdPerson,
    /// Gerund or present participle: `sitting`.
    Gerund,
    /// Past tense or past participle: `parked`.
    Past,
    /// Form of `be`: `is`.
    Be,
    /// Auxiliary verb or negation: `can`, `do`, `not`.
    Auxiliary,
    /// The word `to`.
    To,
    /// Preposition: `on`, `in front of`.
    Preposition,
    /// Coordinating conjunction: `and`.
    Conjunction,
    /// Punctuation within a sentence: `,`.
    Comma,
    /// Relative pronoun or subordinating conjunction: `which`, `while`.
    Relative,
    /// Existential `there`: `there is`.
    Existential,
    /// End of a sentence: `.`.
    SentenceEnd,
}

impl PosTag {
    /// True if the next word is in the same noun phrase: after a determiner, a possessive, a number or an adjective.
    #[must_use]
    pub fn opens_noun_phrase(self) -> bool {
        matches!(self, Self::Determiner | Self::Possessive | Self::PossessiveMarker | Self::Number | Self::Adjective)
    }
}

/// Prepositions of several words. Among two with the same beginning, the longer one comes first.
pub const MULTIWORD_PREPOSITIONS: &[&[&str]] = &[
    &["in", "front", "of"],
    &["on", "top", "of"],
    &["in", "between"],
    &["outside", "of"],
    &["inside", "of"],
    &["next", "to"],
    &["close", "to"],
    &["out", "of"],
    &["such", "as"],
    &["because", "of"],
    &["instead", "of"],
    &["along", "with"],
    &["due", "to"],
    &["away", "from"],
    &["ahead", "of"],
];

/// Words for colours, as in SPICE's F-score of colours.
pub const COLORS: &str = "\
    amber aqua azure beige black blue bronze brown burgundy charcoal cream crimson cyan gold golden gray green \
    grey indigo ivory lavender lilac magenta maroon mauve navy ochre olive orange peach pink purple red rose \
    scarlet silver tan teal turquoise violet white yellow";

/// True if `word` is in `list`, which is separated by spaces.
#[must_use]
pub fn list_contains(list: &str, word: &str) -> bool {
    list.split(' ').any(|known| known == word)
}

/// The tag of a word of a closed class; `None` for other words.
#[must_use]
pub fn closed_class_tag(word: &str) -> Option<PosTag> {
    Some(match word {
        "a" | "an" | "the" | "this" | "these" | "those" | "some" | "any" | "each" | "every" | "all" | "both" | "no"
        | "another" | "either" | "neither" | "whatever" => PosTag::Determiner,
        "his" | "its" | "their" | "my" | "your" | "our" | "whose" | "her" => PosTag::Possessive,
        "'s" | "'" | "’s" | "´s" => PosTag::PossessiveMarker,
        "he" | "she" | "it" | "they" | "them" | "him" | "i" | "we" | "you" | "us" | "me" | "himself" | "herself"
        | "itself" | "themselves" => PosTag::Pronoun,
        "one" | "two" | "three" | "four" | "five" | "six" | "seven" | "eight" | "nine" | "ten" | "eleven"
        | "twelve" | "thirteen" | "fourteen" | "fifteen" | "sixteen" | "twenty" | "thirty" | "forty" | "fifty"
        | "hundred" | "thousand" => PosTag::Number,
        "many" | "several" | "few" | "more" | "most" | "other" | "such" | "own" | "same" | "multiple" | "various" => {
            PosTag::Adjective
        }
        "is" | "are" | "was" | "were" | "be" | "been" | "being" | "am" | "'re" | "'m" => PosTag::Be,
        "can" | "could" | "will" | "would" | "may" | "might" | "must" | "should" | "do" | "does" | "did" | "'ll"
        | "n't" | "not" | "never" | "ca" => PosTag::Auxiliary,
        "to" => PosTag::To,
        "in" | "on" | "at" | "by" | "with" | "from" | "of" | "under" | "above" | "over" | "near" | "behind"
        | "beside" | "besides" | "between" | "inbetween" | "through" | "into" | "onto" | "against" | "along"
        | "across" | "around" | "inside" | "outside" | "beneath" | "below" | "underneath" | "among" | "amongst"
        | "atop" | "for" | "during" | "about" | "without" | "within" | "toward" | "towards" | "upon" | "after"
        | "before" | "off" | "up" | "down" | "past" | "like" | "than" | "via" | "alongside" | "throughout"
        | "beyond" | "out" | "amid" | "w/" | "till" | "until" | "round" | "aboard" | "opposite" | "except" | "per" => {
            PosTag::Preposition
        }
        "and" | "or" | "but" | "&" | "nor" => PosTag::Conjunction,
        "," | ";" | ":" | "-" | "--" | "(" | ")" | "/" | "``" | "''" | "\"" | "…" | "..." => PosTag::Comma,
        "." | "!" | "?" => PosTag::SentenceEnd,
        "who" | "which" | "what" | "where" | "when" | "while" | "because" | "if" | "as" | "that" | "whom" | "so"
        | "how" | "why" => PosTag::Relative,
        "very" | "just" | "only" | "too" | "also" | "there" | "here" | "together" | "away" | "back" | "forward"
        | "almost" | "mostly" | "partially" | "partly" | "still" | "then" | "now" | "even" | "probably" | "well"
        | "really" | "quite" | "upside" | "yet" | "again" | "apart" | "sideways" => PosTag::Adverb,
        _ if word.bytes().any(|b| b.is_ascii_digit())
            && word.bytes().all(|b| b.is_ascii_digit() || b",.:/%$".contains(&b)) =>
        {
            PosTag::Number
        }
        _ if !word.chars().any(char::is_alphanumeric) => PosTag::Comma,
        _ => return None,
    })
}
