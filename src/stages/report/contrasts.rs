//! Differences beyond chance, of `contrasts`: rsum of each result beside its baseline's.

use arrow::array::Array;

use super::document::{Block, Section};
use super::elements::tenth;
use super::table::Table;
use crate::error::Result;
use crate::stage::Cx;
use crate::tables;

const NOTE: &str = "Differences between two results of the same queries: the interval is that of the paired bootstrap over images, p \
     that of the randomisation test (two-sided, not corrected for the number of rows). Won and lost are hits at 1, 5 \
     and 10 that only one of the two has.";

/// The section of one table of contrasts.
pub(super) fn section(cx: &mut Cx<'_>, input: &str) -> Result<Section> {
    let numbers = ["rsum", "baseline: rsum", "difference", "95 %", "p", "won", "lost"];
    let mut table = Table::new(&["protocol", "method", "baseline"], &numbers);
    while let Some(batch) = cx.next(input)? {
        let text = |name: &str| tables::texts(&batch, name);
        let (protocols, measures) = (text("protocol")?, text("measure")?);
        let names = [(text("method")?, text("parameters")?), (text("baseline")?, text("baseline_parameters")?)];
        let number = |name: &str| tables::numbers(&batch, name);
        let (value, baseline, difference) = (number("value")?, number("baseline_value")?, number("difference")?);
        let (low, high, p) = (number("ci95_low")?, number("ci95_high")?, number("p_value")?);
        let (won, lost) = (tables::ids(&batch, "won")?, tables::ids(&batch, "lost")?);
        for row in (0..batch.num_rows()).filter(|&row| measures.value(row) == "rsum") {
            let [method, other] = names.map(|(name, parameters)| {
                let numbers = parameters.is_valid(row).then(|| format!(", {}", parameters.value(row)));
                format!("{}{}", name.value(row), numbers.unwrap_or_default())
            });
            table.push([
                protocols.value(row).to_owned(),
                method,
                other,
                tenth(value.value(row)),
                tenth(baseline.value(row)),
                format!("{:+.1}", difference.value(row)),
                format!("{:+.1} … {:+.1}", low.value(row), high.value(row)),
                format!("{:.4}", p.value(row)),
                won.value(row).to_string(),
                lost.value(row).to_string(),
            ]);
        }
    }
    Ok(Section::new("Beyond chance", vec![Block::Table(table), Block::Note(NOTE.to_owned())]))
}
