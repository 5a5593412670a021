//! Section of the table of validation by epoch.

use super::document::{PageBlock, Section};
use super::page_data::{DIRECTIONS, ValidationEpoch, best_epoch, one_decimal};
use super::table::{PageColumn, PageColumnKind, PageTable};
use pairloom_tables::DEFAULT_CUTOFFS;

/// Section of validation, if there was one.
pub(super) fn section(epochs: &[ValidationEpoch]) -> Option<Section> {
    let mut table = PageTable::new(&[], &["epoch", "mean loss"]);
    for group in DIRECTIONS {
        table.group(group, DEFAULT_CUTOFFS.map(|k| format!("R@{k}")));
    }
    table
        .columns
        .extend([PageColumn::number("rsum"), PageColumn { kind: PageColumnKind::Text, ..PageColumn::number("") }]);
    let kept = best_epoch(epochs).map(|epoch| epoch.number);
    for epoch in epochs {
        let mut cells = vec![epoch.number.to_string(), format!("{:.4}", epoch.loss)];
        cells.extend(epoch.recalls.iter().flatten().chain([&epoch.rsum]).map(|&value| one_decimal(value)));
        cells.push(if Some(epoch.number) == kept { "kept" } else { "" }.to_owned());
        table.push(cells);
    }
    (!epochs.is_empty()).then(|| Section::new("Validation", vec![PageBlock::Table(table)]))
}
