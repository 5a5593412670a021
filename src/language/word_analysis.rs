//! Lexical analysis of a word of an open class: its possible parts of speech by WordNet, without context.

use super::lemmatizer::{self, VerbForm};
use super::lexicon::{Lexicon, PartOfSpeech};
use super::tags::{COLORS, list_contains};

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
        let plural = lemmatizer::singular_of(lexicon, word);
        let own = lexicon.frequency(PartOfSpeech::Noun, word);
        let noun = match &plural {
            Some(lemma) => Some(lexicon.frequency(PartOfSpeech::Noun, lemma).unwrap_or(1).max(own.unwrap_or(0))),
            None => own,
        };
        // `pants` is no form of `pant`, and `something` no form of a verb.
        let never_verb = plural.as_deref() == Some(word) || list_contains(NO_GERUNDS, word);
        let verb = lemmatizer::verb_lemma(lexicon, word).filter(|_| !never_verb).map(|(lemma, form)| VerbAnalysis {
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
