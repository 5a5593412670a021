//! Comparison of two `rankings` tables outside of a pipeline: the same tests as the stage, method by method.

use arrow::array::RecordBatch;

use super::hits::collect_hits;
use super::paired::differences;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::CancelToken;

/// Difference in rsum between two rankings of the same queries by the same method.
#[derive(Debug, Clone, PartialEq)]
pub struct RankingComparison {
    /// Evaluation protocol.
    pub protocol: String,
    /// Method with its parameters.
    pub method: String,
    /// rsum in the first and in the second table.
    pub rsum: [f64; 2],
    /// Paired bootstrap interval of the difference, second minus first, 95 %.
    pub ci95: (f64, f64),
    /// p-value of the paired randomisation test over images.
    pub p_value: f64,
    /// Number of images.
    pub n_images: usize,
}

/// Compares two `rankings` tables, each given as batches. Methods and protocols of only one table are left out.
///
/// Cost: 10,000 randomisations and 1,000 bootstrap draws over the images for each method.
///
/// # Errors
/// The tables have other cut-offs or other queries, or columns are missing.
pub fn compare_rankings(
    first: impl Iterator<Item = Result<RecordBatch>>,
    second: impl Iterator<Item = Result<RecordBatch>>,
) -> Result<Vec<RankingComparison>> {
    let (first, second) = (collect_hits("first", first)?, collect_hits("second", second)?);
    if first.cutoffs != second.cutoffs {
        let message = format!("the first has cut-offs {:?}, the second {:?}", first.cutoffs, second.cutoffs);
        return Err(Error::data(message));
    }
    let mut found = Vec::new();
    for ours in &second.methods {
        let same = first.methods.iter().find(|of| of.protocol == ours.protocol && of.method == ours.method);
        let Some(theirs) = same else { continue };
        let all = differences(&ours.queries, &theirs.queries, &second.cutoffs, &CancelToken::new())?;
        let rsum = all.into_iter().next().ok_or_else(|| Error::internal("no measure was compared"))?;
        found.push(RankingComparison {
            protocol: ours.protocol.clone(),
            method: ours.method.to_string(),
            rsum: [rsum.values[1], rsum.values[0]],
            ci95: rsum.ci95,
            p_value: rsum.p_value,
            n_images: rsum.n_images,
        });
    }
    Ok(found)
}
