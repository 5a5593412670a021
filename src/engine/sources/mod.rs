//! Digests of files and folders outside of the store.
//!
//! A digest depends on names and contents, not on times or locations. A file is read again only if its size, times
//! (of content and of status), inode or device have changed. No program can set the time of the status, so content that
//! was replaced under its old size and time is seen too. A source in a bucket is known by the list of its objects.

mod bucket;
mod digest;
mod digest_list;
mod file_stamp;
mod folder_times;
mod listing;
mod sealed;
mod source_content;
#[cfg(test)]
mod tests;

pub use digest::{SourceDigest, SourceReading, check_unchanged, file_keys, read_source};
pub use source_content::SourceContent;
