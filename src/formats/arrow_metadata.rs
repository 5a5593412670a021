//! Metadata of Arrow files that others wrote, verified within limits.
//!
//! The fields of a schema may share their tables. So a few kilobytes can stand for billions of fields, each of which the
//! library would create.

use arrow::ipc::{Footer, Message, root_as_footer_with_opts, root_as_message_with_opts};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flatbuffers::{InvalidFlatbuffer, VerifierOptions};
use parquet::arrow::ARROW_SCHEMA_META_KEY;
use parquet::file::metadata::FileMetaData;

use pairloom_base::error::{Error, Result};

/// Most tables of the metadata, counted as often as they are used. A column has about three.
const MAX_TABLES: usize = 200_000;
/// Largest size of the metadata in bytes, counted as often as they are used.
const MAX_BYTES: usize = 64 << 20;
/// Mark and length in front of a message.
const PREFIX_BYTES: usize = 8;

/// Verifies and parses the metadata of a message.
///
/// # Errors
/// The bytes are no message, or are too large.
pub(super) fn parse_message(bytes: &[u8]) -> Result<Message<'_>> {
    root_as_message_with_opts(&limits(), bytes).map_err(|error| unreadable("a message", &error))
}

/// Verifies and parses the footer of an Arrow file.
///
/// # Errors
/// The bytes are no footer, or are too large.
pub(super) fn parse_footer(bytes: &[u8]) -> Result<Footer<'_>> {
    root_as_footer_with_opts(&limits(), bytes).map_err(|error| unreadable("the footer", &error))
}

/// Verifies the Arrow schema in the metadata of a Parquet file, before the library reads it.
///
/// # Errors
/// The bytes are no schema, or are too large.
pub(super) fn check_arrow_schema(metadata: &FileMetaData) -> Result<()> {
    let entries = metadata.key_value_metadata().into_iter().flatten();
    for entry in entries.filter(|entry| entry.key == ARROW_SCHEMA_META_KEY) {
        let bytes = BASE64_STANDARD.decode(entry.value.as_deref().unwrap_or_default());
        let bytes = bytes.map_err(|error| Error::data(format!("its Arrow schema is no base64: {error}")))?;
        let has_prefix = bytes.len() > PREFIX_BYTES && bytes.starts_with(&[0xff; 4]);
        parse_message(&bytes[if has_prefix { PREFIX_BYTES } else { 0 }..])?;
    }
    Ok(())
}

fn limits() -> VerifierOptions {
    VerifierOptions { max_tables: MAX_TABLES, max_apparent_size: MAX_BYTES, ..VerifierOptions::default() }
}

fn unreadable(what: &str, error: &InvalidFlatbuffer) -> Error {
    let too_large = match error {
        InvalidFlatbuffer::TooManyTables => format!("more than {MAX_TABLES} fields and types"),
        InvalidFlatbuffer::ApparentSizeTooLarge => format!("more than {MAX_BYTES} bytes of metadata"),
        InvalidFlatbuffer::DepthLimitReached => "fields that are nested too deeply".to_owned(),
        _ => return Error::data(format!("{what} of the Arrow format cannot be read: {error}")),
    };
    Error::data(format!("{what} of the Arrow format has {too_large}")).hint("write the file with fewer columns")
}
