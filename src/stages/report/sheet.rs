//! A table of a page: what it says once, how HTML and Markdown show it.

use std::fmt::{self, Write};

use maud::{Markup, html};

use super::escape::escaped;

/// A section with one table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sheet {
    pub(super) title: String,
    /// Names of the columns; the first `texts` of them hold texts, the others numbers.
    pub(super) columns: Vec<String>,
    pub(super) texts: usize,
    /// As many cells a row as there are columns.
    pub(super) rows: Vec<Vec<String>>,
    pub(super) note: String,
}

impl Sheet {
    pub(super) fn html(&self) -> Markup {
        let class = |column: usize| (column >= self.texts).then_some("n");
        html! {
            section {
                h2 { (self.title) }
                div.wide {
                    table {
                        thead { tr { @for (i, name) in self.columns.iter().enumerate() { th class=[class(i)] { (name) } } } }
                        tbody {
                            @for row in &self.rows {
                                tr {
                                    @for (i, cell) in row.iter().enumerate() {
                                        @if i == 0 { th scope="row" { (cell) } } @else { td class=[class(i)] { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
                p.note { (self.note) }
            }
        }
    }

    pub(super) fn markdown(&self, page: &mut String) -> fmt::Result {
        // Numbers have signs, which would mean something at the start of a line only.
        let cell = |(i, cell): (usize, &String)| if i < self.texts { escaped(cell) } else { cell.clone() };
        let line = |cells: &[String]| cells.iter().enumerate().map(cell).collect::<Vec<_>>().join(" | ");
        let rule: String = (0..self.columns.len()).map(|i| if i < self.texts { "---|" } else { "---:|" }).collect();
        writeln!(page, "\n## {}\n\n| {} |\n|{rule}", escaped(&self.title), line(&self.columns))?;
        for row in &self.rows {
            writeln!(page, "| {} |", line(row))?;
        }
        writeln!(page, "\n{}", self.note)
    }
}
