//! Versions of objects.

/// Version of an object's content: `ETag` and generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectVersion {
    pub(super) tag: Option<String>,
    pub(super) generation: Option<String>,
}
