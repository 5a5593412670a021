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

use super::clause::Clause;
use super::lexicon::Lexicon;
use super::phrases::items;
use super::tagger::tag;
use super::tags::Tag;
use crate::kernels::text::spice::SceneGraph;
use crate::kernels::text::tokens::Tokenizer;

/// Name and version of these rules: graphs of different ones do not compare.
pub const NAME: &str = "rules-2";

/// The scene graph of `caption`, cut into words by [`Tokenizer::Treebank`]. Cost: linear in the words.
#[must_use]
pub fn parse(caption: &str) -> SceneGraph {
    let words = Tokenizer::Treebank.words(caption, true);
    let tagged = tag(Lexicon::wordnet(), &words);
    let mut graph = SceneGraph::default();
    for sentence in tagged.split_inclusive(|word| word.tag == Tag::End) {
        Clause::new(sentence, &mut graph).read(&items(sentence));
    }
    graph.unique()
}
