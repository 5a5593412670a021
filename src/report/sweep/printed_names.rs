//! Check of the paper, the tables and the rows of a sweep against the printed rows, before anything runs.

use std::collections::{BTreeMap, BTreeSet};

use super::printed_row::is_named;
use super::settings::{PAPER, PUBLISHED, ReportSweep, TABLE};
use pairloom_base::error::TruncatedList;
use pairloom_base::suggest::quoted_list;
use pairloom_stage::{Problem, TableRef};
use pairloom_tables::published::PrintedName;

/// Tables of each paper, in the order of the printed rows.
pub(super) type PaperTables = BTreeMap<String, Vec<String>>;

/// Adds a table to those of its paper.
pub(super) fn add_table(papers: &mut PaperTables, paper: &str, table: &str) {
    let known = papers.entry(paper.to_owned()).or_default();
    if !known.iter().any(|known| known == table) {
        known.push(table.to_owned());
    }
}

/// Problem of a paper, or of tables of it, that `published` does not have.
pub(super) fn missing_tables(
    published: &TableRef,
    paper: &str,
    tables: &[String],
    papers: &PaperTables,
) -> Option<Problem> {
    let of_paper = papers.get(paper);
    let is_missing = |table: &&String| of_paper.is_none_or(|known| !known.contains(*table));
    let missing: Vec<&str> = tables.iter().filter(is_missing).map(String::as_str).collect();
    let (setting, message) = match of_paper {
        _ if missing.is_empty() => return None,
        None => (PAPER, format!("`{published}` has no paper `{paper}`")),
        Some(_) => (TABLE, format!("`{published}` has no table {} of `{paper}`", missing.join(", "))),
    };
    let there: TruncatedList =
        papers.iter().map(|(paper, tables)| format!("`{paper}` with table {}", tables.join(", "))).collect();
    Some(Problem::new(setting, message).hint(format!("it has {}", there.join(", "))))
}

impl ReportSweep {
    /// Problems of the names of the paper, its tables and the rows. Beside printed rows, one whose name is a number claims to
    /// be a printed one; another name can be a row of one's own.
    pub fn check_printed(&self, names: &[PrintedName]) -> Vec<Problem> {
        let (Some(published), Some(paper)) = (&self.published, &self.paper) else { return Vec::new() };
        let mut papers = PaperTables::new();
        for name in names {
            add_table(&mut papers, &name.paper, &name.table);
        }
        if let Some(problem) = missing_tables(published, paper, &self.table, &papers) {
            return vec![problem];
        }
        let of_tables = names.iter().filter(|name| name.paper == *paper && self.table.contains(&name.table));
        let printed: BTreeSet<(&str, &str)> = of_tables
            .flat_map(|name| std::iter::once(&name.row).chain(&name.model_row).map(|row| (&**row, &*name.dataset)))
            .collect();
        let runs = self.runs();
        let rows = runs.rows();
        let place = format!("table {} of `{paper}`", self.table.join(", "));
        let is_printed = |row: &str| printed.iter().any(|(of, dataset)| is_named(row, of, dataset));
        let numbers: BTreeSet<&str> = printed.iter().map(|(row, _)| *row).collect();
        let printed_rows = quoted_list(numbers.iter().copied());
        if !rows.is_empty() && !rows.iter().any(|row| is_printed(row)) {
            let own: TruncatedList = rows.iter().map(|row| format!("`{row}`")).collect();
            let message = format!("no row of the sweep is printed in {place}; the sweep has {}", own.join(", "));
            let hint = format!("name rows as the paper does: {printed_rows}");
            return vec![Problem::warning(PUBLISHED, message).hint(hint)];
        }
        let hint = format!("its rows are {printed_rows}");
        let is_number = |name: &str| name.parse::<f64>().is_ok();
        // A number, or a number beside a data set.
        let is_claim = |name: &str| match name.split_once(", ") {
            Some((one, other)) => printed
                .iter()
                .any(|(_, dataset)| (one == *dataset && is_number(other)) || (other == *dataset && is_number(one))),
            None => is_number(name),
        };
        let problem = |row: &&str| {
            let message = format!("row `{row}` of the sweep is not printed in {place}");
            let is_wrong = is_claim(row) && !is_printed(row);
            is_wrong.then(|| Problem::warning(PUBLISHED, message).hint(&hint))
        };
        rows.iter().filter_map(problem).collect()
    }
}
