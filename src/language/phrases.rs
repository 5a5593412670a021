//! From tagged words to noun phrases and what stands between them.

use super::tagger::Word;
use super::tags::Tag;

/// A noun with what stands before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NounPhrase {
    /// Lemma of the noun.
    pub head: String,
    /// Lemmas of adjectives, numbers and nouns before it.
    pub modifiers: Vec<String>,
    /// Whether it begins with `a` or `the`.
    pub determined: bool,
    /// Whether the noun is a plural.
    pub plural: bool,
    /// Whether adjectives are listed in it: `blue and white bus`.
    pub listed: bool,
    /// Whether it is counted: `two dogs`.
    pub numbered: bool,
    /// Whether it begins with `his`.
    pub possessive: bool,
    /// Whose it is: `the man` of `the man 's shirt`.
    pub owner: Option<Box<NounPhrase>>,
}

impl NounPhrase {
    /// Whether it is people, or several that are counted.
    #[must_use]
    pub fn is_crowd(&self) -> bool {
        self.head == "people" || self.plural && self.numbered
    }
}

/// A part of a caption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// `a brown dog`.
    Noun(NounPhrase),
    /// `it`.
    Pronoun,
    /// Adjectives without a noun: `red and white` of `it is red and white`.
    State(Vec<String>),
    /// Any verb but `be`: lemma and form.
    Verb(String, Tag),
    /// Everything else: its text and tag.
    Other(String, Tag),
}

/// The parts of a caption, in order.
#[must_use]
pub fn items(words: &[Word]) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.tag {
            Tag::Noun | Tag::Plural | Tag::Determiner | Tag::Possessive | Tag::Number | Tag::Adjective => {
                let (item, length) = noun_phrase(&words[at..]);
                at += length;
                items.extend(item);
                continue;
            }
            Tag::Owner => {
                // The owner is part of the phrase behind it; without one it is a slip for `is`.
                let (item, length) = noun_phrase(&words[at + 1..]);
                if let (Some(Item::Noun(mut owned)), Some(Item::Noun(_))) = (item, items.last()) {
                    let Some(Item::Noun(owner)) = items.pop() else { unreachable!("it was just seen") };
                    owned.owner = Some(Box::new(owner));
                    owned.determined = true;
                    items.push(Item::Noun(owned));
                    at += 1 + length;
                    continue;
                }
                items.push(Item::Other(word.text.clone(), Tag::Be));
            }
            Tag::Pronoun => items.push(Item::Pronoun),
            Tag::Verb | Tag::Third | Tag::Ing | Tag::Past => items.push(Item::Verb(word.lemma.clone(), word.tag)),
            Tag::Adverb => {}
            tag => items.push(Item::Other(word.lemma.clone(), tag)),
        }
        at += 1;
    }
    items
}

/// The noun phrase that `words` begin with, and how many words it takes.
fn noun_phrase(words: &[Word]) -> (Option<Item>, usize) {
    let tag = |at: usize| words.get(at).map(|word| word.tag);
    let mut end = 0;
    let mut nouns: Option<usize> = None;
    let mut parts: Vec<usize> = Vec::new();
    let (mut determined, mut possessive) = (false, false);
    while let Some(found) = tag(end) {
        match found {
            Tag::Determiner | Tag::Possessive if parts.is_empty() => {
                determined = true;
                possessive |= found == Tag::Possessive;
            }
            Tag::Noun | Tag::Plural => {
                nouns = Some(end);
                parts.push(end);
            }
            Tag::Number if nouns.is_none() => parts.push(end),
            // The number of a thing that has one, as in `number 12`.
            Tag::Number => {}
            Tag::Adjective if nouns.is_none() || matches!(tag(end + 1), Some(Tag::Noun | Tag::Plural)) => parts.push(end),
            Tag::Adverb if nouns.is_none() && matches!(tag(end + 1), Some(Tag::Adjective | Tag::Number | Tag::Adverb)) => {}
            // Adjectives that are listed: `red , white and blue`.
            Tag::Comma | Tag::Conjunction if nouns.is_none() && !parts.is_empty() => {
                let next = (end + 1..).find(|at| !matches!(tag(*at), Some(Tag::Comma | Tag::Conjunction | Tag::Adverb)));
                match next {
                    Some(next) if tag(next) == Some(Tag::Adjective) => end = next - 1,
                    _ => break,
                }
            }
            _ => break,
        }
        end += 1;
    }
    let lemma = |at: usize| words[at].lemma.clone();
    let Some(head) = nouns else {
        if parts.is_empty() {
            return (None, end.max(1));
        }
        return (Some(Item::State(parts.into_iter().map(lemma).collect())), end);
    };
    let modifiers = parts.iter().filter(|part| **part < head).map(|part| lemma(*part)).collect();
    let plural = words[head].tag == Tag::Plural;
    let numbered = words[..end].iter().any(|word| word.tag == Tag::Number);
    let listed = words[..head].iter().any(|word| matches!(word.tag, Tag::Conjunction | Tag::Comma));
    let phrase = NounPhrase { listed, numbered, head: lemma(head), modifiers, determined, plural, possessive, owner: None };
    (Some(Item::Noun(phrase)), end)
}
