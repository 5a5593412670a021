//! Lexicon: WordNet 3.0 in memory, with parts of speech and their frequencies, irregular forms, and synsets of several
//! words; and the lemmas of nouns and verbs, after WordNet's `morphy`: irregular forms first, then the endings whose lemma
//! is in WordNet. Among several lemmas, the most frequent one is taken. SPICE uses it as its dictionary.
//!
//! Fellbaum (ed.): WordNet: An Electronic Lexical Database, MIT Press 1998; data Copyright 2006 by Princeton
//! University, its licence in `data/wordnet/LICENSE`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::tagger::{COLORS, PosTag, closed_class_tag, list_contains};
use pairloom_kernels::text::spice::SpiceDictionary;

/// Part of speech in WordNet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PartOfSpeech {
    /// `dog`.
    Noun,
    /// `sit`.
    Verb,
    /// `red`.
    Adjective,
    /// `slowly`.
    Adverb,
}

/// Entry of a word as one part of speech.
#[derive(Debug, Clone)]
struct LexiconEntry {
    part: PartOfSpeech,
    count: u32,
    synsets: Vec<u32>,
}

/// The words of WordNet. [`Lexicon::wordnet`] reads them once.
#[derive(Debug)]
pub struct Lexicon {
    words: HashMap<&'static str, Vec<LexiconEntry>>,
    exceptions: HashMap<(PartOfSpeech, &'static str), &'static str>,
}

impl Lexicon {
    /// WordNet, from the tables that are compiled into the program.
    #[must_use]
    pub fn wordnet() -> &'static Self {
        static WORDNET: LazyLock<Lexicon> = LazyLock::new(|| {
            Lexicon::read(
                include_str!("../../data/wordnet/words.txt"),
                include_str!("../../data/wordnet/exceptions.txt"),
            )
        });
        &WORDNET
    }

    /// True if WordNet has `lemma`, as any part of speech.
    #[must_use]
    pub fn contains(&self, lemma: &str) -> bool {
        self.words.contains_key(lemma)
    }

    /// Frequency of `lemma` as `part` in WordNet's sense-tagged texts; `None` if WordNet does not have it as `part`.
    #[must_use]
    pub fn frequency(&self, part: PartOfSpeech, lemma: &str) -> Option<u32> {
        self.words.get(lemma)?.iter().find(|entry| entry.part == part).map(|entry| entry.count)
    }

    /// The lemma of an irregular form: `man` for `men`.
    #[must_use]
    pub fn irregular_lemma(&self, part: PartOfSpeech, form: &str) -> Option<&'static str> {
        self.exceptions.get(&(part, form)).copied()
    }

    /// Ids of the synsets of `lemma`, as any part of speech, that also have another word.
    pub fn shared_synsets(&self, lemma: &str) -> impl Iterator<Item = u32> {
        self.words.get(lemma).into_iter().flatten().flat_map(|entry| entry.synsets.iter().copied())
    }

    /// True if `first` and `second` form a compound noun in WordNet, as `parking lot` does. The tables have gerunds
    /// only.
    #[must_use]
    pub fn is_gerund_compound(&self, first: &str, second: &str) -> bool {
        self.contains(&format!("{first}_{second}"))
    }

    /// Reads `words`, lines `word n12:1a,2b v3` (part of speech, frequency, synset ids in base 16), and `exceptions`,
    /// lines `n men man`.
    fn read(words: &'static str, exceptions: &'static str) -> Self {
        let words = words.lines().map(|line| {
            let (word, fields) = line.split_once(' ').expect(MADE_BY_XTASK);
            (word, fields.split(' ').map(|field| parse_entry(field).expect(MADE_BY_XTASK)).collect())
        });
        let exceptions = exceptions.lines().map(|line| {
            let [letter, form, lemma] = line.split(' ').collect::<Vec<_>>()[..] else { panic!("{MADE_BY_XTASK}") };
            ((parse_part_of_speech(letter).expect(MADE_BY_XTASK), form), lemma)
        });
        Self { words: words.collect(), exceptions: exceptions.collect() }
    }
}

/// Panic message for malformed tables.
const MADE_BY_XTASK: &str = "the tables are part of the program, made by `cargo xtask wordnet`, and a test reads them";

fn parse_entry(field: &str) -> Option<LexiconEntry> {
    let (head, synsets) = field.split_once(':').unwrap_or((field, ""));
    let synsets = synsets.split(',').filter(|id| !id.is_empty());
    Some(LexiconEntry {
        part: parse_part_of_speech(head.get(..1)?)?,
        count: head.get(1..)?.parse().ok()?,
        synsets: synsets.map(|id| u32::from_str_radix(id, 16).ok()).collect::<Option<_>>()?,
    })
}

fn parse_part_of_speech(letter: &str) -> Option<PartOfSpeech> {
    match letter {
        "n" => Some(PartOfSpeech::Noun),
        "v" => Some(PartOfSpeech::Verb),
        "a" => Some(PartOfSpeech::Adjective),
        "r" => Some(PartOfSpeech::Adverb),
        _ => None,
    }
}

/// Plural nouns without a singular; they are their own lemma.
const PLURAL_ONLY: &str = "\
    pants shorts clothes goggles jeans scissors trousers tights pliers tongs binoculars overalls pajamas pyjamas \
    leggings suspenders fries briefs tweezers shears khakis capris sweatpants headquarters series species news \
    outskirts surroundings belongings graffiti";

/// The singular of the noun `form`; `None` if it is no plural.
#[must_use]
pub fn singular_of(lexicon: &Lexicon, form: &str) -> Option<String> {
    if list_contains(PLURAL_ONLY, form) || form == "people" {
        return Some(form.to_owned());
    }
    if let Some(lemma) = lexicon.irregular_lemma(PartOfSpeech::Noun, form)
        && lemma != form
    {
        return Some(lemma.to_owned());
    }
    if let Some(stem) = form.strip_suffix("men").filter(|stem| !stem.is_empty()) {
        let lemma = format!("{stem}man");
        return lexicon.frequency(PartOfSpeech::Noun, &lemma).map(|_| lemma);
    }
    let own = lexicon.frequency(PartOfSpeech::Noun, form);
    let singular = form.ends_with("ss") || own.is_some() && (form.ends_with("us") || form.ends_with("is"));
    if !form.ends_with('s') || form.len() < 4 || singular {
        return None;
    }
    let known = |lemma: String| {
        let count = lexicon.frequency(PartOfSpeech::Noun, &lemma)?;
        // `gas` is no plural of `ga`, which is never used.
        (count > 0 || own.is_none_or(|own| own <= 3)).then_some((count, lemma))
    };
    let mut found: Vec<(u32, String)> = Vec::new();
    for (ending, lemma) in [("ies", "y"), ("ves", "f"), ("ves", "fe"), ("es", ""), ("s", "")] {
        let Some(stem) = form.strip_suffix(ending) else { continue };
        if ending != "es" || takes_es(stem) {
            found.extend(known(format!("{stem}{lemma}")));
        }
    }
    found.into_iter().max_by_key(|(count, _)| *count).map(|(_, lemma)| lemma)
}

/// True if `stem` takes the ending `-es` instead of `-s`.
fn takes_es(stem: &str) -> bool {
    ["s", "x", "z", "ch", "sh", "o"].iter().any(|end| stem.ends_with(end))
}

/// True if the last consonant of `stem` is doubled before `-ed` and `-ing`: one syllable that ends with one vowel and
/// one consonant.
fn doubles_consonant(stem: &str) -> bool {
    let vowel = |byte: &u8| b"aeiou".contains(byte);
    match stem.as_bytes() {
        [start @ .., last_but_one, last] => {
            vowel(last_but_one) && !vowel(last) && !b"wxy".contains(last) && !start.iter().any(vowel)
        }
        _ => false,
    }
}

/// Inflected form of a verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VerbForm {
    /// `sit`.
    Base,
    /// `sits`.
    ThirdPerson,
    /// `sitting`.
    Gerund,
    /// `sat`, `parked`: past tense or participle.
    Past,
}

/// The lemma and inflection of the verb `form`; `None` if it is no verb.
#[must_use]
pub fn verb_lemma(lexicon: &Lexicon, form: &str) -> Option<(String, VerbForm)> {
    if let Some(lemma) = lexicon.irregular_lemma(PartOfSpeech::Verb, form)
        && lemma != form
    {
        let kind = if form.ends_with("ing") {
            VerbForm::Gerund
        } else if form.ends_with('s') && !lemma.ends_with('s') {
            VerbForm::ThirdPerson
        } else {
            VerbForm::Past
        };
        return Some((lemma.to_owned(), kind));
    }
    if lexicon.frequency(PartOfSpeech::Verb, form).is_some() {
        return Some((form.to_owned(), VerbForm::Base));
    }
    let endings: [(&str, &str, VerbForm); 9] = [
        ("ies", "y", VerbForm::ThirdPerson),
        ("es", "e", VerbForm::ThirdPerson),
        ("es", "", VerbForm::ThirdPerson),
        ("s", "", VerbForm::ThirdPerson),
        ("ied", "y", VerbForm::Past),
        ("ed", "e", VerbForm::Past),
        ("ed", "", VerbForm::Past),
        ("ing", "e", VerbForm::Gerund),
        ("ing", "", VerbForm::Gerund),
    ];
    let mut best: Option<(u32, String, VerbForm)> = None;
    for (ending, lemma, kind) in endings {
        let Some(stem) = form.strip_suffix(ending).filter(|stem| stem.len() >= 2) else { continue };
        // `planes` is no form of `plan`, and `striped` none of `strip`, whose consonant would be doubled.
        let impossible = match (ending, lemma) {
            ("es", "") => !takes_es(stem),
            ("ed" | "ing", "") => doubles_consonant(stem),
            _ => false,
        };
        if impossible {
            continue;
        }
        let lemma = format!("{stem}{lemma}");
        if let Some(count) = lexicon.frequency(PartOfSpeech::Verb, &lemma)
            && best.as_ref().is_none_or(|(known, ..)| count > *known)
        {
            best = Some((count, lemma, kind));
        }
    }
    best.map(|(_, lemma, kind)| (lemma, kind))
}

/// Words for sizes, as in SPICE's F-score of sizes.
const SIZES: &str = "\
    big bigger biggest enormous gigantic giant gargantuan huge immense large larger largest little long massive \
    mammoth medium mini miniature narrow short small smaller smallest tall thick thin tiny wide";

impl SpiceDictionary for Lexicon {
    fn synsets(&self, element: &str) -> Vec<u32> {
        self.shared_synsets(element).collect()
    }

    fn is_color(&self, attribute: &str) -> bool {
        list_contains(COLORS, attribute)
    }

    fn is_count(&self, attribute: &str) -> bool {
        closed_class_tag(attribute) == Some(PosTag::Number)
    }

    fn is_size(&self, attribute: &str) -> bool {
        list_contains(SIZES, attribute)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_agree_with_wordnet() {
        let wordnet = Lexicon::wordnet();
        assert_eq!((wordnet.words.len(), wordnet.exceptions.len()), (84_961, 5_827));
        // From WordNet's own index and counts.
        assert_eq!(wordnet.frequency(PartOfSpeech::Noun, "couch"), Some(5));
        assert_eq!(wordnet.frequency(PartOfSpeech::Verb, "couch"), Some(1));
        assert_eq!(wordnet.frequency(PartOfSpeech::Adjective, "couch"), None);
        assert_eq!(wordnet.irregular_lemma(PartOfSpeech::Noun, "geese"), Some("goose"));
        assert_eq!(wordnet.irregular_lemma(PartOfSpeech::Verb, "sat"), Some("sit"));
        assert!(wordnet.is_gerund_compound("parking", "lot"));
        assert!(!wordnet.is_gerund_compound("parking", "dog"));
    }

    #[test]
    fn synonyms_share_a_synset() {
        let share = |a, b| {
            Lexicon::wordnet().shared_synsets(a).any(|id| Lexicon::wordnet().shared_synsets(b).any(|other| other == id))
        };
        for (a, b) in [("couch", "sofa"), ("bicycle", "bike"), ("road", "route"), ("big", "large"), ("grey", "gray")] {
            assert!(share(a, b), "{a} {b}");
        }
        for (a, b) in [("couch", "dog"), ("dog", "cat"), ("red", "blue"), ("nosuchword", "couch")] {
            assert!(!share(a, b), "{a} {b}");
        }
    }

    #[test]
    fn plurals_have_their_singular() {
        let of = |form: &str| singular_of(Lexicon::wordnet(), form);
        for (form, lemma) in [
            ("dogs", "dog"),
            ("women", "woman"),
            ("children", "child"),
            ("leaves", "leaf"),
            ("knives", "knife"),
            ("buses", "bus"),
            ("skies", "sky"),
            ("skis", "ski"),
            ("glasses", "glass"),
            ("people", "people"),
            ("pants", "pants"),
        ] {
            assert_eq!(of(form).as_deref(), Some(lemma), "{form}");
        }
        for form in ["dog", "bus", "tennis", "grass", "gas", "is", "s", ""] {
            assert_eq!(of(form), None, "{form}");
        }
    }

    #[test]
    fn verb_forms_have_their_lemma() {
        for (form, lemma, kind) in [
            ("sit", "sit", VerbForm::Base),
            ("sits", "sit", VerbForm::ThirdPerson),
            ("flies", "fly", VerbForm::ThirdPerson),
            ("sitting", "sit", VerbForm::Gerund),
            ("riding", "ride", VerbForm::Gerund),
            ("staring", "stare", VerbForm::Gerund),
            ("lying", "lie", VerbForm::Gerund),
            ("parked", "park", VerbForm::Past),
            ("striped", "stripe", VerbForm::Past),
            ("ridden", "ride", VerbForm::Past),
        ] {
            assert_eq!(verb_lemma(Lexicon::wordnet(), form), Some((lemma.to_owned(), kind)), "{form}");
        }
        assert_eq!(verb_lemma(Lexicon::wordnet(), "giraffe"), None);
    }
}
