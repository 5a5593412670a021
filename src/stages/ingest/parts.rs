//! Rows of the parts of tables that `ingest` writes.

/// Rows of a part of `images`.
pub(super) const IMAGE_PART_ROWS: usize = 1024;
/// Rows of a part of `captions`.
pub(super) const CAPTION_PART_ROWS: usize = 8192;
/// Rows of a part of `ratings`.
pub(super) const RATING_PART_ROWS: usize = 8192;
/// Rows of a part of `features`.
pub(super) const FEATURE_PART_ROWS: usize = 1024;
/// Rows of a part of `regions`: 38 MB of 36 vectors of 2,048 values.
pub(super) const REGION_PART_ROWS: usize = 128;
