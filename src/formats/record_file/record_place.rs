//! Place of a record in its file.

use std::fmt;

/// Place of a record in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordPlace {
    /// Line of a text file, from 1.
    Line(u64),
    /// Row of a Parquet or Arrow file, from 0.
    Row(u64),
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Row(row) => write!(f, "row {row} (from 0)"),
        }
    }
}
