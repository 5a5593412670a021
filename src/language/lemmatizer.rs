//! Lemmatiser for nouns and verbs, after WordNet's `morphy`: irregular forms first, then the endings whose lemma is in
//! WordNet. Among several lemmas, the most frequent one is taken.

use super::lexicon::{Lexicon, PartOfSpeech};
use super::tags::list_contains;

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

#[cfg(test)]
mod tests {
    use super::*;

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
