//! From tagged words to noun phrases and what stands between them.

use super::tagger::Word;
use super::tags::Tag;

/// A part of a caption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item {
    /// `a brown dog`.
    Noun(NounPhrase),
    /// `it`.
    Pronoun,
    /// Adjectives without a noun: `red and white` of `it is red and white`.
    State(Vec<String>),
    /// Any verb but `be`.
    Verb {
        /// As it stands in the caption.
        text: String,
        /// The verb.
        lemma: String,
        /// One of the tags of verbs.
        form: Tag,
    },
    /// Everything else: its lemma and tag.
    Other(String, Tag),
}

/// A noun with what stands before it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NounPhrase {
    /// Lemma of the noun.
    pub head: String,
    /// Lemmas of adjectives, numbers and nouns before it.
    pub modifiers: Vec<String>,
    /// Whether it begins with a word like `the` or `his`, or with an owner.
    pub determined: bool,
    /// Whether it begins with a word like `his`.
    pub possessive: bool,
    /// Whether the noun is a plural.
    pub plural: bool,
    /// Whether it is counted: `two dogs`.
    pub numbered: bool,
    /// Whether adjectives are listed in it: `blue and white bus`.
    pub listed: bool,
    /// Whether the word before the noun is one: `tennis racket`.
    pub compound: bool,
    /// Whose it is, the owner of the owner first: `the man`, `the shirt` of `the man 's shirt 's button`.
    pub owners: Vec<NounPhrase>,
}

impl NounPhrase {
    /// Whether it is a single word that names one thing.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        !self.determined && !self.plural && self.modifiers.is_empty()
    }

    /// Whether it is people, or several that are counted.
    #[must_use]
    pub fn is_crowd(&self) -> bool {
        self.head == "people" || self.plural && self.numbered
    }
}

impl Item {
    /// Whether it is the preposition `text`.
    #[must_use]
    pub fn is_preposition(&self, text: &str) -> bool {
        matches!(self, Self::Other(own, Tag::Preposition) if own == text)
    }
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
                items.extend(item);
                at += length;
            }
            Tag::Owner => {
                let (item, length) = noun_phrase(&words[at + 1..]);
                // The owner is part of the phrase behind it; where there is none, `'s` is a verb.
                let taken = match (item, items.last_mut()) {
                    (Some(Item::Noun(owned)), Some(Item::Noun(owner))) => {
                        own(owned, owner);
                        length
                    }
                    _ => {
                        items.push(Item::Other(word.text.clone(), Tag::Be));
                        0
                    }
                };
                at += 1 + taken;
            }
            Tag::Adverb => at += 1,
            tag => {
                items.push(match tag {
                    Tag::Pronoun => Item::Pronoun,
                    Tag::Verb | Tag::Third | Tag::Ing | Tag::Past => {
                        Item::Verb { text: word.text.clone(), lemma: word.lemma.clone(), form: tag }
                    }
                    _ => Item::Other(word.lemma.clone(), tag),
                });
                at += 1;
            }
        }
    }
    items
}

/// Puts `owned` in the place of its owner.
fn own(mut owned: NounPhrase, owner: &mut NounPhrase) {
    let mut owners = std::mem::take(&mut owner.owners);
    owners.push(std::mem::take(owner));
    owned.determined = true;
    owned.owners = owners;
    *owner = owned;
}

/// The noun phrase that `words` begin with, and how many words it takes: at least one, but of no words.
fn noun_phrase(words: &[Word]) -> (Option<Item>, usize) {
    let tag = |at: usize| words.get(at).map(|word| word.tag);
    let mut end = 0;
    let mut head: Option<usize> = None;
    let mut parts: Vec<usize> = Vec::new();
    let mut phrase = NounPhrase::default();
    while let Some(found) = tag(end) {
        match found {
            Tag::Determiner | Tag::Possessive if parts.is_empty() => {
                phrase.determined = true;
                phrase.possessive |= found == Tag::Possessive;
            }
            Tag::Noun | Tag::Plural => {
                head = Some(end);
                parts.push(end);
            }
            // Behind a noun it is its number, as in `number 12`.
            Tag::Number => {
                phrase.numbered = true;
                if head.is_none() {
                    parts.push(end);
                }
            }
            Tag::Adjective if head.is_none() || matches!(tag(end + 1), Some(Tag::Noun | Tag::Plural)) => {
                parts.push(end);
            }
            Tag::Adverb
                if head.is_none() && matches!(tag(end + 1), Some(Tag::Adjective | Tag::Number | Tag::Adverb)) => {}
            // Adjectives that are listed: `red , white and blue`.
            Tag::Comma | Tag::Conjunction if head.is_none() && !parts.is_empty() => {
                let between = |word: &&Word| matches!(word.tag, Tag::Comma | Tag::Conjunction | Tag::Adverb);
                let last = end + words[end + 1..].iter().take_while(between).count();
                if tag(last + 1) != Some(Tag::Adjective) {
                    break;
                }
                phrase.listed = true;
                end = last;
            }
            _ => break,
        }
        end += 1;
    }
    let lemma = |at: usize| words[at].lemma.clone();
    let Some(head) = head else {
        let state = (!parts.is_empty()).then(|| Item::State(parts.into_iter().map(lemma).collect()));
        return (state, end.max(1));
    };
    phrase.head = lemma(head);
    phrase.plural = words[head].tag == Tag::Plural;
    phrase.compound = head > 0 && matches!(words[head - 1].tag, Tag::Noun | Tag::Plural);
    phrase.modifiers = parts.into_iter().filter(|part| *part < head).map(lemma).collect();
    (Some(Item::Noun(phrase)), end)
}
