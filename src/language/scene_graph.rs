//! Scene-graph parser: the objects, attributes and relations of a caption, as defined by SPICE (Anderson et al., ECCV
//! 2016, section 3.1), by rules after Schuster et al. (Workshop on Vision and Language 2015), without a dependency
//! parser.
//!
//! | caption | graph |
//! |---|---|
//! | adjective, number or noun before a noun | attribute: `two red fire hydrants` → `hydrant` is `two`, `red`, `fire` |
//! | adjective after `be` | attribute of the subject |
//! | verb without an object | attribute of the subject: `a dog sleeps` → `dog` is `sleep` |
//! | verb and object | relation: `woman`, `wear`, `hat` |
//! | verb, preposition, noun | relation: `boy`, `sit on`, `bench` |
//! | noun, preposition, noun | relation: `cup`, `on`, `table` |
//! | owner | relation: `man`, `have`, `shirt` |
//! | passive with `be` | objects only, as in SPICE |
//!
//! `it` refers to the first noun of the caption. Nouns of quantity (`a pair of shoes`) are no objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::chunker::{Chunk, NounPhrase, chunk};
use super::clause::ClauseReader;
use super::lexicon;
use super::lexicon::{Lexicon, PartOfSpeech};
use super::tagger::{PosTag, TaggedWord, list_contains, tag};
use pairloom_kernels::text::spice::SceneGraph;
use pairloom_kernels::text::tokenizer::Tokenizer;

/// Name and version of the parser. Graphs of different parsers are not comparable.
pub const PARSER_NAME: &str = "rules-2";

/// Treatment of a caption without a final period.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissingPeriod {
    /// Read as SPICE's parser does, misreadings included: scores are comparable with published ones.
    #[default]
    AsSpice,
    /// Read as if it had a period: graphs have the intended meaning.
    AsSentence,
}

impl MissingPeriod {
    /// Name of the parser with this treatment. Graphs of different parsers are not comparable.
    #[must_use]
    pub fn parser_name(self) -> String {
        match self {
            Self::AsSpice => PARSER_NAME.to_owned(),
            Self::AsSentence => format!("{PARSER_NAME}-as-sentences"),
        }
    }
}

/// Parses a caption as SPICE's parser does: [`parse_as`] with [`MissingPeriod::AsSpice`].
#[must_use]
pub fn parse(caption: &str) -> SceneGraph {
    parse_as(caption, MissingPeriod::AsSpice)
}

/// Parses a caption into its scene graph. Words are those of [`Tokenizer::Treebank`]. Cost: linear in the words.
///
/// The table above describes captions that end with a period; `missing_period` decides how others are read.
#[must_use]
pub fn parse_as(caption: &str, missing_period: MissingPeriod) -> SceneGraph {
    let mut words = Tokenizer::Treebank.tokenize(caption, true);
    if missing_period == MissingPeriod::AsSentence && !words.is_empty() {
        // A second period ends an empty sentence.
        words.push(".".to_owned());
    }
    let tagged = tag(Lexicon::wordnet(), &words);
    let mut graph = SceneGraph::default();
    for sentence in tagged.split_inclusive(|word| word.tag == PosTag::SentenceEnd) {
        ClauseReader::new(sentence, &mut graph).read(&chunk(sentence));
    }
    graph.deduplicated()
}

// Misreadings of sentence fragments: captions without a final period, read as SPICE's parser does.
//
// SPICE parses with Stanford CoreNLP, whose treebank has few bare noun phrases. If no period ends a caption, CoreNLP
// often reads `man riding a horse` as two unrelated nouns, `horse standing in a field` as a noun `standing`, and
// `sink in a bathroom` as an imperative, whose verb is no object. In `boy riding a bike in the park`, a noun phrase
// ends after the gerund and another one begins; `girl holding candy cane` is one noun phrase of four words.
//
// These readings occur systematically in its tuples. The graphs reproduce them, so that scores are comparable with
// those of SPICE. A caption that ends with a period is read correctly.

/// Reading of a gerund after a bare noun phrase.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GerundReading {
    /// A verb, with the noun phrase as its subject.
    Clause,
    /// A verb without relations: the nouns are unrelated.
    Unrelated,
    /// The head of the noun phrase.
    Noun,
    /// An attribute of the noun after the gerund.
    Attribute(String),
    /// An attribute of the noun after the gerund. The subjects are attributes of that noun too: `girl swinging tennis
    /// racket`.
    Compound(String),
    /// The end of a noun phrase, after which another begins: `a batter swinging | the bat at a game`.
    PhraseEnd,
}

/// Reading of the beginning of a fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FragmentOpening {
    /// A noun phrase.
    Subject,
    /// A noun that is read as a verb in the imperative.
    Imperative,
    /// The noun `man`, which the treebank also has as a verb: it stays an object.
    Man,
    /// A gerund that is read as a verb, not as an attribute.
    Gerund,
}

/// Gerunds that the treebank has as nouns.
const GERUND_NOUNS: &str = "standing walking swimming driving playing balancing skateboarding grazing";

/// Reading of the gerund `text` after bare `subjects` and before the chunks `rest`.
#[must_use]
pub fn classify_gerund(text: &str, subjects: &[&NounPhrase], rest: &[Chunk]) -> GerundReading {
    let next = rest.first();
    let place = match next {
        Some(Chunk::Other(place, PosTag::Preposition)) if place != "down" => Some(place.as_str()),
        _ => None,
    };
    let plural = subjects.first().is_some_and(|subject| subject.is_plural);
    let is_noun = |place| text != "walking" || place == "on" || place == "in" && plural;
    if list_contains(GERUND_NOUNS, text) && place.is_some_and(is_noun) {
        return GerundReading::Noun;
    }
    // The treebank has `wearing` only as a verb.
    if let Some(Chunk::NounPhrase(object)) = next
        && text != "wearing"
        && let Some(reading) = classify_before_object(text, subjects, object, &rest[1..])
    {
        return reading;
    }
    let several = |phrase: &NounPhrase| phrase.is_plural && !phrase.has_determiner && phrase.modifiers.is_empty();
    let together = |phrase: &&NounPhrase| {
        phrase.has_adjective_list
            || phrase.is_counted && phrase.is_group()
            || place.is_some() && (phrase.is_group() || several(phrase))
    };
    if subjects.iter().any(together) { GerundReading::Clause } else { GerundReading::Unrelated }
}

/// Reading of the gerund `text` before `object` and the chunks `rest`; `None` if it is a verb.
fn classify_before_object(
    text: &str,
    subjects: &[&NounPhrase],
    object: &NounPhrase,
    rest: &[Chunk],
) -> Option<GerundReading> {
    if object.has_determiner {
        let one = subjects.iter().all(|subject| !subject.is_plural && !subject.has_adjective_list);
        let place = match rest {
            [Chunk::Other(place, PosTag::Preposition), Chunk::NounPhrase(_), ..] => place != "of" && place != "with",
            _ => false,
        };
        return (one && place && !object.has_possessive).then_some(GerundReading::PhraseEnd);
    }
    if ["playing", "swinging"].contains(&text) && object.modifiers.is_empty() {
        return Some(GerundReading::Attribute(object.head.clone()));
    }
    let bare = |phrase: &&NounPhrase| !phrase.has_determiner && phrase.modifiers.is_empty() && phrase.head != "man";
    (object.is_compound && subjects.iter().all(bare)).then(|| GerundReading::Compound(object.head.clone()))
}

/// Reading of the first words of a caption without a period.
#[must_use]
pub fn classify_opening(words: &[TaggedWord]) -> FragmentOpening {
    let [first, second, ..] = words else { return FragmentOpening::Subject };
    let lexicon = Lexicon::wordnet();
    let gerund = first.text.ends_with("ing") && lexicon::verb_lemma(lexicon, &first.text).is_some();
    let verbs = lexicon.frequency(PartOfSpeech::Verb, &first.text).unwrap_or(0);
    let nouns = lexicon.frequency(PartOfSpeech::Noun, &first.text).unwrap_or(0);
    let command = verbs > 0 && verbs * 3 >= nouns;
    if (first.tag, second.tag) == (PosTag::Noun, PosTag::Gerund) && verbs > nouns {
        return FragmentOpening::Imperative;
    }
    if words
        .iter()
        .any(|word| matches!(word.tag, PosTag::Be | PosTag::ThirdPerson | PosTag::Verb | PosTag::Gerund | PosTag::Past))
    {
        return FragmentOpening::Subject;
    }
    match (first.tag, second.tag) {
        (PosTag::Adjective, PosTag::Noun) if gerund && !lexicon.is_gerund_compound(&first.text, &second.text) => {
            FragmentOpening::Gerund
        }
        (PosTag::Noun, PosTag::Preposition) if first.text == "man" => {
            if second.text == "in" {
                FragmentOpening::Man
            } else {
                FragmentOpening::Subject
            }
        }
        (PosTag::Noun, PosTag::Preposition) if gerund || command => FragmentOpening::Imperative,
        _ => FragmentOpening::Subject,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_period_can_be_added() {
        let relation = |graph: SceneGraph| graph.relations;
        let ride = ["man", "ride", "horse"].map(str::to_owned);
        let ride = vec![ride.into()];
        assert_eq!(relation(parse("man riding a horse")), []);
        assert_eq!(relation(parse_as("man riding a horse", MissingPeriod::AsSentence)), ride);
        for missing_period in [MissingPeriod::AsSpice, MissingPeriod::AsSentence] {
            assert_eq!(relation(parse_as("man riding a horse .", missing_period)), ride);
            assert_eq!(parse_as("", missing_period), SceneGraph::default());
        }
        assert_ne!(MissingPeriod::AsSpice.parser_name(), MissingPeriod::AsSentence.parser_name());
    }
}
