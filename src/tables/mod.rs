//! The vocabulary: one file for each table that flows between stages.
//!
//! A table's columns are defined here and nowhere else; `schemas/<table>.txt` is generated from this.

pub mod images;
pub mod captions;
pub mod ratings;
pub mod features;
pub mod regions;
pub mod caption_ngrams;
pub mod scene_graphs;
pub mod caption_similarity;
pub mod spice_scores;
pub mod plan;
pub mod samples;
pub mod memory_bank;
pub mod history;
pub mod auxiliary_losses;
pub mod validation;
pub mod image_embeddings;
pub mod caption_embeddings;
pub mod rankings;
pub mod hubs;
pub mod metrics;
pub mod summary;
pub mod contrasts;
pub mod correlations;
mod column;
mod lists;
mod values;
mod rows;
mod cutoffs;

pub use column::{Column, Table, batch, floats, ids, numbers, texts, vector};
pub use cutoffs::CUTOFFS;
use cutoffs::cutoffs;
pub use lists::list;
pub use values::{Lists, Optional, Values, Vectors, repeated, vectors};

/// Every table, in the order of the flow; those with columns for cut-offs with the default ones.
#[must_use]
pub fn all() -> Vec<Table> {
    vec![
        images::table(),
        captions::table(),
        ratings::table(),
        features::table(),
        regions::table(),
        caption_ngrams::table(),
        scene_graphs::table(),
        caption_similarity::table(),
        spice_scores::table(),
        plan::table(),
        samples::table(),
        memory_bank::table(),
        history::table(),
        auxiliary_losses::table(),
        validation::table(),
        image_embeddings::table(),
        caption_embeddings::table(),
        rankings::table(&CUTOFFS),
        hubs::table(&CUTOFFS),
        metrics::table(),
        summary::table(&CUTOFFS),
        contrasts::table(),
        correlations::table(),
    ]
}
