//! Section of `significance_tests`: rsum of each result and of its baseline, and the significance of the difference.

use arrow::array::Array;

use super::document::{PageBlock, Section};
use super::page_data::one_decimal;
use super::table::PageTable;
use crate::error::Result;
use crate::stage::StageContext;
use crate::tables;

const NOTE: &str = "Differences between two results of the same queries: the interval is that of the paired bootstrap over images, p \
     that of the randomisation test (two-sided, not corrected for the number of rows). Wins and losses are hits at 1, \
     5 and 10 of the result only and of the baseline only.";

/// Section of the table `input`.
pub(super) fn section(cx: &mut StageContext<'_>, input: &str) -> Result<Section> {
    let numbers = ["rsum", "baseline: rsum", "difference", "95 %", "p", "wins", "losses"];
    let mut table = PageTable::new(&["protocol", "method", "baseline"], &numbers);
    while let Some(batch) = cx.read_next(input)? {
        let text = |name: &str| tables::text_column(&batch, name);
        let (protocols, measures) = (text("protocol")?, text("measure")?);
        let names = [(text("method")?, text("parameters")?), (text("baseline")?, text("baseline_parameters")?)];
        let number = |name: &str| tables::float_column(&batch, name);
        let (value, baseline, difference) = (number("value")?, number("baseline_value")?, number("difference")?);
        let (low, high, p) = (number("ci95_low")?, number("ci95_high")?, number("p_value")?);
        let (wins, losses) = (tables::int_column(&batch, "wins")?, tables::int_column(&batch, "losses")?);
        for row in (0..batch.num_rows()).filter(|&row| measures.value(row) == "rsum") {
            let [method, other] = names.map(|(name, parameters)| {
                let numbers = parameters.is_valid(row).then(|| format!(", {}", parameters.value(row)));
                format!("{}{}", name.value(row), numbers.unwrap_or_default())
            });
            table.push([
                protocols.value(row).to_owned(),
                method,
                other,
                one_decimal(value.value(row)),
                one_decimal(baseline.value(row)),
                format!("{:+.1}", difference.value(row)),
                format!("{:+.1} … {:+.1}", low.value(row), high.value(row)),
                format!("{:.4}", p.value(row)),
                wins.value(row).to_string(),
                losses.value(row).to_string(),
            ]);
        }
    }
    Ok(Section::new("Significance", vec![PageBlock::Table(table), PageBlock::Note(NOTE.to_owned())]))
}
