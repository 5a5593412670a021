//! Table of a document.

use super::text::PageLabel;

/// Table with one cell per row and column.
#[derive(Debug, Default)]
pub(super) struct PageTable {
    pub(super) columns: Vec<PageColumn>,
    pub(super) rows: Vec<PageRow>,
}

impl PageTable {
    /// Creates an empty table with text columns, then number columns.
    pub(super) fn new(texts: &[&str], numbers: &[&str]) -> Self {
        let texts = texts.iter().map(|name| PageColumn { kind: PageColumnKind::Text, ..PageColumn::number(*name) });
        Self { columns: texts.chain(numbers.iter().map(|name| PageColumn::number(*name))).collect(), rows: Vec::new() }
    }

    /// Adds a group of number columns.
    pub(super) fn group(&mut self, group: ColumnGroup, names: impl IntoIterator<Item = String>) {
        self.columns
            .extend(names.into_iter().map(|name| PageColumn { group: Some(group), ..PageColumn::number(name) }));
    }

    /// Adds a row. All columns must have been added before.
    pub(super) fn push(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has one cell per column");
        self.rows.push(PageRow { cells, muted: false });
    }
}

/// Column. Adjacent columns of one group share a header.
#[derive(Debug, Clone)]
pub(super) struct PageColumn {
    pub(super) group: Option<ColumnGroup>,
    pub(super) name: String,
    pub(super) kind: PageColumnKind,
}

impl PageColumn {
    /// Number column without a group.
    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { group: None, name: name.into(), kind: PageColumnKind::Number }
    }
}

/// Header of several columns. In Markdown, its short form prefixes each of their names.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ColumnGroup {
    pub(super) name: &'static str,
    pub(super) short: &'static str,
}

/// Kind of a column; sums are emphasised.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum PageColumnKind {
    Text,
    Number,
    Sum,
}

/// Row. A muted row is a baseline, in a lighter colour.
#[derive(Debug)]
pub(super) struct PageRow {
    pub(super) cells: Vec<Cell>,
    pub(super) muted: bool,
}

/// Cell with an optional remark, in small print; in Markdown, in brackets. A strong cell is the best of its column.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) label: PageLabel,
    pub(super) small: Option<String>,
    /// Standard deviation of a mean.
    pub(super) deviation: Option<String>,
    pub(super) strong: bool,
}

impl<T: Into<PageLabel>> From<T> for Cell {
    fn from(label: T) -> Self {
        Self { label: label.into(), small: None, deviation: None, strong: false }
    }
}
