//! What needs dictionaries: parts of speech, lemmas, synonyms, and the scene graphs of captions.

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
