//! What needs dictionaries: parts of speech, lemmas, synonyms, and the scene graphs of captions.

pub mod lexicon;
pub mod lemmas;
pub mod tags;
pub mod readings;
pub mod tagger;
pub mod phrases;
pub mod scene_graph;
pub mod synonyms;
