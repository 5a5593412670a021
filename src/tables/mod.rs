//! The vocabulary: one file for each table that flows between stages.
//!
//! A table's columns are defined here and nowhere else; `schemas/<table>.txt` is generated from this.

pub mod images;
pub mod captions;
pub mod features;
pub mod history;
pub mod validation;
pub mod image_embeddings;
pub mod caption_embeddings;
pub mod rankings;
pub mod metrics;
pub mod summary;
mod column;

pub use column::{Column, Table, batch, floats, ids, texts, vector, vectors};

/// Every table, in the order of the flow.
#[must_use]
pub fn all() -> Vec<Table> {
    vec![
        images::table(),
        captions::table(),
        features::table(),
        history::table(),
        validation::table(),
        image_embeddings::table(),
        caption_embeddings::table(),
        rankings::table(),
        metrics::table(),
        summary::table(),
    ]
}
