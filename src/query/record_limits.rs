//! Limits of the records of text files.

/// Number of records whose sizes are added. The reader has at most two such groups in part.
pub(super) const GROUP_RECORDS: usize = 8192;

/// Maximum number of columns of a delimited file, and of names in a JSON file. DataFusion has a buffer for each.
pub(super) const MAX_COLUMNS: usize = 5000;
