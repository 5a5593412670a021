//! Job of a distributed pass: what its sections are computed from, in a form that other processes read.

use std::ops::Range;

use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use serde::{Deserialize, Serialize};

use super::vectors::PublishedVectors;
use crate::request::{Positives, SearchRequest};
use crate::scores::ScoreFunction;
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::build;
use pairloom_kernels::hubness::statistic::Statistic;

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
            return Err(wrong(format!("it has the build {}, wanted {}", description.build, build())));
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

#[cfg(test)]
mod tests {
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
        let [of_rows, of_columns] = decoded.requests.each_ref().map(PublishedRequest::as_request);
        assert_eq!((of_rows.k, of_rows.item_shifts, of_rows.statistics), (7, &shifts[..], &statistics[..]));
        assert_eq!([0, 1, 2].map(|query| of_rows.positives.of_query(query)), [vec![0, 1], vec![], vec![2, 3, 4]]);
        assert_eq!((0..5).map(|query| of_columns.positives.of_query(query)).collect::<Vec<_>>(), lists);
        for damaged in [&content[..20], b"", &[content.as_slice(), b"x"].concat()] {
            let error = SearchJob::decode(damaged).expect_err("damaged").to_string();
            assert!(error.contains("no search job of this build"), "{error}");
        }
    }
}
