//! Distribution of a pass: publishes its job, waits for its sections, and merges them.

use az::SaturatingAs;

use super::job::SearchJob;
use super::vectors::PublishedVectors;
use super::worker::result_name;
use crate::checkpoint::{SearchProgress, Sections, cut, unseal};
use crate::request::SearchRequest;
use crate::results::UnroundedResults;
use crate::scan::{PassState, Scan, parts_per_group, prepare, results, stripe_count, stripe_rows_range};
use crate::scores::ScoredVectors;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::RemoteTasks;

/// Cost of a section in multiply-adds: about two seconds of one core.
const SECTION_COST: u128 = 1 << 38;
/// Number of sections of a short pass, as far as it has that many stripes; and the maximum.
const MIN_SECTIONS: u128 = 4;
const MAX_SECTIONS: u128 = 64;
/// Rows of a section beyond [`MIN_SECTIONS`]. Each section scores the positives and sets up the lists of all columns, which
/// takes as long as comparing them with about a thousand rows.
const SECTION_ROWS: usize = 25_000;

/// Answers the requests of both sides by sections that `remote` computes. Their results have the bits of one process.
///
/// # Errors
/// An invalid request; the first error of `progress` or of `remote`.
///
/// # Cost
/// The job holds the vectors of both sides, and for each query its positives and for each item its shift. A section
/// returns 12·k bytes for each row; for each column at most 12·k + 16 bytes, and 12 or 16 bytes for each sum and group of
/// stripes. The i-th section of a worker returns about k / i of the k best rows of a column.
pub fn distribute(
    scan: &Scan<'_>,
    vectors: ScoredVectors<'_>,
    requests: [&SearchRequest<'_>; 2],
    remote: &dyn RemoteTasks,
    progress: &mut dyn SearchProgress,
) -> Result<[UnroundedResults; 2]> {
    let rows = vectors.rows.len();
    let stripes = stripe_count(rows);
    let count = (scan.cost() / SECTION_COST).min(MAX_SECTIONS).min((rows / SECTION_ROWS) as u128).max(MIN_SECTIONS);
    let sections = cut(stripes, parts_per_group(stripes), count.saturating_as());
    let pass = prepare(scan, requests, Sections::without_checkpoints(sections.clone()))?;
    let mut publish = |content| remote.publish(content);
    let published = [
        PublishedVectors::publish(vectors.rows, &mut publish)?,
        PublishedVectors::publish(vectors.columns, &mut publish)?,
    ];
    let job = SearchJob::new(vectors.score_function, published, sections.clone(), requests);
    let job = remote.publish(job.encode()?)?;
    let run = |progress: &mut dyn SearchProgress| {
        remote.run(&job, sections.len(), &mut |done| {
            let end = sections[..done.min(sections.len())].last().map_or(0, |last| last.end);
            progress.report(stripe_rows_range(&(0..end), rows).len() as u64, rows as u64)
        })
    };
    run(progress)?;
    let mut state = PassState::default();
    let mut was_repeated = false;
    while state.section < sections.len() {
        let section = state.section;
        let payload = remote.result(&job, section)?.and_then(|content| to_payload(&job, section, &content));
        if payload.and_then(|payload| pass.merge_section(&mut state, &payload)).is_some() {
            was_repeated = false;
        } else if was_repeated {
            return Err(Error::data(format!("the result of section {section} of a search is damaged, twice"))
                .hint("all processes of a cluster need one build of Pairloom; `pairloom --version` shows it"));
        } else {
            was_repeated = true;
            remote.remove_result(&job, section)?;
            run(progress)?;
        }
    }
    remote.finish(&job, sections.len())?;
    if !pass.is_complete(&state) {
        return Err(Error::internal("the sections of a search returned fewer rows than there are"));
    }
    Ok(results(&pass, state))
}

/// Payload of a result; `None` if it is damaged.
fn to_payload(job: &str, section: usize, content: &[u8]) -> Option<Vec<i32>> {
    let (numbers, rest) = content.as_chunks();
    let numbers = numbers.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
    rest.is_empty().then(|| unseal(&result_name(job, section), numbers))?
}
