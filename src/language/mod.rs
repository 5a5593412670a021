//! What needs dictionaries: parts of speech, lemmas, synonyms, and the scene graphs of captions.
//!
//! The one dictionary is WordNet 3.0 of Princeton University, cut down to two tables in `data/wordnet/` (1.6 MB; licence
//! beside them) that the program carries: none can be missing at run time, and every machine computes the same. Crates
//! that could stand here were looked at first: `harper-brill` tags, but brings a tensor library and knows no
//! participles; `thesaurus-wordnet` melts all senses of a word into one; `wordnet-morphy` and `wordnet-db` read files that
//! people would have to install.
//!
//! A caption goes through [`tagger`] (words with parts of speech and lemmas), [`phrases`] (noun phrases and what stands
//! between them) and the clause reader into a graph: [`scene_graph::parse`].

pub mod scene_graph;
mod clause;
mod attachment;
pub mod fragments;
pub mod phrases;
pub mod tagger;
pub mod readings;
pub mod tags;
pub mod lemmas;
pub mod lexicon;
pub mod synonyms;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod parity;
