//! Input and output: file formats, object storage, shards and their cache. Only this module opens data files.

pub mod objects;
pub mod table_shards;
pub mod parquet;
pub mod files;
pub mod boot_id;
pub mod bounded;
pub mod pread;
pub mod text_start;
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
pub mod image_names;
pub mod http_images;
pub mod image;
pub mod thumbnail;
pub mod shard;
pub mod cache;
pub mod tensorboard;
pub mod word_vectors;
pub mod vocabulary;
