//! Curves of validation by epoch, of all rows of a sweep in one picture.

use super::read::SweepReport;
use crate::document::{Figure, PageBlock, Section, Series, legend_entry};
use crate::page_data::ValidationEpoch;
use crate::plots::{Curve, WIDE, axis_range, draw_sized, padded_range, value_range};
use pairloom_base::error::Result;

/// Section of the curves of rsum, the mean over the runs of each row; `None` without a row of two epochs.
pub(super) fn section(report: &SweepReport) -> Result<Option<Section>> {
    let runs = &report.validation_runs;
    let mut lines = Vec::new();
    let mut legend = Vec::new();
    for (number, row) in runs.rows().into_iter().enumerate() {
        let row_runs = runs.runs.iter().zip(&report.validations).filter(|(run, _)| run.row == row);
        let points = mean_rsum(&row_runs.map(|(_, epochs)| epochs.as_slice()).collect::<Vec<_>>());
        legend.push(legend_entry(Series::Row(number), row));
        lines.push(Curve::new(points, Series::Row(number), 2));
    }
    if lines.iter().all(|line| line.points.len() < 2) {
        return Ok(None);
    }
    let points = || lines.iter().flat_map(|line| &line.points);
    let (x, y) = (value_range(points().map(|point| point.0)), axis_range(points().map(|point| point.1)));
    let svg = draw_sized(WIDE, x.0..x.1, padded_range(y.0, y.1), "epoch", &lines, &[])?;
    let mean = if runs.has_repetitions() { format!(", mean over {}", report.repeats) } else { String::new() };
    let figure = Figure { title: format!("Validation rsum by epoch{mean}"), legend, svg };
    Ok(Some(Section::new("Curves of all rows", vec![PageBlock::WideFigure(figure)])))
}

/// Mean rsum of runs by epoch, over the epochs that all have.
#[expect(clippy::cast_precision_loss, reason = "epochs and runs are few")]
fn mean_rsum(runs: &[&[ValidationEpoch]]) -> Vec<(f64, f64)> {
    let rsum =
        |run: &[ValidationEpoch], epoch: i64| run.iter().find(|known| known.number == epoch).map(|known| known.rsum);
    let epochs = runs.first().into_iter().flat_map(|run| run.iter()).map(|epoch| epoch.number);
    let mean = |epoch: i64| -> Option<f64> {
        let values: Vec<f64> = runs.iter().map(|run| rsum(run, epoch)).collect::<Option<_>>()?;
        Some(values.iter().sum::<f64>() / values.len() as f64)
    };
    epochs.filter_map(|epoch| Some((epoch as f64, mean(epoch)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_means_over_the_epochs_that_all_runs_have() {
        let run = |rsums: &[f64]| -> Vec<ValidationEpoch> {
            let epoch = |(number, rsum): (i64, &f64)| ValidationEpoch {
                number,
                loss: 0.0,
                rsum: *rsum,
                recalls: [[0.0; 3]; 2],
                best: false,
            };
            (0..).zip(rsums).map(epoch).collect()
        };
        let (one, two) = (run(&[100.0, 200.0, 300.0]), run(&[140.0, 210.0]));
        assert_eq!(mean_rsum(&[&one, &two]), [(0.0, 120.0), (1.0, 205.0)]);
        assert_eq!(mean_rsum(&[&one]).len(), 3);
        assert_eq!(mean_rsum(&[]), []);
    }
}
