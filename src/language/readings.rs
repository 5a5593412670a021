//! What a word of an open class can be, by WordNet, before its neighbours are asked.

use super::lemmas::{self, Form};
use super::lexicon::{Lexicon, Part};
use super::tags::{COLORS, among};

/// Parts of speech that a word can have, with their frequencies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Readings {
    /// As a noun, of either number.
    pub noun: Option<u32>,
    /// The lemma, where the noun is a plural.
    pub plural: Option<String>,
    /// As a verb.
    pub verb: Option<VerbReading>,
    /// As an adjective, of any degree.
    pub adjective: Option<u32>,
    /// As an adverb.
    pub adverb: Option<u32>,
    /// Whether it is a gerund that names a thing: `building`.
    pub thing: bool,
    /// Whether it is a gerund that makes a noun with the next word, as in `parking lot`.
    pub compound: bool,
}

/// A word as a verb.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerbReading {
    /// How often the verb was seen, in any form.
    pub count: u32,
    /// The verb.
    pub lemma: String,
    /// Its form.
    pub form: Form,
}

/// Gerunds that name things rather than what somebody does.
const THINGS: &str = "\
    building painting drawing writing wedding opening landing carving engraving etching molding moulding padding \
    seasoning serving wiring piping roofing decking piercing matting netting rigging seating shelving stocking \
    tiling frosting icing topping siding lighting flooring dressing stuffing bedding covering railing clothing \
    ceiling clearing crossing lettering fencing paneling marking tubing";

/// Nouns that end like gerunds.
const NO_GERUNDS: &str = "thing something anything nothing everything plaything clothing ceiling";

/// Participles of verbs that are seen less often are adjectives in the treebank.
const RARE: u32 = 13;

impl Readings {
    /// What `word` can be.
    #[must_use]
    pub fn of(lexicon: &Lexicon, word: &str) -> Self {
        let plural = lemmas::plural(lexicon, word);
        let own = lexicon.count(Part::Noun, word);
        let noun = match &plural {
            Some(lemma) => Some(lexicon.count(Part::Noun, lemma).unwrap_or(1).max(own.unwrap_or(0))),
            None => own,
        };
        // `pants` is no form of `pant`, and `something` none of a verb.
        let never_verb = plural.as_deref() == Some(word) || among(NO_GERUNDS, word);
        let verb = lemmas::verb(lexicon, word).filter(|_| !never_verb).map(|(lemma, form)| VerbReading {
            count: lexicon.count(Part::Verb, &lemma).unwrap_or(0),
            lemma,
            form,
        });
        let mut found = Self {
            noun,
            plural,
            verb,
            adjective: lexicon.count(Part::Adjective, word).or_else(|| compared(lexicon, word)),
            adverb: lexicon.count(Part::Adverb, word),
            thing: among(THINGS, word),
            compound: false,
        };
        if among(COLORS, word) {
            found.adjective = found.adjective.max(found.noun);
        }
        if found.noun.is_none() && found.verb.is_none() && found.adjective.is_none() && found.adverb.is_none() {
            found.guess(word);
        }
        found
    }

    /// The form that it has as a verb.
    #[must_use]
    pub fn form(&self) -> Option<Form> {
        self.verb.as_ref().map(|verb| verb.form)
    }

    /// The lemma of a participle before a noun: of `painted` it is `paint`, but `curved` is an adjective.
    #[must_use]
    pub fn modifier<'a>(&'a self, word: &'a str) -> &'a str {
        let Some(verb) = &self.verb else { return word };
        let adjective = match verb.form {
            Form::Ing => {
                self.adjective.is_some_and(|count| count >= 3)
                    || self.noun.is_some() && verb.count < 10
                    || self.compound
            }
            Form::Past => {
                let regular = word.ends_with("ed");
                !regular
                    || verb.count < RARE
                    || self.noun.is_some()
                    || self.adjective.is_some_and(|count| count >= verb.count)
            }
            Form::Base | Form::Third => true,
        };
        if adjective { word } else { &verb.lemma }
    }

    /// A word that WordNet lacks: its ending says what it is.
    fn guess(&mut self, word: &str) {
        let stem = |ending: &str| word.strip_suffix(ending).filter(|stem| stem.chars().count() >= 3);
        let verb = |stem: &str, form| Some(VerbReading { count: 0, lemma: stem.to_owned(), form });
        if word.contains('-') || stem("ish").is_some() {
            self.adjective = Some(1);
            self.noun = Some(1);
        } else if let Some(stem) = stem("ing").filter(|_| !word.ends_with("thing")) {
            self.verb = verb(stem, Form::Ing);
            self.noun = Some(0);
        } else if let Some(stem) = stem("ed") {
            self.verb = verb(stem, Form::Past);
        } else if stem("ly").is_some() {
            self.adverb = Some(1);
        } else if let Some(stem) = stem("s").filter(|stem| !stem.ends_with(['s', 'u', 'i'])) {
            self.noun = Some(1);
            self.plural = Some(stem.to_owned());
        } else {
            self.noun = Some(1);
        }
    }
}

/// Frequency of the adjective whose comparative or superlative `word` is.
fn compared(lexicon: &Lexicon, word: &str) -> Option<u32> {
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
