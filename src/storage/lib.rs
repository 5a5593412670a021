//! storage

pub mod objects;
pub mod table_shards;
pub mod parquet;
pub mod files;
pub mod boot_id;
pub mod bounded;
pub mod pread;
pub mod text_start;
pub mod image_names;
pub mod shard;
pub mod cache;
