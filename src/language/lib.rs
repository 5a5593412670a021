//! Natural-language processing of captions with a dictionary: parts of speech, lemmas, synonyms, and scene graphs; and the
//! tokeniser of CLIP.
//!
//! The dictionary is WordNet 3.0 of Princeton University, reduced to two tables in `data/wordnet/` (1.6 MB, with their
//! licence). They are compiled into the program, so no file can be missing at run time, and every machine computes the
//! same.
//!
//! Existing crates do not fit: `harper-brill` is a tagger, but depends on a tensor library and has no participles;
//! `thesaurus-wordnet` merges all senses of a word; `wordnet-morphy` and `wordnet-db` read files that users would have
//! to install.
//!
//! [`scene_graph::parse`] runs three steps: [`tagger`] gives words their parts of speech and lemmas, [`chunker`] groups
//! them into noun phrases and other chunks, and the clause reader makes a graph of the chunks.

pub mod scene_graph;
mod clause;
pub mod chunker;
pub mod tagger;
pub mod lexicon;
pub mod clip_tokenizer;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod golden_tests;
