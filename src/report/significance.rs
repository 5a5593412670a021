//! Section of `significance_tests`: rsum of each result (A) and of its baseline (B), and the significance of the
//! difference.

use arrow::array::{Array, RecordBatch};

use super::document::{PageBlock, Section};
use super::page_data::one_decimal;
use super::table::{Cell, PageTable};
use pairloom_base::error::Result;
use pairloom_stage::StageContext;
use pairloom_tables as tables;

const NOTE: &str = "Differences between two results A and B of the same queries. In small print or brackets: the settings of A and of B \
     that differ, in the evaluation and in all that it follows from. The interval is that of the paired bootstrap over \
     images, p that of the randomisation test (two-sided, not corrected for the number of rows). Wins and losses are \
     hits at all cut-offs of A only and of B only.";

/// Section of the tables `inputs`.
pub(super) fn section(cx: &mut StageContext<'_>, inputs: &[String]) -> Result<Section> {
    let numbers = ["rsum of A", "rsum of B", "A − B", "95 %", "p", "wins", "losses"];
    let mut table = PageTable::new(&["protocol", "A", "B"], &numbers);
    for input in inputs {
        while let Some(batch) = cx.read_next(input)? {
            add_rows(&batch, &mut table)?;
        }
    }
    Ok(Section::new("Significance", vec![PageBlock::Table(table), PageBlock::Note(NOTE.to_owned())]))
}

fn add_rows(batch: &RecordBatch, table: &mut PageTable) -> Result<()> {
    let text = |name: &str| tables::text_column(batch, name);
    let (protocols, measures) = (text("protocol")?, text("measure")?);
    let names = [
        (text("method")?, text("parameters")?, text("settings")?),
        (text("baseline")?, text("baseline_parameters")?, text("baseline_settings")?),
    ];
    let number = |name: &str| tables::float_column(batch, name);
    let (value, baseline, difference) = (number("value")?, number("baseline_value")?, number("difference")?);
    let (low, high, p) = (number("ci95_low")?, number("ci95_high")?, number("p_value")?);
    let (wins, losses) = (tables::int_column(batch, "wins")?, tables::int_column(batch, "losses")?);
    for row in (0..batch.num_rows()).filter(|&row| measures.value(row) == "rsum") {
        let [method, other] = names.map(|(name, parameters, settings)| {
            let numbers = parameters.is_valid(row).then(|| format!(", {}", parameters.value(row)));
            let small = settings.is_valid(row).then(|| settings.value(row).to_owned());
            Cell { small, ..format!("{}{}", name.value(row), numbers.unwrap_or_default()).into() }
        });
        table.push([
            protocols.value(row).into(),
            method,
            other,
            one_decimal(value.value(row)).into(),
            one_decimal(baseline.value(row)).into(),
            format!("{:+.1}", difference.value(row)).into(),
            format!("{:+.1} … {:+.1}", low.value(row), high.value(row)).into(),
            format!("{:.4}", p.value(row)).into(),
            wins.value(row).to_string().into(),
            losses.value(row).to_string().into(),
        ]);
    }
    Ok(())
}
