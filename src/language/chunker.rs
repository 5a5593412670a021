//! Chunker: groups tagged words into noun phrases and the words between them.

use super::tagger::PosTag;
use super::tagger::TaggedWord;

/// A chunk of a caption: a noun phrase, or a word between noun phrases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// A noun phrase: `a brown dog`.
    NounPhrase(NounPhrase),
    /// A pronoun: `it`.
    Pronoun,
    /// Adjectives without a noun: `red and white` in `it is red and white`.
    Adjectives(Vec<String>),
    /// A verb other than `be`.
    Verb {
        /// The word in the caption.
        text: String,
        /// Its lemma.
        lemma: String,
        /// Its tag, one of those of verbs.
        form: PosTag,
    },
    /// Any other word: its lemma and tag.
    Other(String, PosTag),
}

/// Noun phrase: a noun and its modifiers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NounPhrase {
    /// Lemma of the head noun.
    pub head: String,
    /// Lemmas of the adjectives, numbers and nouns before the head.
    pub modifiers: Vec<String>,
    /// True if it begins with a determiner (`the`), a possessive (`his`) or an owner.
    pub has_determiner: bool,
    /// True if it begins with a possessive (`his`).
    pub has_possessive: bool,
    /// True if the head is a plural.
    pub is_plural: bool,
    /// True if it has a number: `two dogs`.
    pub is_counted: bool,
    /// True if it has a list of adjectives: `blue and white bus`.
    pub has_adjective_list: bool,
    /// True if the word before the head is a noun: `tennis racket`.
    pub is_compound: bool,
    /// Owners, outermost first: `the man`, `the shirt` for `the man 's shirt 's button`.
    pub owners: Vec<NounPhrase>,
}

impl NounPhrase {
    /// True if it is a single word in the singular.
    #[must_use]
    pub fn is_bare(&self) -> bool {
        !self.has_determiner && !self.is_plural && self.modifiers.is_empty()
    }

    /// True if the head is `people` or a plural with a number.
    #[must_use]
    pub fn is_group(&self) -> bool {
        self.head == "people" || self.is_plural && self.is_counted
    }
}

impl Chunk {
    /// True for the preposition `text`.
    #[must_use]
    pub fn is_preposition(&self, text: &str) -> bool {
        matches!(self, Self::Other(own, PosTag::Preposition) if own == text)
    }
}

/// Groups the words of a caption into chunks.
#[must_use]
pub fn chunk(words: &[TaggedWord]) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        match word.tag {
            PosTag::Noun
            | PosTag::Plural
            | PosTag::Determiner
            | PosTag::Possessive
            | PosTag::Number
            | PosTag::Adjective => {
                let (chunk, length) = read_noun_phrase(&words[at..]);
                chunks.extend(chunk);
                at += length;
            }
            PosTag::PossessiveMarker => {
                let (chunk, length) = read_noun_phrase(&words[at + 1..]);
                // The owner is part of the noun phrase after it. Without one, `'s` is a verb.
                let taken = match (chunk, chunks.last_mut()) {
                    (Some(Chunk::NounPhrase(owned)), Some(Chunk::NounPhrase(owner))) => {
                        attach_owner(owned, owner);
                        length
                    }
                    _ => {
                        chunks.push(Chunk::Other(word.text.clone(), PosTag::Be));
                        0
                    }
                };
                at += 1 + taken;
            }
            PosTag::Adverb => at += 1,
            tag => {
                chunks.push(match tag {
                    PosTag::Pronoun => Chunk::Pronoun,
                    PosTag::Verb | PosTag::ThirdPerson | PosTag::Gerund | PosTag::Past => {
                        Chunk::Verb { text: word.text.clone(), lemma: word.lemma.clone(), form: tag }
                    }
                    _ => Chunk::Other(word.lemma.clone(), tag),
                });
                at += 1;
            }
        }
    }
    chunks
}

/// Replaces `owner` by `owned`, and adds it to the owners of `owned`.
fn attach_owner(mut owned: NounPhrase, owner: &mut NounPhrase) {
    let mut owners = std::mem::take(&mut owner.owners);
    owners.push(std::mem::take(owner));
    owned.has_determiner = true;
    owned.owners = owners;
    *owner = owned;
}

/// Reads the noun phrase, or the adjectives, at the start of `words`. Returns also the number of words read, at least
/// 1.
fn read_noun_phrase(words: &[TaggedWord]) -> (Option<Chunk>, usize) {
    let tag = |at: usize| words.get(at).map(|word| word.tag);
    let mut end = 0;
    let mut head: Option<usize> = None;
    let mut parts: Vec<usize> = Vec::new();
    let mut phrase = NounPhrase::default();
    while let Some(found) = tag(end) {
        match found {
            PosTag::Determiner | PosTag::Possessive if parts.is_empty() => {
                phrase.has_determiner = true;
                phrase.has_possessive |= found == PosTag::Possessive;
            }
            PosTag::Noun | PosTag::Plural => {
                head = Some(end);
                parts.push(end);
            }
            // After the head, as in `number 12`, a number is no modifier.
            PosTag::Number => {
                phrase.is_counted = true;
                if head.is_none() {
                    parts.push(end);
                }
            }
            PosTag::Adjective if head.is_none() || matches!(tag(end + 1), Some(PosTag::Noun | PosTag::Plural)) => {
                parts.push(end);
            }
            PosTag::Adverb
                if head.is_none()
                    && matches!(tag(end + 1), Some(PosTag::Adjective | PosTag::Number | PosTag::Adverb)) => {}
            // A list of adjectives: `red , white and blue`.
            PosTag::Comma | PosTag::Conjunction if head.is_none() && !parts.is_empty() => {
                let between =
                    |word: &&TaggedWord| matches!(word.tag, PosTag::Comma | PosTag::Conjunction | PosTag::Adverb);
                let last = end + words[end + 1..].iter().take_while(between).count();
                if tag(last + 1) != Some(PosTag::Adjective) {
                    break;
                }
                phrase.has_adjective_list = true;
                end = last;
            }
            _ => break,
        }
        end += 1;
    }
    let lemma = |at: usize| words[at].lemma.clone();
    let Some(head) = head else {
        let state = (!parts.is_empty()).then(|| Chunk::Adjectives(parts.into_iter().map(lemma).collect()));
        return (state, end.max(1));
    };
    phrase.head = lemma(head);
    phrase.is_plural = words[head].tag == PosTag::Plural;
    phrase.is_compound = head > 0 && matches!(words[head - 1].tag, PosTag::Noun | PosTag::Plural);
    phrase.modifiers = parts.into_iter().filter(|part| *part < head).map(lemma).collect();
    (Some(Chunk::NounPhrase(phrase)), end)
}
