//! Printed rows of papers beside the rows of a sweep: what a row says, its check before anything runs, and the row of the
//! sweep that it belongs to.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type};

use super::measures::SweepMeasure;
use super::settings::{PAPER, PUBLISHED, ReportSweep, TABLE};
use super::table::{SweepRow, SweepTable};
use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_base::suggest::quoted_list;
use pairloom_stage::{KnownFacts, Problem, StageContext, TableRef};
use pairloom_tables::published::PrintedName;
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
            let (paper_names, tables) = (tables::text_column(&batch, "paper")?, tables::text_column(&batch, "table")?);
            for row in 0..batch.num_rows() {
                add_table(&mut papers, paper_names.value(row), tables.value(row));
                if paper_names.value(row) == paper && read.tables.iter().any(|chosen| chosen == tables.value(row)) {
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
                    let names: Vec<String> = several.iter().map(|&number| self.rows[number].name()).collect();
                    table.remarks.ambiguous.push(format!("{name}: {}", names.join(", ")));
                }
            }
        }
        let pools: Vec<_> = used.iter().map(|&number| self.rows[number].pool()).collect();
        let is_left = |(number, row): &(usize, &PrintedRow)| !used.contains(number) && pools.contains(&row.pool());
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
        let matching = |is_meant: &dyn Fn(&PrintedRow) -> bool| -> Vec<usize> {
            let all = self.rows.iter().enumerate().filter(|(_, printed)| is_meant(printed));
            let all: Vec<(usize, &PrintedRow)> = all.collect();
            let first = all.first().map(|(_, printed)| printed.pool());
            let is_wanted = |printed: &PrintedRow| match protocol {
                Some(protocol) => printed.is_of_protocol(protocol),
                None => Some(printed.pool()) == first,
            };
            all.into_iter().filter(|(_, printed)| is_wanted(printed)).map(|(number, _)| number).collect()
        };
        let own = matching(&|printed| printed.is_own(&row.row, &row.method, is_only));
        let found = if own.is_empty() { matching(&|printed| printed.ranks_model(&row.row, &row.method)) } else { own };
        let n_parameters = |number: &usize| self.rows[*number].n_parameters();
        let most = found.iter().map(n_parameters).max();
        found.into_iter().filter(|number| Some(n_parameters(number)) == most).collect()
    }
}

/// Method of printed rows that name none.
const DEFAULT_METHOD: &str = "nns";

/// Protocols of the same images: COCO's files `test_*` have the first 1,000 images of `testall_*`. One of the 5,000
/// captions differs.
const SAME_IMAGES: [&str; 2] = ["coco-1k-single", "coco-1k-first-fold"];

/// Printed row.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PrintedRow {
    pub(super) table: String,
    pub(super) row: String,
    pub(super) dataset: String,
    pub(super) protocol: Option<String>,
    /// Row of the paper whose model is ranked.
    pub(super) model_row: Option<String>,
    pub(super) method: Option<String>,
    pub(super) model: Option<String>,
    pub(super) objective: Option<String>,
    pub(super) features: Option<String>,
    /// Name of the method in the paper.
    pub(super) printed_method: Option<String>,
    /// Numbers, by their columns in `published`.
    numbers: BTreeMap<String, f64>,
    /// True if sums are left out.
    is_without_sums: bool,
}

impl PrintedRow {
    /// Printed value of a measure. rsum is the sum of the printed recalls if the paper prints no rsum.
    pub(super) fn value(&self, measure: SweepMeasure) -> Option<f64> {
        let printed = self.numbers.get(&measure.published_column()).copied();
        if measure == SweepMeasure::Rsum { printed.or_else(|| self.sum_of_recalls()) } else { printed }
    }

    /// True if the value of rsum is a sum of the printed recalls.
    pub(super) fn is_computed_rsum(&self) -> bool {
        !self.numbers.contains_key(&SweepMeasure::Rsum.published_column())
    }

    /// Sum of the recalls at the usual cut-offs; `None` if one is not printed, or sums are left out.
    fn sum_of_recalls(&self) -> Option<f64> {
        let recalls = SweepMeasure::recalls(&DEFAULT_CUTOFFS).into_iter();
        let recalls = recalls.filter(|measure| matches!(measure, SweepMeasure::Recall { .. }));
        let printed = recalls.map(|measure| self.numbers.get(&measure.published_column()).copied());
        printed.sum::<Option<f64>>().filter(|_| !self.is_without_sums)
    }

    /// True if another row is the same one, printed in another table with other columns.
    pub(super) fn continues(&self, other: &Self) -> bool {
        let agrees = |(column, value): (&String, &f64)| other.numbers.get(column).is_none_or(|other| other == value);
        self.table != other.table && identity(self) == identity(other) && self.numbers.iter().all(agrees)
    }

    /// Data set, and protocol if one is printed.
    pub(super) fn pool(&self) -> (&str, Option<&str>) {
        (&self.dataset, self.protocol.as_deref())
    }

    /// True if the row is of results with this protocol. Without a printed protocol, it is of all results of its data set.
    pub(super) fn is_of_protocol(&self, protocol: &str) -> bool {
        match self.protocol.as_deref() {
            Some(printed) => printed == protocol || [printed, protocol].iter().all(|name| SAME_IMAGES.contains(name)),
            None => protocol.strip_prefix(&self.dataset).is_some_and(|rest| rest.starts_with('-')),
        }
    }

    /// True if the row is of this row of a sweep and of this method. `is_only` is true if the row of the sweep has no other
    /// method.
    pub(super) fn is_own(&self, row: &str, method: &str, is_only: bool) -> bool {
        let is_method = match &self.method {
            Some(_) => self.has_method(method),
            None => is_only || method == DEFAULT_METHOD,
        };
        is_named(row, &self.row, &self.dataset) && is_method
    }

    /// True if the row ranks the model of this row of a sweep by this method.
    pub(super) fn ranks_model(&self, row: &str, method: &str) -> bool {
        let is_model = |printed: &String| is_named(row, printed, &self.dataset);
        self.model_row.as_ref().is_some_and(is_model) && self.has_method(method)
    }

    /// True if the method is the printed one. It has all printed parameters, and can have others.
    fn has_method(&self, method: &str) -> bool {
        let has = |printed: &String| {
            method_name(printed) == method_name(method)
                && parameters(printed).all(|printed| parameters(method).any(|own| own == printed))
        };
        self.method.as_ref().is_some_and(has)
    }

    /// Number of printed parameters of the method.
    pub(super) fn n_parameters(&self) -> usize {
        self.method.iter().flat_map(|method| parameters(method)).count()
    }

    /// Model, objective and features, as far as they are printed: `vse, sum, vgg19`.
    pub(super) fn about(&self) -> Option<String> {
        let printed: Vec<&str> =
            [&self.model, &self.objective, &self.features].into_iter().flatten().map(String::as_str).collect();
        (!printed.is_empty()).then(|| printed.join(", "))
    }

    /// Number of the row, with the printed name of its method.
    pub(super) fn name(&self) -> String {
        let method = self.printed_method.as_ref().map_or_else(String::new, |method| format!(" ({method})"));
        format!("{}{method}", self.row)
    }
}

/// True if `name` is that of the printed row, alone or beside that of its data set: `1`, `f30k, 1`. A sweep with an axis of
/// data sets and one of rows has such names.
fn is_named(name: &str, row: &str, dataset: &str) -> bool {
    name == row || name.split_once(", ").is_some_and(|parts| parts == (dataset, row) || parts == (row, dataset))
}

/// Columns that are the same in all tables that print a row.
fn identity(row: &PrintedRow) -> [Option<&str>; 6] {
    [
        Some(&row.row),
        Some(&row.dataset),
        row.protocol.as_deref(),
        row.model_row.as_deref(),
        row.method.as_deref(),
        row.printed_method.as_deref(),
    ]
}

/// Printed rows that do not stand beside a row of a sweep, and rows without a printed one.
#[derive(Debug, Default)]
pub(super) struct PrintedRemarks {
    /// Protocols of the printed rows, if they are of other data than the results.
    pub(super) other_protocols: Vec<String>,
    /// Protocols of the printed rows, if they are others than that of the results, of the same images.
    pub(super) same_images: Vec<String>,
    /// Printed rows without a protocol.
    pub(super) without_protocol: Vec<String>,
    /// Rows without a printed one.
    pub(super) without: Vec<String>,
    /// Rows with several printed ones, which are listed.
    pub(super) ambiguous: Vec<String>,
    /// Printed rows of the protocol that no row belongs to.
    pub(super) left_over: Vec<String>,
}

impl PrintedRemarks {
    /// Adds what is to be said about a printed row beside results with this protocol.
    pub(super) fn add(&mut self, printed: &PrintedRow, protocol: &str, is_same_data: bool) {
        let (remarks, remark) = match printed.pool() {
            (dataset, None) if !is_same_data => (&mut self.other_protocols, format!("{dataset} without a protocol")),
            (_, Some(other)) if !is_same_data => (&mut self.other_protocols, other.to_owned()),
            (_, Some(other)) if other != protocol => (&mut self.same_images, other.to_owned()),
            (_, None) => (&mut self.without_protocol, printed.name()),
            _ => return,
        };
        if !remarks.contains(&remark) {
            remarks.push(remark);
        }
    }
}

impl PrintedRow {
    /// Reads a row of `published`.
    pub(super) fn read(batch: &RecordBatch, row: usize) -> Result<Self> {
        let text = |name: &str| -> Result<Option<String>> {
            let column = tables::text_column(batch, name)?;
            Ok(column.is_valid(row).then(|| column.value(row).to_owned()))
        };
        let key = |name: &str| -> Result<String> { Ok(text(name)?.unwrap_or_default()) };
        let schema = batch.schema();
        let columns = schema.fields().iter().zip(batch.columns());
        let numbers = columns.filter(|(field, column)| field.data_type() == &DataType::Float64 && column.is_valid(row));
        Ok(Self {
            table: key("table")?,
            row: key("row")?,
            dataset: key("dataset")?,
            protocol: text("protocol")?,
            model_row: text("model_row")?,
            method: text("method")?,
            model: text("model")?,
            objective: text("objective")?,
            features: text("features")?,
            printed_method: text("printed_method")?,
            numbers: numbers
                .map(|(field, column)| (field.name().clone(), column.as_primitive::<Float64Type>().value(row)))
                .collect(),
            is_without_sums: false,
        })
    }

    /// Leaves out sums.
    pub(super) fn remove_sums(&mut self) {
        self.is_without_sums = true;
        self.numbers.retain(|column, _| !column.contains("sum"));
    }

    /// Adds the numbers of the same row in another table.
    pub(super) fn add(&mut self, other: Self) {
        self.numbers.extend(other.numbers);
    }
}

/// Tables of each paper, in the order of the printed rows.
type PaperTables = BTreeMap<String, Vec<String>>;

/// Adds a table to those of its paper.
fn add_table(papers: &mut PaperTables, paper: &str, table: &str) {
    let known = papers.entry(paper.to_owned()).or_default();
    if !known.iter().any(|known| known == table) {
        known.push(table.to_owned());
    }
}

/// Problem of a paper, or of tables of it, that `published` does not have.
fn missing_tables(published: &TableRef, paper: &str, tables: &[String], papers: &PaperTables) -> Option<Problem> {
    let paper_tables = papers.get(paper);
    let is_missing = |table: &&String| paper_tables.is_none_or(|known| !known.contains(*table));
    let missing: Vec<&str> = tables.iter().filter(is_missing).map(String::as_str).collect();
    let (setting, message) = match paper_tables {
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
    pub(crate) fn check_printed(&self, known: &KnownFacts) -> Vec<Problem> {
        let (Some(published), Some(paper)) = (&self.published, &self.paper) else { return Vec::new() };
        let Some(names) = known.get::<Vec<PrintedName>>(published) else { return Vec::new() };
        let mut papers = PaperTables::new();
        for name in names {
            add_table(&mut papers, &name.paper, &name.table);
        }
        if let Some(problem) = missing_tables(published, paper, &self.table, &papers) {
            return vec![problem];
        }
        let table_names = names.iter().filter(|name| name.paper == *paper && self.table.contains(&name.table));
        let printed: BTreeSet<(&str, &str)> = table_names
            .flat_map(|name| std::iter::once(&name.row).chain(&name.model_row).map(|row| (&**row, &*name.dataset)))
            .collect();
        let runs = self.runs();
        let rows = runs.rows();
        let place = format!("table {} of `{paper}`", self.table.join(", "));
        let is_printed = |row: &str| printed.iter().any(|(name, dataset)| is_named(row, name, dataset));
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

/// Name without parameters, with the method that corrects the scores: `relaxed_greedy over csls`.
fn method_name(method: &str) -> String {
    let parts = method.split(", ").enumerate();
    let named = parts.filter(|(place, part)| *place == 0 || is_correction(part));
    named.map(|(_, part)| part).collect::<Vec<_>>().join(" ")
}

/// Parameters, and remarks such as `chosen on val`.
pub(super) fn parameters(method: &str) -> impl Iterator<Item = &str> {
    method.split(", ").skip(1).filter(|part| !is_correction(part))
}

fn is_correction(part: &str) -> bool {
    part.starts_with("over ")
}
