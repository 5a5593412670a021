//! Method and settings that ranked, as all tables name them.

use super::direction::Direction;
use crate::tables::rankings::Subject;

/// A method with its free numbers, and whom it learned them from.
#[derive(Debug, Clone, PartialEq)]
pub struct Label {
    /// `nns`, `csls`.
    pub method: String,
    /// `k = 10`; nothing where there is nothing to choose.
    pub parameters: Option<String>,
    /// Whose queries and items it learned from, if not the test's.
    pub bank: Option<String>,
    /// True if it saw the test queries together.
    pub transductive: bool,
}

impl Label {
    /// Columns that the rows of a pool and a direction have in common.
    pub(super) fn subject<'s>(&'s self, protocol: &'s str, fold: usize, direction: Direction) -> Subject<'s> {
        let (method, parameters) = (&self.method, self.parameters.as_deref());
        Subject { protocol, fold, method, parameters, direction: direction.name() }
    }
}
