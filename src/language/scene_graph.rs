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

use super::chunker::chunk;
use super::clause::ClauseReader;
use super::lexicon::Lexicon;
use super::tagger::tag;
use super::tags::PosTag;
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
