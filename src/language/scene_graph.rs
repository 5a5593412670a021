//! From a caption to its scene graph: objects, attributes and relations, as SPICE has them (Anderson et al., ECCV 2016,
//! section 3.1; rules after Schuster et al., Workshop on Vision and Language 2015), without a dependency parser.
//!
//! | caption | graph |
//! |---|---|
//! | adjective, number or noun before a noun | attribute: `two red fire hydrants` → `hydrant` is `two`, `red`, `fire` |
//! | adjective behind `be` | attribute of the subject |
//! | verb without an object | attribute of the subject: `a dog sleeps` → `dog` is `sleep` |
//! | verb and object | relation: `woman`, `wear`, `hat` |
//! | verb, preposition, noun | relation: `boy`, `sit on`, `bench` |
//! | noun, preposition, noun | relation: `cup`, `on`, `table` |
//! | owner | relation: `man`, `have`, `shirt` |
//! | passive with `be` | objects only, as in SPICE |
//!
//! `it` is what the caption is about. Words of quantity (`a pair of shoes`) are no objects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::clause::Clause;
use super::lexicon::Lexicon;
use super::phrases::items;
use super::tagger::tag;
use super::tags::Tag;
use crate::kernels::text::spice::SceneGraph;
use crate::kernels::text::tokens::Tokenizer;

/// Name and version of these rules: graphs of different ones do not compare.
pub const NAME: &str = "rules-2";

/// How a caption without a final period is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnfinishedCaption {
    /// As SPICE's parser reads it, misreadings included: scores compare with published ones.
    #[default]
    AsSpice,
    /// As if the period were there: graphs say what people mean.
    AsSentence,
}

impl UnfinishedCaption {
    /// The name of the parser that reads so: graphs of different ones do not compare.
    #[must_use]
    pub fn parser(self) -> String {
        match self {
            Self::AsSpice => NAME.to_owned(),
            Self::AsSentence => format!("{NAME}-as-sentences"),
        }
    }
}

/// The scene graph of `caption` as SPICE's parser would read it: [`parse_as`] with [`UnfinishedCaption::AsSpice`].
#[must_use]
pub fn parse(caption: &str) -> SceneGraph {
    parse_as(caption, UnfinishedCaption::AsSpice)
}

/// The scene graph of `caption`, cut into words by [`Tokenizer::Treebank`]. Cost: linear in the words.
///
/// The table above is of captions that end with a period; what others are taken for is `unfinished`'s to say.
#[must_use]
pub fn parse_as(caption: &str, unfinished: UnfinishedCaption) -> SceneGraph {
    let mut words = Tokenizer::Treebank.words(caption, true);
    if unfinished == UnfinishedCaption::AsSentence && !words.is_empty() {
        // A second period ends an empty sentence.
        words.push(".".to_owned());
    }
    let tagged = tag(Lexicon::wordnet(), &words);
    let mut graph = SceneGraph::default();
    for sentence in tagged.split_inclusive(|word| word.tag == Tag::End) {
        Clause::new(sentence, &mut graph).read(&items(sentence));
    }
    graph.unique()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_period_may_be_taken_as_read() {
        let relation = |graph: SceneGraph| graph.relations;
        let ride = ["man", "ride", "horse"].map(str::to_owned);
        let ride = vec![ride.into()];
        assert_eq!(relation(parse("man riding a horse")), []);
        assert_eq!(relation(parse_as("man riding a horse", UnfinishedCaption::AsSentence)), ride);
        for unfinished in [UnfinishedCaption::AsSpice, UnfinishedCaption::AsSentence] {
            assert_eq!(relation(parse_as("man riding a horse .", unfinished)), ride);
            assert_eq!(parse_as("", unfinished), SceneGraph::default());
        }
        assert_ne!(UnfinishedCaption::AsSpice.parser(), UnfinishedCaption::AsSentence.parser());
    }
}
