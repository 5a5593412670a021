//! Number of rows of a part of each table that `ingest` writes.

/// Number of rows of a part of `images`.
pub(super) const IMAGE_PART_ROWS: usize = 1024;
/// Number of rows of a part of `images` that has the bytes of photographs: some 10 MB, at most 1 GiB.
pub(super) const PICTURE_PART_ROWS: usize = 64;
/// Number of rows of a part of `captions`.
pub(super) const CAPTION_PART_ROWS: usize = 8192;
/// Number of rows of a part of `ratings`.
pub(super) const RATING_PART_ROWS: usize = 8192;
/// Number of rows of a part of `published`.
pub(super) const PUBLISHED_PART_ROWS: usize = 8192;
/// Number of rows of a part of `qrels`.
pub(super) const QRELS_PART_ROWS: usize = 65_536;
/// Number of rows of a part of `features`.
pub(super) const FEATURE_PART_ROWS: usize = 1024;
/// Number of rows of a part of `regions`: 38 MB for 36 regions of 2,048 values.
pub(super) const REGION_PART_ROWS: usize = 128;
