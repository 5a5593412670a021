//! formats

pub mod line_reader;
pub mod text_lines;
pub mod delimited;
pub mod json;
pub mod trec;
mod not_finite;
mod lz4_frame;
mod arrow_metadata;
mod byte_ranges;
mod expansion_limits;
pub mod parquet_check;
mod npy_header;
pub mod npy;
pub mod id_list;
pub mod table_file;
pub mod record_file;
pub mod tar_samples;
#[cfg(test)]
mod tar_end_tests;
pub mod torchscript_archive;
pub mod tensorboard;
pub mod word_vectors;
pub mod vocabulary;
