//! Printed rows of papers beside the rows of a sweep.

use super::method_name::method_name;
use super::printed_names::{PaperTables, add_table, missing_tables};
use super::printed_row::{DEFAULT_METHOD, PrintedRow};
use super::settings::{PUBLISHED, ReportSweep};
use super::table::{SweepRow, SweepTable};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_stage::{Problem, StageContext};
use pairloom_tables::{self as tables, DEFAULT_CUTOFFS};

/// Printed rows of some tables of a paper.
#[derive(Debug)]
pub(super) struct PrintedRows {
    pub(super) paper: String,
    pub(super) tables: Vec<String>,
    /// True if sums are left out, because ours are of recalls at other cut-offs.
    pub(super) is_without_sums: bool,
    rows: Vec<PrintedRow>,
}

impl PrintedRows {
    /// Reads the printed rows of a sweep with these cut-offs; `None` if it has none.
    ///
    /// # Errors
    /// The table has no row of the paper and its tables.
    pub(super) fn read(sweep: &ReportSweep, cutoffs: &[usize], cx: &mut StageContext<'_>) -> Result<Option<Self>> {
        let (Some(published), Some(paper)) = (&sweep.published, &sweep.paper) else { return Ok(None) };
        let is_without_sums = cutoffs != DEFAULT_CUTOFFS;
        let mut read = Self { paper: paper.clone(), tables: sweep.table.clone(), is_without_sums, rows: Vec::new() };
        let mut papers = PaperTables::new();
        while let Some(batch) = cx.read_next(PUBLISHED)? {
            let (of, tables) = (tables::text_column(&batch, "paper")?, tables::text_column(&batch, "table")?);
            for row in 0..batch.num_rows() {
                add_table(&mut papers, of.value(row), tables.value(row));
                if of.value(row) == paper && read.tables.iter().any(|wanted| wanted == tables.value(row)) {
                    read.add(PrintedRow::read(&batch, row)?);
                }
            }
        }
        match missing_tables(published, paper, &read.tables, &papers) {
            Some(Problem { message, hint, .. }) => Err(Error::data(message).hint(hint.unwrap_or_default())),
            None => Ok(Some(read)),
        }
    }

    /// Adds a row, or its numbers to those of the same row in another table.
    fn add(&mut self, mut row: PrintedRow) {
        if self.is_without_sums {
            row.remove_sums();
        }
        match self.rows.iter_mut().find(|known| row.continues(known)) {
            Some(known) => known.add(row),
            None => self.rows.push(row),
        }
    }

    /// Gives every row of the tables its printed one.
    ///
    /// Printed rows of the protocol of a table are taken, and those without a protocol that are of its data set. If there
    /// are none for any table, the results are of other data, and the first printed protocol of a row is taken. Returns a
    /// warning if no row has a printed one.
    pub(super) fn join(&self, tables: &mut [SweepTable]) -> Option<String> {
        let is_printed = |protocol: &str| self.rows.iter().any(|row| row.is_of_protocol(protocol));
        let is_same_data = tables.iter().any(|table| is_printed(&table.protocol));
        for table in tables.iter_mut() {
            self.join_table(table, is_same_data);
        }
        let is_found = |row: &SweepRow| row.printed.is_some();
        let is_ambiguous = |table: &SweepTable| !table.remarks.ambiguous.is_empty();
        if tables.iter().any(|table| table.rows.iter().any(is_found) || is_ambiguous(table)) {
            return None;
        }
        let mut names: Vec<String> = Vec::new();
        for row in tables.iter().flat_map(|table| &table.rows) {
            let name = format!("`{}` ({})", row.row, method_name(&row.method));
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let own: TruncatedList = names.iter().collect();
        let method = |row: &PrintedRow| row.method.clone().unwrap_or_else(|| DEFAULT_METHOD.to_owned());
        let printed: TruncatedList = self.rows.iter().map(|row| format!("`{}` ({})", row.row, method(row))).collect();
        Some(format!(
            "no row of the sweep is printed in table {} of `{}`, which has {}; its rows are {}: name them as the paper does",
            self.tables.join(", "),
            self.paper,
            printed.join(", "),
            own.join(", ")
        ))
    }

    fn join_table(&self, table: &mut SweepTable, is_same_data: bool) {
        let has_methods = table.has_methods();
        let mut used: Vec<usize> = Vec::new();
        for number in 0..table.rows.len() {
            let row = &table.rows[number];
            let is_only = table.rows.iter().filter(|other| other.row == row.row).count() == 1;
            let found = self.counterparts(row, is_only, is_same_data.then_some(table.protocol.as_str()));
            let name = row.full_name(has_methods);
            used.extend(&found);
            match found.as_slice() {
                [] => table.remarks.without.push(name),
                [one] => {
                    let printed = &self.rows[*one];
                    table.remarks.add(printed, &table.protocol, is_same_data);
                    table.rows[number].printed = Some(printed.clone());
                }
                several => {
                    let names: Vec<String> = several.iter().map(|&of| self.rows[of].name()).collect();
                    table.remarks.ambiguous.push(format!("{name}: {}", names.join(", ")));
                }
            }
        }
        let pools: Vec<_> = used.iter().map(|&of| self.rows[of].pool()).collect();
        let is_left = |(of, row): &(usize, &PrintedRow)| !used.contains(of) && pools.contains(&row.pool());
        let left = self.rows.iter().enumerate().filter(is_left);
        table.remarks.left_over = left.map(|(_, row)| self.name(row)).collect();
    }

    /// Name of a printed row, with that of its data set if another one has a row of this number.
    fn name(&self, row: &PrintedRow) -> String {
        let is_shared = self.rows.iter().any(|other| other.row == row.row && other.dataset != row.dataset);
        if is_shared { format!("{} of {}", row.name(), row.dataset) } else { row.name() }
    }

    /// Indices of the printed rows of a row: of the same name and method, otherwise of its model and its method. Of the
    /// protocol, or without one, of the protocol of the first of them. Those with the most parameters in common.
    fn counterparts(&self, row: &SweepRow, is_only: bool, protocol: Option<&str>) -> Vec<usize> {
        let of = |is_meant: &dyn Fn(&PrintedRow) -> bool| -> Vec<usize> {
            let all = self.rows.iter().enumerate().filter(|(_, printed)| is_meant(printed));
            let all: Vec<(usize, &PrintedRow)> = all.collect();
            let first = all.first().map(|(_, printed)| printed.pool());
            let is_wanted = |printed: &PrintedRow| match protocol {
                Some(protocol) => printed.is_of_protocol(protocol),
                None => Some(printed.pool()) == first,
            };
            all.into_iter().filter(|(_, printed)| is_wanted(printed)).map(|(of, _)| of).collect()
        };
        let own = of(&|printed| printed.is_own(&row.row, &row.method, is_only));
        let found = if own.is_empty() { of(&|printed| printed.ranks_model(&row.row, &row.method)) } else { own };
        let n_parameters = |of: &usize| self.rows[*of].n_parameters();
        let most = found.iter().map(n_parameters).max();
        found.into_iter().filter(|of| Some(n_parameters(of)) == most).collect()
    }
}
