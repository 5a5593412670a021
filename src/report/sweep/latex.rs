//! LaTeX rendering of a sweep: one table for each protocol, with the rules of booktabs. Texts and numbers need no package and
//! no particular engine.

use super::measures::SweepMeasure;
use super::read::SweepReport;
use super::section::{HS_SUM_OF_ROWS, OCCURRENCES, OTHER_HS_SUM, baseline_name};
use super::table::{BaselineComparison, SweepRow, SweepTable, SweepValue, p_value, signed};
use crate::page_data::DIRECTIONS;

/// Maximum number of lines of rows in a table, so that it fits on a page. Longer tables have parts.
const MAX_LINES: usize = 42;

/// Length of the longest name of a method that stays on one line.
const METHOD_LINE: usize = 26;

/// Mark of an hs-sum that counts an image once.
const COUNTED_ONCE: &str = "{}$^\\dagger$";

/// Mark of a printed rsum that is the sum of the printed recalls.
const OUR_SUM: &str = "{}$^*$";

/// File with the tables of all protocols.
pub(crate) fn file(title: &str, report: &SweepReport) -> String {
    let head =
        format!("% Made by Pairloom {}.\n% Needs \\usepackage{{booktabs,graphicx}}.\n", env!("CARGO_PKG_VERSION"));
    let protocol_title = |table: &SweepTable| {
        let main = LatexTable { report, table, measures: &table.measures, extra: None }.render(title);
        let ncs = report.relevance.as_deref().filter(|_| !table.ncs_measures.is_empty());
        let ncs =
            ncs.map(|name| LatexTable { report, table, measures: &table.ncs_measures, extra: Some(Extra::Ncs(name)) });
        let hubs = table.has_printed_occurrences().then_some(Extra::Hubs);
        let hubs =
            hubs.map(|extra| LatexTable { report, table, measures: &table.occurrence_measures, extra: Some(extra) });
        main + &ncs.into_iter().chain(hubs).map(|more| more.render(title)).collect::<String>()
    };
    head + &report.tables.iter().map(protocol_title).collect::<String>()
}

/// Table of a protocol.
struct LatexTable<'r> {
    report: &'r SweepReport,
    table: &'r SweepTable,
    measures: &'r [SweepMeasure],
    /// Measures other than recall. Such a table has no column after the measures.
    extra: Option<Extra<'r>>,
}

/// Measures of a table other than recall.
enum Extra<'r> {
    /// NCS by this relevance.
    Ncs(&'r str),
    /// k-occurrences.
    Hubs,
}

impl LatexTable<'_> {
    fn render(&self, title: &str) -> String {
        let table = self.table;
        let texts = self.text_headings();
        let others = self.other_headings();
        let numbers = self.measures.len() + others.len();
        let (groups, rules) = self.groups(texts.len(), others.len());
        let measures = self.measures.iter().map(|measure| escaped(&measure.heading()));
        let headings: Vec<String> = texts.iter().cloned().chain(measures).chain(others).collect();
        let head = format!("\\toprule\n{groups}{rules}{} \\\\\n\\midrule\n", headings.join(" & "));
        let method = if table.rows.iter().any(|row| row.method.len() > METHOD_LINE) { "p{36mm}" } else { "l" };
        let columns = format!("l{}{}", if table.has_methods() { method } else { "" }, "r".repeat(numbers));
        let parts = self.parts();
        let (mut latex, count) = (String::new(), parts.len());
        for (rows, part) in parts.into_iter().zip(1..) {
            let (caption, label) = match part {
                1 => (self.caption(title), self.label()),
                _ => (format!("{}: {}.", escaped(title), escaped(&table.protocol)), format!("{}-{part}", self.label())),
            };
            let place = if count > 1 { format!(" Part {part} of {count}.") } else { String::new() };
            latex += &format!(
                "\n\\begin{{table}}\n\\centering\n\\setlength{{\\belowcaptionskip}}{{6pt}}\n\
                 \\caption{{{caption}{place}}}\n\\label{{tab:{label}}}\n\\footnotesize\n\\setlength{{\\tabcolsep}}{{3pt}}\n\
                 % Wider than the text, it is made smaller.\n\
                 \\resizebox{{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}}{{!}}{{%\n\
                 \\begin{{tabular}}{{{columns}}}\n{head}{rows}\\bottomrule\n\\end{{tabular}}}}\n\\end{{table}}\n"
            );
        }
        latex
    }

    /// Label of the first part.
    fn label(&self) -> String {
        let end = match self.extra {
            Some(Extra::Ncs(_)) => "-ncs",
            Some(Extra::Hubs) => "-hubs",
            None => "",
        };
        label(&self.table.protocol) + end
    }

    /// Rows of each part. A part ends between two rows of different names, unless one name alone fills more than a page.
    fn parts(&self) -> Vec<String> {
        let mut parts: Vec<String> = Vec::new();
        let mut lines = 0;
        for group in self.table.rows.chunk_by(|left, right| left.row == right.row) {
            let wrapped = |row: &SweepRow| if self.table.has_methods() { row.method.len() / METHOD_LINE } else { 0 };
            let rows: String = group.iter().map(|row| self.row(row)).collect();
            let own = rows.lines().count() + group.iter().map(wrapped).sum::<usize>();
            lines += own;
            match parts.last_mut().filter(|_| lines <= MAX_LINES) {
                Some(part) => part.push_str(&rows),
                None => {
                    parts.push(rows);
                    lines = own;
                }
            }
        }
        parts
    }

    fn text_headings(&self) -> Vec<String> {
        let method = self.table.has_methods().then(|| "method".to_owned());
        std::iter::once(escaped(&self.report.runs.row_header)).chain(method).collect()
    }

    /// Headings of the columns after the measures.
    fn other_headings(&self) -> Vec<String> {
        let mut headings = Vec::new();
        if self.extra.is_some() {
            return headings;
        }
        if self.table.has_repetitions() {
            headings.push("runs".to_owned());
        }
        if self.table.has_printed_rsum() {
            headings.push("to printed".to_owned());
        }
        if self.table.has_comparisons() {
            let baseline = escaped(baseline_name(&self.table.baselines()));
            headings.extend([format!("to {baseline}"), "$p$".to_owned()]);
        }
        headings
    }

    /// Line of the names of the two directions, and the rules below them.
    fn groups(&self, n_texts: usize, n_others: usize) -> (String, String) {
        let mut cells = vec![String::new(); n_texts];
        let mut rules = String::new();
        let mut column = n_texts + 1;
        for measures in self.measures.chunk_by(|left, right| left.direction() == right.direction()) {
            let last = column + measures.len() - 1;
            match measures[0].direction() {
                Some(direction) => {
                    let name = escaped(DIRECTIONS[direction].name);
                    cells.push(format!("\\multicolumn{{{}}}{{c}}{{{name}}}", measures.len()));
                    rules += &format!("\\cmidrule(lr){{{column}-{last}}}");
                }
                None => cells.extend(measures.iter().map(|_| String::new())),
            }
            column = last + 1;
        }
        cells.extend((0..n_others).map(|_| String::new()));
        (format!("{} \\\\\n", cells.join(" & ")), format!("{rules}\n"))
    }

    /// Line of a row, and the line of its printed values.
    fn row(&self, row: &SweepRow) -> String {
        let has_methods = self.table.has_methods();
        let mut cells = vec![escaped(&row.row)];
        cells.extend(has_methods.then(|| format!("\\raggedright {}", escaped(&row.method))));
        let value = |measure: &SweepMeasure| {
            let is_once = *measure == SweepMeasure::HsSum && self.table.is_other_hs_sum(row);
            value(*measure, row.value(*measure)) + if is_once { COUNTED_ONCE } else { "" }
        };
        cells.extend(self.measures.iter().map(value));
        if self.extra.is_some() {
            return self.lines(row, &cells);
        }
        if self.table.has_repetitions() {
            cells.push(number(&row.results.len().to_string()));
        }
        if self.table.has_printed_rsum() {
            cells.push(row.printed_difference().map_or_else(String::new, |difference| number(&signed(difference))));
        }
        if self.table.has_comparisons() {
            let comparison = row.comparison.as_ref();
            let is_several = self.table.baselines().len() > 1;
            let difference = |of: &BaselineComparison| {
                let name = format!(" {{\\scriptsize {}}}", escaped(&of.baseline));
                number(&signed(of.difference)) + if is_several { &name } else { "" }
            };
            cells.push(comparison.map_or_else(String::new, difference));
            let test = comparison.and_then(|of| of.test);
            cells.push(test.map_or_else(String::new, |test| number(&p_value(test.t_test_p))));
        }
        self.lines(row, &cells)
    }

    /// Line of cells, and the line of the printed values.
    fn lines(&self, row: &SweepRow, cells: &[String]) -> String {
        format!("{} \\\\\n{}", cells.join(" & "), self.printed(row, cells.len()))
    }

    fn printed(&self, row: &SweepRow, n_cells: usize) -> String {
        let Some(printed) = &row.printed else { return String::new() };
        let about = |text: &Option<String>| text.as_deref().map(escaped);
        let mut cells = vec!["\\quad printed".to_owned()];
        if self.table.has_methods() {
            cells.push(about(&printed.printed_method).unwrap_or_default());
        } else if let Some(objective) = about(&printed.objective) {
            cells[0] += &format!(": {objective}");
        }
        let is_computed = row.has_computed_rsum();
        let value = |measure: &SweepMeasure| {
            let mark = if is_computed && *measure == SweepMeasure::Rsum { OUR_SUM } else { "" };
            printed.value(*measure).map_or_else(String::new, |value| number(&measure.text(value)) + mark)
        };
        cells.extend(self.measures.iter().map(value));
        let small = |cell: String| if cell.is_empty() { cell } else { format!("\\scriptsize {cell}") };
        let mut cells: Vec<String> = cells.into_iter().map(small).collect();
        cells.resize(n_cells, String::new());
        format!("{} \\\\\n", cells.join(" & "))
    }

    fn caption(&self, title: &str) -> String {
        let mut caption = format!("{}: {}.", escaped(title), escaped(&self.table.protocol));
        match self.extra {
            Some(Extra::Ncs(relevance)) => {
                caption += &format!(" NCS by {}; (N): without the query's own matches.", escaped(relevance));
            }
            Some(Extra::Hubs) => caption += &format!(" {OCCURRENCES}"),
            None if self.table.has_hs_sum_of_rows() => caption += &format!(" {HS_SUM_OF_ROWS}"),
            None => {}
        }
        if self.extra.is_none() && self.table.has_other_hs_sums() {
            caption += &format!(" {COUNTED_ONCE}: {OTHER_HS_SUM}");
        }
        if self.table.has_repetitions() {
            caption += &format!(" Mean $\\pm$ sample standard deviation over {}.", escaped(&self.report.repeats));
        }
        if self.table.rows.len() > 1 && !matches!(self.extra, Some(Extra::Hubs)) {
            caption += " Best mean in bold.";
        }
        if let Some(printed) = &self.report.printed {
            let tables: Vec<String> = printed.tables.iter().map(|table| escaped(table)).collect();
            caption += &format!(" Printed: {}, table {}, single runs", escaped(&printed.paper), tables.join(", "));
            let remarks = &self.table.remarks;
            for (names, text) in [
                (&remarks.other_protocols, "of other data"),
                (&remarks.same_images, "of the same images"),
                (&remarks.without_protocol, "protocol not printed"),
            ] {
                if !names.is_empty() {
                    caption += &format!(", {text} ({})", escaped(&names.join(", ")));
                }
            }
            caption += ".";
        }
        if self.extra.is_none() && self.table.has_computed_rsum() {
            caption += &format!(" {OUR_SUM}: our sum of the printed recalls.");
        }
        let baselines = self.table.baselines();
        if self.table.has_repetitions() && !baselines.is_empty() && self.extra.is_none() {
            let row = match baselines.as_slice() {
                [only] => format!("row {}", escaped(only)),
                _ => "the row in small print".to_owned(),
            };
            caption += &format!(" $p$: paired $t$-test of rsum against {row}.");
        }
        caption
    }
}

fn value(measure: SweepMeasure, value: Option<SweepValue>) -> String {
    let Some((value, statistics)) = value.and_then(|value| Some((value, value.statistics?))) else {
        return String::new();
    };
    let deviation = statistics.standard_deviation.map(|deviation| measure.text(deviation));
    mean(&measure.text(statistics.mean), deviation.as_deref(), value.is_best)
}

/// Label of a protocol: lower-case letters, digits and hyphens.
fn label(protocol: &str) -> String {
    protocol.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// Escapes a text. Letters and signs that pdfLaTeX does not know in its default encoding become question marks.
pub(super) fn escaped(text: &str) -> String {
    text.chars().map(escaped_char).collect()
}

fn escaped_char(c: char) -> String {
    let known = match c {
        '\\' => "\\textbackslash{}",
        '~' => "\\textasciitilde{}",
        '^' => "\\textasciicircum{}",
        '<' => "\\textless{}",
        '>' => "\\textgreater{}",
        '|' => "\\textbar{}",
        '"' => "''",
        '±' => "$\\pm$",
        '×' => "$\\times$",
        '−' => "$-$",
        '→' => "$\\to$",
        '–' => "--",
        '—' => "---",
        '’' => "'",
        '‘' => "`",
        '…' => "\\dots{}",
        'α' => "$\\alpha$",
        'β' => "$\\beta$",
        'γ' => "$\\gamma$",
        'ε' => "$\\epsilon$",
        'λ' => "$\\lambda$",
        'τ' => "$\\tau$",
        'φ' => "$\\phi$",
        '&' | '%' | '$' | '#' | '_' | '{' | '}' => return format!("\\{c}"),
        // Brackets after a line break would be read as its argument, and a star as its variant.
        '[' | ']' | '*' => return format!("{{{c}}}"),
        'À'..='ÿ' if !matches!(c, 'Ð' | 'Þ' | 'ð' | 'þ' | '÷') => return c.to_string(),
        ' '..='~' => return c.to_string(),
        c if c.is_whitespace() || c.is_control() => " ",
        _ => "?",
    };
    known.to_owned()
}

/// Number, with a sign in mathematics: `$-3.2$`.
pub(super) fn number(text: &str) -> String {
    format!("${text}$")
}

/// Mean with its deviation: `$45.1 \pm 0.8$`. The mean is bold if it is the best.
pub(super) fn mean(mean: &str, deviation: Option<&str>, is_best: bool) -> String {
    let deviation = deviation.map_or_else(String::new, |deviation| format!(" \\pm {deviation}"));
    if !is_best {
        return format!("${mean}{deviation}$");
    }
    let bold = format!("\\textbf{{{}}}", mean.replace('-', "$-$"));
    if deviation.is_empty() { bold } else { format!("{bold}${{}}{deviation}$") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_have_no_commands_left() {
        assert_eq!(
            escaped("50 % of R&D_1 #2 {a} $x$ ~ ^ \\input{/etc}"),
            "50 \\% of R\\&D\\_1 \\#2 \\{a\\} \\$x\\$ \\textasciitilde{} \\textasciicircum{} \\textbackslash{}input\\{/etc\\}"
        );
        assert_eq!(
            escaped("a < b > c | \"d\" [e] *"),
            "a \\textless{} b \\textgreater{} c \\textbar{} ''d'' {[}e{]} {*}"
        );
        assert_eq!(escaped("csls, λ = 2 × 3 − é\n漢\u{0}."), "csls, $\\lambda$ = 2 $\\times$ 3 $-$ é ? .");
    }

    #[test]
    fn the_best_mean_is_bold() {
        assert_eq!(mean("45.1", Some("0.8"), false), "$45.1 \\pm 0.8$");
        assert_eq!(mean("45.1", Some("0.8"), true), "\\textbf{45.1}${} \\pm 0.8$");
        assert_eq!((mean("45.1", None, false), mean("-0.5", None, true)), ("$45.1$".into(), "\\textbf{$-$0.5}".into()));
        assert_eq!(number("-3.2"), "$-3.2$");
    }
}
