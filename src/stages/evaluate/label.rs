//! What ranked, as all tables name it.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, StringArray};

/// A method with its free numbers, and whom it learned them from.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    /// `nns`, `csls`.
    pub(super) method: String,
    /// `k = 10`; nothing where there is nothing to choose.
    pub(super) parameters: Option<String>,
    /// Whose queries and items it learned from, if not the test's.
    pub(super) bank: Option<String>,
    /// Whether it saw the test queries together.
    pub(super) transductive: bool,
}

impl Label {
    /// The columns `method` and `parameters` of rows that this method made.
    pub(super) fn columns(&self, rows: usize) -> [ArrayRef; 2] {
        let method = StringArray::from_iter_values(std::iter::repeat_n(&self.method, rows));
        let parameters = std::iter::repeat_n(self.parameters.as_deref(), rows).collect::<StringArray>();
        [Arc::new(method), Arc::new(parameters)]
    }
}

/// The columns `method` and `parameters` of rows of several methods.
pub(super) fn methods<'l>(labels: impl Iterator<Item = &'l Label> + Clone) -> [ArrayRef; 2] {
    let method = StringArray::from_iter_values(labels.clone().map(|label| &label.method));
    let parameters = labels.map(|label| label.parameters.as_deref()).collect::<StringArray>();
    [Arc::new(method), Arc::new(parameters)]
}

/// The column `bank`.
pub(super) fn banks<'l>(labels: impl Iterator<Item = &'l Label>) -> ArrayRef {
    Arc::new(labels.map(|label| label.bank.as_deref()).collect::<StringArray>())
}

/// The column `transductive`.
pub(super) fn transductive<'l>(labels: impl Iterator<Item = &'l Label>) -> ArrayRef {
    Arc::new(labels.map(|label| Some(label.transductive)).collect::<BooleanArray>())
}
