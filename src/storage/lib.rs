//! Objects, parts and shards: the only way to the content of a store.
//!
//! - [`objects`]: folders and URLs (`s3://`, `gs://`, `az://`, `http(s)://`) behind one synchronous interface. Open it first.
//! - [`parquet`]: parts of tables. [`shard`]: a part as a mapped Arrow file with digests, for random access. [`cache`]: shards
//!   between runs and processes. [`table_shards`]: a table as its shards.
//! - [`bounded`], [`pread`]: reading of files that could be larger than they look, or no text.
//!
//! **Invariant:** a value of a shard is returned only after the digest of its 16 KiB was compared, so damage is an error.
//!
//! **Invariant:** an object is absent or whole: it is published by one rename or one put, after it is synced.

pub mod objects;
pub mod table_shards;
pub mod parquet;
pub mod files;
pub mod bounded;
pub mod pread;
pub mod image_names;
pub mod shard;
pub mod cache;
