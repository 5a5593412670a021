//! Captions that are no sentences, as a parser trained on sentences reads them.
//!
//! SPICE parses with Stanford CoreNLP, whose treebank has few noun phrases on their own. Where no period ends a caption,
//! it often takes `man riding a horse` for two nouns side by side, `horse standing in a field` for a thing called
//! `standing`, and `sink in a bathroom` for a command, whose verb is no thing. In `boy riding a bike in the park` a
//! noun phrase ends behind the gerund and another begins; in `girl holding candy cane` all four words are one. These are
//! habits that its tuples show again and again, and the graphs follow them, so that scores compare with SPICE's; a
//! caption that ends with a period is read as it is meant.

use super::lemmas;
use super::lexicon::{Lexicon, Part};
use super::phrases::{Item, NounPhrase};
use super::tagger::Word;
use super::tags::{Tag, among};

/// What a bare noun phrase and a gerund behind it are taken for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// A thing and what it does.
    Clause,
    /// Things side by side, with no relation.
    Apart,
    /// A noun phrase whose noun is the gerund.
    Noun,
    /// An attribute of the noun behind the gerund.
    Attribute(String),
    /// As the subjects an attribute of the noun behind the gerund: `girl swinging tennis racket`.
    Compound(String),
    /// The end of a noun phrase behind which another begins: `a batter swinging | the bat at a game`.
    End,
}

/// How the caption begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opening {
    /// With what it is about.
    Thing,
    /// With a noun that is taken for a verb.
    Command,
    /// With `man`, which is a verb in the treebank too, but mostly a thing.
    Man,
    /// With a gerund that is taken for a verb, not for an attribute.
    Gerund,
}

/// Gerunds that are nouns in the treebank.
const NOUNS: &str = "standing walking swimming driving playing balancing skateboarding grazing";

/// What the gerund `text` with `rest` behind it is, after bare `subjects`.
#[must_use]
pub fn reading(text: &str, subjects: &[&NounPhrase], rest: &[Item]) -> Reading {
    let next = rest.first();
    let place = match next {
        Some(Item::Other(place, Tag::Preposition)) if place != "down" => Some(place.as_str()),
        _ => None,
    };
    let plural = subjects.first().is_some_and(|subject| subject.plural);
    let is_noun = |place| text != "walking" || place == "on" || place == "in" && plural;
    if among(NOUNS, text) && place.is_some_and(is_noun) {
        return Reading::Noun;
    }
    // `wearing` is nothing but a verb in the treebank.
    if let Some(Item::Noun(object)) = next
        && text != "wearing"
        && let Some(reading) = before_object(text, subjects, object, &rest[1..])
    {
        return reading;
    }
    let several = |phrase: &NounPhrase| phrase.plural && !phrase.determined && phrase.modifiers.is_empty();
    let together = |phrase: &&NounPhrase| {
        phrase.listed
            || phrase.numbered && phrase.is_crowd()
            || place.is_some() && (phrase.is_crowd() || several(phrase))
    };
    if subjects.iter().any(together) { Reading::Clause } else { Reading::Apart }
}

/// What the gerund `text` is, if no verb, where `object` and then `rest` is behind it.
fn before_object(text: &str, subjects: &[&NounPhrase], object: &NounPhrase, rest: &[Item]) -> Option<Reading> {
    if object.determined {
        let one = subjects.iter().all(|subject| !subject.plural && !subject.listed);
        let place = match rest {
            [Item::Other(place, Tag::Preposition), Item::Noun(_), ..] => place != "of" && place != "with",
            _ => false,
        };
        return (one && place && !object.possessive).then_some(Reading::End);
    }
    if ["playing", "swinging"].contains(&text) && object.modifiers.is_empty() {
        return Some(Reading::Attribute(object.head.clone()));
    }
    let bare = |phrase: &&NounPhrase| !phrase.determined && phrase.modifiers.is_empty() && phrase.head != "man";
    (object.compound && subjects.iter().all(bare)).then(|| Reading::Compound(object.head.clone()))
}

/// How the words of a caption without a period begin.
#[must_use]
pub fn opening(words: &[Word]) -> Opening {
    let [first, second, ..] = words else { return Opening::Thing };
    let lexicon = Lexicon::wordnet();
    let gerund = first.text.ends_with("ing") && lemmas::verb(lexicon, &first.text).is_some();
    let verbs = lexicon.count(Part::Verb, &first.text).unwrap_or(0);
    let nouns = lexicon.count(Part::Noun, &first.text).unwrap_or(0);
    let command = verbs > 0 && verbs * 3 >= nouns;
    if (first.tag, second.tag) == (Tag::Noun, Tag::Ing) && verbs > nouns {
        return Opening::Command;
    }
    if words.iter().any(|word| matches!(word.tag, Tag::Be | Tag::Third | Tag::Verb | Tag::Ing | Tag::Past)) {
        return Opening::Thing;
    }
    match (first.tag, second.tag) {
        (Tag::Adjective, Tag::Noun) if gerund && !lexicon.is_gerund_compound(&first.text, &second.text) => {
            Opening::Gerund
        }
        (Tag::Noun, Tag::Preposition) if first.text == "man" => {
            if second.text == "in" {
                Opening::Man
            } else {
                Opening::Thing
            }
        }
        (Tag::Noun, Tag::Preposition) if gerund || command => Opening::Command,
        _ => Opening::Thing,
    }
}
