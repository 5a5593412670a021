//! Comparison of distributed passes with those of one process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::SearchWorker;
use crate::testing::{SCORE_FUNCTIONS, VectorDistribution, random_vectors};
use crate::{Positives, Search, SearchRequest, VectorMatrix};
use pairloom_base::error::{Error, Result};
use pairloom_base::runtime::RemoteTasks;
use pairloom_kernels::hubness::method::Statistic;
use pairloom_kernels::random::Rng;

/// Processes that are threads of this one. Objects and results are bytes, as between processes.
#[derive(Debug, Default)]
struct LocalTasks {
    objects: Mutex<BTreeMap<String, Vec<u8>>>,
    results: Mutex<BTreeMap<(String, usize), Vec<u8>>>,
    /// Results that are damaged when they are first written.
    damaged: Mutex<Vec<usize>>,
    computed: Mutex<Vec<usize>>,
    /// Bytes of the results, in the order of their computation.
    sizes: Mutex<Vec<usize>>,
    worker: SearchWorker,
    computed_here: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl RemoteTasks for LocalTasks {
    fn publish(&self, content: Vec<u8>) -> Result<String> {
        let name = blake3::hash(&content).to_hex().to_string();
        lock(&self.objects).insert(name.clone(), content);
        Ok(name)
    }

    fn run(&self, job: &str, tasks: usize, report: &mut dyn FnMut(usize) -> Result<()>) -> Result<()> {
        // In another order than that of the sections.
        for task in (0..tasks).rev() {
            report(tasks - 1 - task)?;
            if lock(&self.results).contains_key(&(job.to_owned(), task)) {
                continue;
            }
            let mut read = |name: &str| {
                lock(&self.objects).get(name).cloned().ok_or_else(|| Error::data(format!("`{name}` is absent")))
            };
            let mut result = self.worker.compute(job, task, &mut read, &mut |_, _| Ok(()))?;
            lock(&self.computed).push(task);
            lock(&self.sizes).push(result.len());
            let mut damaged = lock(&self.damaged);
            if let Some(place) = damaged.iter().position(|damaged| *damaged == task) {
                damaged.remove(place);
                let middle = result.len() / 2;
                result[middle] ^= 1;
            }
            lock(&self.results).insert((job.to_owned(), task), result);
        }
        report(tasks)
    }

    fn note_computed_here(&self, operation: &str) {
        lock(&self.computed_here).push(operation.to_owned());
    }

    fn result(&self, job: &str, task: usize) -> Result<Option<Vec<u8>>> {
        Ok(lock(&self.results).get(&(job.to_owned(), task)).cloned())
    }

    fn remove_result(&self, job: &str, task: usize) -> Result<()> {
        lock(&self.results).remove(&(job.to_owned(), task));
        Ok(())
    }

    fn finish(&self, job: &str, tasks: usize) -> Result<()> {
        lock(&self.objects).remove(job);
        (0..tasks).try_for_each(|task| self.remove_result(job, task))
    }
}

#[test]
fn sections_of_other_processes_have_the_bits_of_one_process() {
    // 65 stripes of rows and more, so that groups have two, and 5 sections of 14.
    let (n, m, width) = (12_600, 75, 8);
    let mut rng = Rng::new(3, &[]);
    let shifts: Vec<f64> = (0..m).map(|_| 0.1 * rng.uniform()).collect();
    let row_positives: Vec<Vec<usize>> =
        (0..n).map(|row| if row % 7 == 0 { vec![] } else { vec![row % m, 3] }).collect();
    let column_positives: Vec<_> = (0..m).map(|column| column * 100..column * 100 + 3).collect();
    let statistics = [
        Statistic::LogSumExp { beta: 20.0 },
        Statistic::MeanOfLargest { k: 6 },
        Statistic::StandardDeviation,
        Statistic::Mean,
        Statistic::KthLargest { k: 12 },
    ];
    for kind in [VectorDistribution::Spread, VectorDistribution::Close] {
        let (a, b) = (random_vectors(kind, 1, n, width), random_vectors(kind, 2, m, width));
        let rows = VectorMatrix::new("rows", &a, width).expect("good");
        let columns = VectorMatrix::new("columns", &b, width).expect("good");
        let ranks = |k| SearchRequest { k, positives: Positives::Lists(&row_positives), ..SearchRequest::default() };
        let requests = [
            [
                SearchRequest { statistics: &statistics, ..ranks(4) },
                SearchRequest { k: 3, statistics: &statistics, ..SearchRequest::default() },
            ],
            [
                SearchRequest { item_shifts: &shifts, ..ranks(10) },
                SearchRequest { k: 20, positives: Positives::Ranges(&column_positives), ..SearchRequest::default() },
            ],
        ];
        for function in [SCORE_FUNCTIONS[0], SCORE_FUNCTIONS[2]] {
            for [row_positives, column_positives] in &requests {
                let search = || Search::from_vectors(&rows, &columns, function, 2).expect("of one width");
                let expected = search().find(row_positives, column_positives, &mut |_, _| Ok(())).expect("possible");
                let tasks = Arc::new(LocalTasks { damaged: Mutex::new(vec![0, 2]), ..LocalTasks::default() });
                let distributed = search().with_remote(Some(Arc::<LocalTasks>::clone(&tasks)));
                let mut reported = Vec::new();
                let found = distributed.find(row_positives, column_positives, &mut |done, total| {
                    reported.push((done, total));
                    Ok(())
                });
                assert!(found.expect("possible") == expected, "{kind:?} {function:?}");
                // The damaged ones were computed again, and only those.
                assert_eq!(*lock(&tasks.computed), [3, 2, 1, 0, 0, 2], "{kind:?}");
                assert_eq!(reported.last(), Some(&(n as u64, n as u64)));
                assert!(lock(&tasks.results).is_empty(), "results are removed");
            }
        }
    }
}

/// Expected number by chance: the i-th part of random rows has k / i of the k best of the first i parts.
#[test]
#[expect(clippy::cast_precision_loss, reason = "test values are small")]
fn later_sections_of_a_worker_return_shorter_lists() {
    let (n, m, width, k) = (4_000, 1_000, 16, 20);
    let (a, b) = (
        random_vectors(VectorDistribution::Spread, 1, n, width),
        random_vectors(VectorDistribution::Spread, 2, m, width),
    );
    let rows = VectorMatrix::new("rows", &a, width).expect("good");
    let columns = VectorMatrix::new("columns", &b, width).expect("good");
    let search = || Search::from_vectors(&rows, &columns, SCORE_FUNCTIONS[0], 1).expect("of one width");
    let requests = [SearchRequest::default(), SearchRequest { k, ..SearchRequest::default() }];
    let tasks = Arc::new(LocalTasks::default());
    let distributed = search().with_remote(Some(Arc::<LocalTasks>::clone(&tasks)));
    let found = distributed.find(&requests[0], &requests[1], &mut |_, _| Ok(())).expect("possible");
    assert!(found == search().find(&requests[0], &requests[1], &mut |_, _| Ok(())).expect("possible"));
    let entries: Vec<f64> = lock(&tasks.sizes).iter().map(|&bytes| bytes as f64 / (12 * m) as f64).collect();
    assert_eq!(entries.len(), 4);
    for (i, entries) in entries.into_iter().enumerate() {
        let lists = k as f64 / (i + 1) as f64;
        // A list has a count and the three of its ranks beside it: 16 bytes.
        assert!((entries - 16.0 / 12.0 - lists).abs() < 0.2 * lists, "section {i}: {entries}, expected about {lists}");
    }
}

#[test]
fn results_that_stay_damaged_and_refused_reports_are_errors() {
    let (n, width) = (1_000, 4);
    let values = random_vectors(VectorDistribution::Spread, 1, n, width);
    let vectors = VectorMatrix::new("vectors", &values, width).expect("good");
    let search = |tasks: &Arc<LocalTasks>| {
        let function = crate::ScoreFunction::Product;
        let search = Search::from_vectors(&vectors, &vectors, function, 1).expect("of one width");
        search.with_remote(Some(Arc::<LocalTasks>::clone(tasks)))
    };
    let request = SearchRequest { k: 5, ..SearchRequest::default() };
    let tasks = Arc::new(LocalTasks { damaged: Mutex::new(vec![1, 1]), ..LocalTasks::default() });
    let error = search(&tasks).find(&request, &request, &mut |_, _| Ok(())).expect_err("damaged twice").to_string();
    assert!(error.contains("section 1 of a search is damaged"), "{error}");
    let tasks = Arc::new(LocalTasks::default());
    let stopped = search(&tasks).find(&request, &request, &mut |_, _| Err(Error::interrupted()));
    assert!(stopped.is_err() && lock(&tasks.computed).is_empty());
    // Other operations are computed in this process.
    search(&tasks).map_rows(|row, _| row, &mut |_, _| Ok(())).expect("possible");
    assert!(lock(&tasks.objects).len() <= 2, "only the vectors and the job of the interrupted search");
}

#[test]
fn operations_that_stay_in_the_process_are_noted() {
    let values = random_vectors(VectorDistribution::Spread, 1, 6, 4);
    let vectors = VectorMatrix::new("vectors", &values, 4).expect("good");
    let tasks = Arc::new(LocalTasks::default());
    let search = Search::from_vectors(&vectors, &vectors, SCORE_FUNCTIONS[0], 1).expect("of one width");
    let search = search.with_remote(Some(Arc::<LocalTasks>::clone(&tasks)));
    let request = SearchRequest { k: 2, ..SearchRequest::default() };
    search.find(&request, &request, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(*lock(&tasks.computed_here), Vec::<String>::new());
    let rows = search.map_rows(|row, _| row, &mut |_, _| Ok(())).expect("possible");
    assert_eq!(
        (rows, lock(&tasks.computed_here).as_slice()),
        ((0..6).collect(), &["whole rows of scores".to_owned()][..])
    );
}
