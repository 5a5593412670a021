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

pub use column::{Column, Table, batch, floats, ids, numbers, texts, vector, vectors};
pub use lists::list;

/// Every table, in the order of the flow.
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
        validation::table(),
        image_embeddings::table(),
        caption_embeddings::table(),
        rankings::table(),
        hubs::table(),
        metrics::table(),
        summary::table(),
        contrasts::table(),
        correlations::table(),
    ]
}
