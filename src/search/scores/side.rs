//! The two sides of a matrix of scores.

/// One of the two sides of the matrix of scores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The rows.
    Rows,
    /// The columns.
    Columns,
}

impl Side {
    /// The other one.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::Rows => Self::Columns,
            Self::Columns => Self::Rows,
        }
    }

    /// The side's name, for identities.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Columns => "columns",
        }
    }

    /// The side's place in a pair of rows and columns.
    #[must_use]
    pub fn index(self) -> usize {
        match self {
            Self::Rows => 0,
            Self::Columns => 1,
        }
    }
}
