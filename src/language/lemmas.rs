//! From a form of a word to its lemma: WordNet's irregular forms first, then endings whose lemma WordNet knows (the way
//! of its `morphy`); of several lemmas the most frequent one.

use super::lexicon::{Lexicon, Part};
use super::tags::among;

/// Plural nouns that name one thing and keep their form.
const PLURAL_ONLY: &str = "\
    pants shorts clothes goggles jeans scissors trousers tights pliers tongs binoculars overalls pajamas pyjamas \
    leggings suspenders fries briefs tweezers shears khakis capris sweatpants headquarters series species news \
    outskirts surroundings belongings graffiti";

/// The lemma of `form` as a plural noun, or nothing where it is no plural.
#[must_use]
pub fn plural(lexicon: &Lexicon, form: &str) -> Option<String> {
    if among(PLURAL_ONLY, form) || form == "people" {
        return Some(form.to_owned());
    }
    if let Some(lemma) = lexicon.exception(Part::Noun, form)
        && lemma != form
    {
        return Some(lemma.to_owned());
    }
    if let Some(stem) = form.strip_suffix("men").filter(|stem| !stem.is_empty()) {
        let lemma = format!("{stem}man");
        return lexicon.count(Part::Noun, &lemma).map(|_| lemma);
    }
    let own = lexicon.count(Part::Noun, form);
    let singular = form.ends_with("ss") || own.is_some() && (form.ends_with("us") || form.ends_with("is"));
    if !form.ends_with('s') || form.len() < 4 || singular {
        return None;
    }
    let known = |lemma: String| {
        let count = lexicon.count(Part::Noun, &lemma)?;
        // `gas` is no plural of `ga`, which nobody uses.
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

/// Whether `-es`, not `-s`, follows `stem`.
fn takes_es(stem: &str) -> bool {
    ["s", "x", "z", "ch", "sh", "o"].iter().any(|end| stem.ends_with(end))
}

/// Whether the last consonant of `stem` is doubled before `-ed` and `-ing`: one syllable, one vowel, one consonant.
fn doubles(stem: &str) -> bool {
    let vowel = |byte: &u8| b"aeiou".contains(byte);
    match stem.as_bytes() {
        [start @ .., last_but_one, last] => {
            vowel(last_but_one) && !vowel(last) && !b"wxy".contains(last) && !start.iter().any(vowel)
        }
        _ => false,
    }
}

/// How a verb is inflected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `sit`.
    Base,
    /// `sits`.
    Third,
    /// `sitting`.
    Ing,
    /// `sat`, `parked`: past tense or participle.
    Past,
}

/// The lemma of `form` as a verb and its form, or nothing where it is no verb.
#[must_use]
pub fn verb(lexicon: &Lexicon, form: &str) -> Option<(String, Form)> {
    if let Some(lemma) = lexicon.exception(Part::Verb, form)
        && lemma != form
    {
        let kind = if form.ends_with("ing") {
            Form::Ing
        } else if form.ends_with('s') && !lemma.ends_with('s') {
            Form::Third
        } else {
            Form::Past
        };
        return Some((lemma.to_owned(), kind));
    }
    if lexicon.count(Part::Verb, form).is_some() {
        return Some((form.to_owned(), Form::Base));
    }
    let endings: [(&str, &str, Form); 9] = [
        ("ies", "y", Form::Third),
        ("es", "e", Form::Third),
        ("es", "", Form::Third),
        ("s", "", Form::Third),
        ("ied", "y", Form::Past),
        ("ed", "e", Form::Past),
        ("ed", "", Form::Past),
        ("ing", "e", Form::Ing),
        ("ing", "", Form::Ing),
    ];
    let mut best: Option<(u32, String, Form)> = None;
    for (ending, lemma, kind) in endings {
        let Some(stem) = form.strip_suffix(ending).filter(|stem| stem.len() >= 2) else { continue };
        // `planes` is not of `plan`, and `striped` not of `strip`, whose consonant would be doubled.
        let impossible = match (ending, lemma) {
            ("es", "") => !takes_es(stem),
            ("ed" | "ing", "") => doubles(stem),
            _ => false,
        };
        if impossible {
            continue;
        }
        let lemma = format!("{stem}{lemma}");
        if let Some(count) = lexicon.count(Part::Verb, &lemma)
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
    fn plurals_become_singular() {
        let of = |form: &str| plural(Lexicon::wordnet(), form);
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
    fn verbs_lose_their_endings() {
        for (form, lemma, kind) in [
            ("sit", "sit", Form::Base),
            ("sits", "sit", Form::Third),
            ("flies", "fly", Form::Third),
            ("sitting", "sit", Form::Ing),
            ("riding", "ride", Form::Ing),
            ("staring", "stare", Form::Ing),
            ("lying", "lie", Form::Ing),
            ("parked", "park", Form::Past),
            ("striped", "stripe", Form::Past),
            ("ridden", "ride", Form::Past),
        ] {
            assert_eq!(verb(Lexicon::wordnet(), form), Some((lemma.to_owned(), kind)), "{form}");
        }
        assert_eq!(verb(Lexicon::wordnet(), "giraffe"), None);
    }
}
