//! The reader of `embeddings`: vectors of any model, in npy, Parquet or Arrow files → `image_embeddings`, `caption_embeddings`.

mod settings;
mod run;
mod rows;
mod arrays;
mod table_files;
#[cfg(test)]
mod tests;

pub(super) use run::run;
pub use settings::{EmbeddingColumns, Embeddings};
