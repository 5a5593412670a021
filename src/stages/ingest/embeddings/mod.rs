//! Reader of `embeddings`: embeddings of any model, in npy, Parquet or Arrow files → `image_embeddings`,
//! `caption_embeddings`.

mod settings;
mod run;
mod embedding_pass;
mod npy_files;
mod table_files;
#[cfg(test)]
mod tests;

pub(super) use run::run;
pub use settings::{EmbeddingColumns, PrecomputedEmbeddings};
