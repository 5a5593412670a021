//! Label of a method and its parameters in tables.

use super::direction::Direction;
use pairloom_tables::rankings::RankingScope;

/// Label of a method: its name, its parameters, and its query bank.
#[derive(Debug, Clone, PartialEq)]
pub struct MethodLabel {
    /// Name of the method: `nns`, `csls`.
    pub method: String,
    /// Parameters as text: `k = 10`; `None` if there are none.
    pub parameters: Option<String>,
    /// Name of the query bank that the method learned from, if any.
    pub bank: Option<String>,
    /// True if the result of a query depends on the other test queries.
    pub transductive: bool,
}

impl MethodLabel {
    /// Columns that are equal in all rows of a pool and a direction.
    pub(super) fn scope<'s>(&'s self, protocol: &'s str, fold: usize, direction: Direction) -> RankingScope<'s> {
        let (method, parameters) = (&self.method, self.parameters.as_deref());
        RankingScope { protocol, fold, method, parameters, direction: direction.name() }
    }
}
