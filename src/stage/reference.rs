//! References in settings to the inputs of a stage: tables of other stages, and files outside of the store.

use std::fmt;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::instance::stage_of_instance;
use pairloom_base::error::Result as CheckResult;
use pairloom_storage::objects::Location;

/// A table of another stage, written `stage.table` in a pipeline file. The stage can be an instance of a matrix:
/// `fit@row=1.1,seed=3.model`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(try_from = "String")]
pub struct TableRef(String);

impl JsonSchema for TableRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "TableRef".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "pattern": r"^[A-Za-z0-9_-]+(@[A-Za-z0-9._+=*,-]+)?\.[A-Za-z0-9_]+$",
            "description": "A table of another stage: `stage.table`. Of the instances of a stage that the matrix repeats: `stage@axis=value.table`, or in a list `stage@*.table`.",
        })
    }
}

impl TableRef {
    /// The output `table` of the stage `stage`.
    pub(super) fn new(stage: &str, table: &str) -> Self {
        Self(format!("{stage}.{table}"))
    }

    /// Name of the stage that writes the table.
    #[must_use]
    pub fn stage(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(stage, _)| stage)
    }

    /// Name of the table in its stage.
    #[must_use]
    pub fn table(&self) -> &str {
        self.0.rsplit_once('.').map_or("", |(_, table)| table)
    }
}

impl TryFrom<String> for TableRef {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.rsplit_once('.') {
            // A dot before the last one belongs to a value of the matrix.
            Some((stage, table))
                if !stage.is_empty() && !table.is_empty() && !stage_of_instance(stage).contains('.') =>
            {
                Ok(Self(text))
            }
            _ => Err(format!("`{text}` does not name a table: expected `stage.table`")),
        }
    }
}

impl fmt::Display for TableRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Serialises as null, since the key contains the content that the reference refers to.
impl Serialize for TableRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

/// A file or folder outside of the store, such as a folder of photographs; of some settings, a URL of a bucket.
///
/// In a pipeline file it is a path, relative to that file, in which `${NAME}` stands for an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Deserialize)]
#[serde(transparent)]
pub struct SourceRef(PathBuf);

impl JsonSchema for SourceRef {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Source".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "minLength": 1,
            "description": "A file or folder, relative to the pipeline file; `${NAME}` stands for an environment variable.",
        })
    }
}

impl SourceRef {
    /// A source at `path`.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    /// Path of the file or folder, or the text of a URL.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// True for a URL, which only settings with the schema of [`SourceOrUrl`] can be.
    #[must_use]
    pub fn is_url(&self) -> bool {
        self.0.to_str().is_some_and(is_url)
    }
}

/// True for the text of a URL in place of a path.
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.contains("://")
}

/// Plain form of the URL of a bucket, without a slash at its end.
///
/// # Errors
/// It is no URL, or there are no buckets at URLs of this kind, or it has a password in it.
pub fn bucket_url(text: &str) -> CheckResult<String> {
    Location::parse(text.into()).map(|location| location.to_string())
}

/// Schema of a source that can also be the URL of objects in a bucket.
#[derive(Debug)]
pub struct SourceOrUrl;

impl JsonSchema for SourceOrUrl {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SourceOrUrl".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "minLength": 1,
            "description": "A folder, relative to the pipeline file, or a prefix of objects in a bucket: `s3://bucket/photographs`; `${NAME}` stands for an environment variable.",
        })
    }
}

/// Serialises as null, since the key contains the content that the reference refers to.
impl Serialize for SourceRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}
