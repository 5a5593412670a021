//! The validation after every epoch, as a table.

use super::document::{Block, Section};
use super::elements::{DIRECTIONS, Epoch, kept, tenth};
use super::table::{Column, Kind, Table};
use crate::tables::CUTOFFS;

/// The section, where there was one.
pub(super) fn section(epochs: &[Epoch]) -> Option<Section> {
    let mut table = Table::new(&[], &["epoch", "mean loss"]);
    for group in DIRECTIONS {
        table.group(group, CUTOFFS.map(|k| format!("R@{k}")));
    }
    table.columns.extend([Column::number("rsum"), Column { kind: Kind::Text, ..Column::number("") }]);
    let kept = kept(epochs).map(|epoch| epoch.number);
    for epoch in epochs {
        let mut cells = vec![epoch.number.to_string(), format!("{:.4}", epoch.loss)];
        cells.extend(epoch.recalls.iter().flatten().chain([&epoch.rsum]).map(|&value| tenth(value)));
        cells.push(if Some(epoch.number) == kept { "kept" } else { "" }.to_owned());
        table.push(cells);
    }
    (!epochs.is_empty()).then(|| Section::new("Validation", vec![Block::Table(table)]))
}
