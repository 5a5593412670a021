//! A table of a document.

use super::text::Label;

/// Columns, and rows of as many cells.
#[derive(Debug, Default)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Row>,
}

impl Table {
    /// An empty table with columns of texts, then of numbers.
    pub(super) fn new(texts: &[&str], numbers: &[&str]) -> Self {
        let texts = texts.iter().map(|name| Column { kind: Kind::Text, ..Column::number(*name) });
        Self { columns: texts.chain(numbers.iter().map(|name| Column::number(*name))).collect(), rows: Vec::new() }
    }

    /// Adds columns of numbers under one name.
    pub(super) fn group(&mut self, group: Group, names: impl IntoIterator<Item = String>) {
        self.columns.extend(names.into_iter().map(|name| Column { group: Some(group), ..Column::number(name) }));
    }

    /// Adds a row, once all columns are there.
    pub(super) fn push(&mut self, cells: impl IntoIterator<Item = impl Into<Cell>>) {
        let cells: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each column");
        self.rows.push(Row { cells, muted: false });
    }
}

/// A column; neighbours of the same group stand under its name.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) group: Option<Group>,
    pub(super) name: String,
    pub(super) kind: Kind,
}

impl Column {
    /// A column of numbers in no group.
    pub(super) fn number(name: impl Into<String>) -> Self {
        Self { group: None, name: name.into(), kind: Kind::Number }
    }
}

/// A name over several columns; the short one precedes each of theirs in Markdown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Group {
    pub(super) name: &'static str,
    pub(super) short: &'static str,
}

/// The kind of a column; sums stand out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Number,
    Sum,
}

/// A row; a muted one is there to compare with.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    pub(super) muted: bool,
}

/// A cell, with a remark in small print; Markdown puts that in brackets.
#[derive(Debug, Clone, Default)]
pub(super) struct Cell {
    pub(super) label: Label,
    pub(super) small: Option<String>,
}

impl<T: Into<Label>> From<T> for Cell {
    fn from(label: T) -> Self {
        Self { label: label.into(), small: None }
    }
}
