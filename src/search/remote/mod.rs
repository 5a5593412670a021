//! Search passes whose sections are computed by other processes.
//!
//! ```text
//! distribute ─► job: requests, names of the vectors ─► a task for each section ─► worker: the same scan
//!      ▲                                                                             │
//!      └──────────────────────── results, merged in the order of sections ◄──────────┘
//! ```

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use az::SaturatingAs;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use crate::checkpoint::{SearchProgress, Sections, cut, seal, unseal};
use crate::request::{Positives, SearchRequest, UnroundedResults};
use crate::scan::{
    KnownColumns, PassState, Scan, ScanOverrides, find_section, parts_per_group, prepare, results, stripe_count,
    stripe_rows_range,
};
use crate::scores::{ScoreFunction, ScoredVectors, VectorMatrix, VectorScores};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::{RemoteTasks, build};
use pairloom_kernels::hubness::method::Statistic;

#[cfg(test)]
mod tests;

/// Largest size of an object.
const MAX_OBJECT_BYTES: usize = 64 << 20;

/// Vectors of one side: the names of objects that hold them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedVectors {
    /// Names of the objects, in the order of the vectors.
    pub objects: Vec<String>,
    pub count: usize,
    pub width: usize,
}

impl PublishedVectors {
    /// Publishes vectors: their values in f32, little-endian, row-major.
    ///
    /// # Errors
    /// The error of `publish`.
    pub fn publish(vectors: &VectorMatrix<'_>, publish: &mut dyn FnMut(Vec<u8>) -> Result<String>) -> Result<Self> {
        let (count, width) = (vectors.len(), vectors.width());
        let each = (MAX_OBJECT_BYTES / (4 * width)).max(1);
        let object = |first: usize| {
            let values = vectors.rows(first..count.min(first + each));
            publish(values.iter().flat_map(|value| value.to_le_bytes()).collect())
        };
        Ok(Self { objects: (0..count).step_by(each).map(object).collect::<Result<_>>()?, count, width })
    }

    /// Reads the vectors; `read` returns the content of an object.
    ///
    /// # Errors
    /// The error of `read`; the objects are not those of the vectors.
    pub fn read(&self, name: &str, read: &mut dyn FnMut(&str) -> Result<Vec<u8>>) -> Result<VectorMatrix<'static>> {
        let expected = self.count.checked_mul(self.width).filter(|_| self.width > 0);
        let mut values: Vec<f32> = Vec::new();
        for object in &self.objects {
            let content = read(object)?;
            values.extend(content.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)));
        }
        if expected != Some(values.len()) {
            let message = format!(
                "`{name}` has {} values, expected {} vectors of width {}",
                values.len(),
                self.count,
                self.width
            );
            return Err(Error::data(message));
        }
        VectorMatrix::from_cow(name, Cow::Owned(values), self.width, 1)
    }
}

/// Name of the description among the metadata.
const DESCRIPTION: &str = "pairloom.search";
/// Names of the sides in tensors.
const SIDES: [&str; 2] = ["rows", "columns"];

/// Job of a distributed pass. All pairs are of rows and columns.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchJob {
    pub description: JobDescription,
    pub requests: [PublishedRequest; 2],
}

/// Small values of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobDescription {
    /// Build of the program: jobs and results of others may mean something else.
    build: String,
    pub score_function: ScoreFunction,
    pub vectors: [PublishedVectors; 2],
    /// Stripes of each section.
    pub sections: Vec<Range<usize>>,
    k: [usize; 2],
    statistics: [Vec<Statistic>; 2],
}

/// Request of one side that owns its values.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PublishedRequest {
    k: usize,
    positives: Option<Vec<Vec<usize>>>,
    item_shifts: Vec<f64>,
    statistics: Vec<Statistic>,
}

impl PublishedRequest {
    fn of(request: &SearchRequest<'_>) -> Self {
        let lists = |queries: usize| (0..queries).map(|query| request.positives.of_query(query)).collect();
        Self {
            k: request.k,
            positives: request.positives.n_queries().map(lists),
            item_shifts: request.item_shifts.to_vec(),
            statistics: request.statistics.to_vec(),
        }
    }

    pub fn as_request(&self) -> SearchRequest<'_> {
        SearchRequest {
            k: self.k,
            positives: self.positives.as_deref().map_or(Positives::None, Positives::Lists),
            item_shifts: &self.item_shifts,
            statistics: &self.statistics,
        }
    }
}

impl SearchJob {
    pub fn new(
        score_function: ScoreFunction,
        vectors: [PublishedVectors; 2],
        sections: Vec<Range<usize>>,
        requests: [&SearchRequest<'_>; 2],
    ) -> Self {
        let requests = requests.map(PublishedRequest::of);
        let description = JobDescription {
            build: build().to_owned(),
            score_function,
            vectors,
            sections,
            k: requests.each_ref().map(|request| request.k),
            statistics: requests.each_ref().map(|request| request.statistics.clone()),
        };
        Self { description, requests }
    }

    /// Encodes the job as safetensors: the description among the metadata, and for each side the shifts of its items and
    /// its positives as offsets and items.
    ///
    /// # Errors
    /// None of these values; only of the format.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut tensors: Vec<(String, Dtype, Vec<u8>)> = Vec::new();
        for (side, request) in SIDES.iter().zip(&self.requests) {
            let shifts = request.item_shifts.iter().flat_map(|shift| shift.to_le_bytes()).collect();
            tensors.push((format!("{side}.item_shifts"), Dtype::F64, shifts));
            if let Some(lists) = &request.positives {
                let mut offset = 0;
                let offsets: Vec<usize> = std::iter::once(0)
                    .chain(lists.iter().map(|list| {
                        offset += list.len();
                        offset
                    }))
                    .collect();
                tensors.push((format!("{side}.offsets"), Dtype::U64, to_bytes(&offsets)));
                tensors.push((format!("{side}.positives"), Dtype::U64, to_bytes(&lists.concat())));
            }
        }
        let description =
            serde_json::to_string(&self.description).map_err(|error| Error::internal(error.to_string()))?;
        let views: Vec<(&String, TensorView<'_>)> = tensors
            .iter()
            .map(|(name, dtype, bytes)| {
                let view = TensorView::new(*dtype, vec![bytes.len() / 8], bytes);
                Ok((name, view.map_err(|error| Error::internal(error.to_string()))?))
            })
            .collect::<Result<_>>()?;
        let metadata = Some([(DESCRIPTION.to_owned(), description)].into());
        serialize(views, &metadata).map_err(|error| Error::internal(error.to_string()))
    }

    /// Decodes a job.
    ///
    /// # Errors
    /// The content is no job, or one of another build of Pairloom.
    pub fn decode(content: &[u8]) -> Result<Self> {
        let wrong = |what: String| {
            Error::data(format!("got no search job of this build: {what}"))
                .hint("all processes of a cluster need one build of Pairloom; `pairloom --version` shows it")
        };
        let (_, header) = SafeTensors::read_metadata(content).map_err(|error| wrong(error.to_string()))?;
        let text = header.metadata().as_ref().and_then(|metadata| metadata.get(DESCRIPTION));
        let text = text.ok_or_else(|| wrong("it has no description".to_owned()))?;
        let description: JobDescription = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if description.build != build() {
            return Err(wrong(format!("it has the build {}, expected {}", description.build, build())));
        }
        let tensors = SafeTensors::deserialize(content).map_err(|error| wrong(error.to_string()))?;
        let numbers = |name: &str, dtype: Dtype| -> Result<Vec<[u8; 8]>> {
            let tensor = tensors.tensor(name).map_err(|error| wrong(error.to_string()))?;
            if tensor.dtype() != dtype {
                return Err(wrong(format!("`{name}` has type {:?}", tensor.dtype())));
            }
            Ok(tensor.data().as_chunks().0.to_vec())
        };
        let indices = |name: &str| -> Result<Vec<usize>> {
            let numbers =
                numbers(name, Dtype::U64)?.into_iter().map(|bytes| usize::try_from(u64::from_le_bytes(bytes)));
            numbers.collect::<Result<_, _>>().map_err(|error| wrong(error.to_string()))
        };
        let request = |side: usize| -> Result<PublishedRequest> {
            let name = SIDES[side];
            let (offsets, positives) = (format!("{name}.offsets"), format!("{name}.positives"));
            let positives = if tensors.names().contains(&&offsets) {
                let (offsets, items) = (indices(&offsets)?, indices(&positives)?);
                let lists = offsets.windows(2).map(|ends| items.get(ends[0]..ends[1]).map(<[usize]>::to_vec));
                let lists = lists.collect::<Option<Vec<_>>>();
                Some(lists.ok_or_else(|| wrong(format!("`{name}.offsets` has wrong offsets")))?)
            } else {
                None
            };
            let item_shifts = numbers(&format!("{name}.item_shifts"), Dtype::F64)?;
            Ok(PublishedRequest {
                k: description.k[side],
                positives,
                item_shifts: item_shifts.into_iter().map(f64::from_le_bytes).collect(),
                statistics: description.statistics[side].clone(),
            })
        };
        let requests = [request(0)?, request(1)?];
        Ok(Self { description, requests })
    }
}

fn to_bytes(numbers: &[usize]) -> Vec<u8> {
    numbers.iter().flat_map(|&number| (number as u64).to_le_bytes()).collect()
}

/// Jobs and sources of scores that a worker keeps.
const KEPT: usize = 2;

/// Worker that computes sections of search jobs. For further sections it keeps the last two jobs, with the best rows of
/// every column so far, and the vectors of the last two sources.
///
/// # Cost
/// Memory: the vectors of both sides, and a packed copy of the columns, for each source; 16·k bytes and some 40 more for
/// every column of a job; for each section that is computed at the same time what
/// [`Search::find`](crate::Search::find) needs on one thread.
#[derive(Debug, Default)]
pub struct SearchWorker {
    jobs: Mutex<Vec<(String, Arc<StartedJob>)>>,
    sources: Mutex<Vec<(SourceName, Arc<VectorScores<'static>>)>>,
}

/// Job of which the worker may have computed sections.
#[derive(Debug)]
struct StartedJob {
    job: SearchJob,
    known: KnownColumns,
}

/// Everything that a source of scores depends on.
#[derive(Debug, Clone, PartialEq)]
struct SourceName {
    score_function: ScoreFunction,
    vectors: [PublishedVectors; 2],
}

impl SearchWorker {
    /// Computes a section of a job on one thread. `read` returns the content of a published object, whose name is the
    /// digest of its content.
    ///
    /// # Errors
    /// The error of `read`; the first error of `progress`; the object is no job of this build, or has no such section.
    pub fn compute(
        &self,
        name: &str,
        section: usize,
        read: &mut dyn FnMut(&str) -> Result<Vec<u8>>,
        progress: &mut dyn SearchProgress,
    ) -> Result<Vec<u8>> {
        let started = kept(&self.jobs, &name.to_owned(), || {
            Ok(StartedJob { job: SearchJob::decode(&read(name)?)?, known: KnownColumns::default() })
        })?;
        let StartedJob { job, known } = &*started;
        let description = &job.description;
        let source = SourceName { score_function: description.score_function, vectors: description.vectors.clone() };
        let scores = kept(&self.sources, &source, || {
            let [rows, columns] = &description.vectors;
            let (rows, columns) = (rows.read("rows", read)?, columns.read("columns", read)?);
            VectorScores::from_owned(rows, columns, description.score_function)
        })?;
        let all = stripe_count(description.vectors[0].count);
        let Some(stripes) = description.sections.get(section).filter(|own| own.start <= own.end && own.end <= all)
        else {
            let sections = description.sections.len();
            return Err(Error::data(format!("got section {section}, but the job has {sections} of {all} stripes")));
        };
        let scan = Scan { scores: &*scores, threads: 1, overrides: ScanOverrides::default() };
        let requests = job.requests.each_ref().map(PublishedRequest::as_request);
        let payload = find_section(&scan, requests.each_ref(), stripes.clone(), known, progress)?;
        let sealed = seal(&result_name(name, section), payload);
        Ok(sealed.into_iter().flat_map(i32::to_le_bytes).collect())
    }
}

/// Name of the result of a section.
pub fn result_name(job: &str, section: usize) -> String {
    format!("{job} section {section}")
}

/// The kept value of this name, or a new one. Others wait for it.
fn kept<N: PartialEq + Clone, T>(
    all: &Mutex<Vec<(N, Arc<T>)>>,
    name: &N,
    make: impl FnOnce() -> Result<T>,
) -> Result<Arc<T>> {
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, value)) = all.iter().find(|(known, _)| known == name) {
        return Ok(Arc::clone(value));
    }
    // Before the next one is made, which takes memory.
    all.truncate(KEPT - 1);
    let value = Arc::new(make()?);
    all.insert(0, (name.clone(), Arc::clone(&value)));
    Ok(value)
}

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
pub(super) fn distribute(
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

#[cfg(test)]
mod job_tests {
    use super::*;
    use crate::MatrixSide;
    use pairloom_kernels::order_similarity::OrderPenalty;

    #[test]
    fn a_job_is_decoded_as_it_was() {
        let ranges = [0..2, 2..2, 2..5];
        let lists = [vec![2, 0], vec![], vec![1], vec![1], vec![0, 1, 2]];
        let statistics = [Statistic::LogSumExp { beta: 0.1 }, Statistic::KthLargest { k: 3 }, Statistic::Mean];
        let shifts = [0.5, -1e300, f64::MIN_POSITIVE, 0.0, 3.0];
        let rows = SearchRequest {
            k: 7,
            positives: Positives::Ranges(&ranges),
            item_shifts: &shifts,
            statistics: &statistics,
        };
        let columns = SearchRequest { positives: Positives::Lists(&lists), ..SearchRequest::default() };
        let function = ScoreFunction::Order { form: OrderPenalty::Squared, captions: MatrixSide::Columns };
        let vectors = |name: &str, count| PublishedVectors { objects: vec![name.to_owned()], count, width: 4 };
        let sections = vec![0..1, 1..3];
        let job = SearchJob::new(function, [vectors("a", 3), vectors("b", 5)], sections, [&rows, &columns]);
        let content = job.encode().expect("a job");
        let decoded = SearchJob::decode(&content).expect("the same");
        assert_eq!(decoded, job);
        let [row_request, column_request] = decoded.requests.each_ref().map(PublishedRequest::as_request);
        assert_eq!((row_request.k, row_request.item_shifts, row_request.statistics), (7, &shifts[..], &statistics[..]));
        assert_eq!([0, 1, 2].map(|query| row_request.positives.of_query(query)), [vec![0, 1], vec![], vec![2, 3, 4]]);
        assert_eq!((0..5).map(|query| column_request.positives.of_query(query)).collect::<Vec<_>>(), lists);
        for damaged in [&content[..20], b"", &[content.as_slice(), b"x"].concat()] {
            let error = SearchJob::decode(damaged).expect_err("damaged").to_string();
            assert!(error.contains("no search job of this build"), "{error}");
        }
    }
}
