//! Files of users: what others wrote, read with the place of each mistake.
//!
//! - [`record_file`]: records of CSV, TSV, JSON Lines, Parquet and Arrow, whichever it is. Open it first.
//! - [`table_file`]: columns of Parquet and Arrow. [`npy`], [`word_vectors`], [`json`], [`id_list`], [`vocabulary`], [`trec`],
//!   [`tar_samples`] (WebDataset), [`torchscript_archive`], [`tensorboard`].
//! - [`int96`]: timestamps of old Parquet files.
//!
//! **Invariant:** bytes of a file never end the process: a wrong file is an error that names the file and the place.

pub mod text_lines;
pub mod delimited;
pub mod json;
pub mod trec;
pub mod int96;
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
