//! Rows and columns of a score matrix.

use serde::{Deserialize, Serialize};

/// Side of a score matrix: its rows or its columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MatrixSide {
    /// Rows.
    Rows,
    /// Columns.
    Columns,
}

impl MatrixSide {
    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Rows => Self::Columns,
            Self::Columns => Self::Rows,
        }
    }

    /// Name of the side, for identities.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Columns => "columns",
        }
    }

    /// Index of the side in a `[rows, columns]` pair.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Rows => 0,
            Self::Columns => 1,
        }
    }
}
