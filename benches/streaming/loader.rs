//! Measurements of Pairloom's loader: warm cache, cold cache, resume.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::epoch::{DataOrder, Shuffle};
use pairloom_loader::{AllocateBuffer, Loader, LoaderData, LoaderDataSet, LoaderImages, LoaderStart, pooled_heap};
use pairloom_storage::cache::ShardCache;
use pairloom_storage::parquet as parts;
use pairloom_storage::table_shards::{ShardSource, TableShards};
use pairloom_tables as tables;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use super::{BATCH, TOKENS, median_seconds};

/// Threads that assemble batches.
const THREADS: usize = 2;

/// First argument of a process that measures the time to its first batch.
pub(super) const FIRST: &str = "first";

/// Table of features in parts, and its captions.
pub(super) struct StoredTable<'d> {
    pub rows: usize,
    pub part_rows: usize,
    pub width: usize,
    pub column: &'static str,
    pub tokens: &'d [i32],
    /// Folder of the parts.
    pub table: PathBuf,
}

/// Data, their order, and buffers that a training opens before its first batch.
type OpenedTraining = (Arc<LoaderData>, Arc<DataOrder>, AllocateBuffer);

impl StoredTable<'_> {
    /// Runs all measurements and prints their results. `expected` is the sum of the first values of all rows.
    pub fn measure(&self, folder: &Path, expected: f64, limit: f64) -> Result<()> {
        let cache = folder.join("cache");
        let samples = self.samples()?;
        self.cold(&self.table, &cache, &samples, "cold cache, from the parts of the store")?;
        let zstd = folder.join("zstd");
        self.compress(&zstd)?;
        self.cold(&zstd, &cache, &samples, "cold cache, from parts compressed with zstd")?;

        // The cache is warm now.
        let digests = digests(&self.table)?;
        let opened = self.open(&self.table, &digests, &cache, Some(&samples))?;
        for threads in [1, THREADS] {
            let seconds = median_seconds(|epoch| {
                let sum = self.epoch(&opened, epoch, threads).expect("the loader works");
                assert!((sum - expected).abs() < 1e-6 * self.rows as f64, "{sum}, expected {expected}");
            });
            let rate = self.rows as f64 / seconds;
            let bytes = rate * ((self.width + TOKENS) * 4) as f64 / 1e9;
            let name = format!("Pairloom, {threads} thread{}", if threads == 1 { "" } else { "s" });
            println!(
                "{name:<46} {rate:>11.0} samples/s, {bytes:.1} GB/s, {:.2} of a copy in order by one thread",
                rate / limit
            );
        }
        // A training uses one loader thread for stored vectors.
        let start_one = || start(&opened, 3, 0, 1);
        if self.column == "feature" {
            super::step::measure_vectors(self.width, start_one)?;
        } else {
            super::step::measure_regions(super::REGIONS, self.width / super::REGIONS, start_one)?;
        }
        drop(opened);
        let whole = self.rows.div_ceil(BATCH);
        for (name, batch) in [("first batch, warm", 0), ("first batch after a resume at 75 %", whole * 3 / 4)] {
            // Each time in a new process, which has read nothing before.
            let mut times: Vec<f64> = (0..9).map(|_| self.first_elsewhere(folder, batch)).collect::<Result<_>>()?;
            times.sort_by(f64::total_cmp);
            let (median, worst) = (times[times.len() / 2], times[times.len() - 1]);
            println!("{:<46} {median:>8.2} ms, at worst {worst:.2} ms", format!("Pairloom, {name}"));
        }
        println!(
            "{:<46} {:>8.0} MB",
            "Pairloom, memory beside the mapped shards",
            anonymous_memory(|| {
                let opened = self.open(&self.table, &digests, &cache, Some(&samples)).expect("the cache is warm");
                self.epoch(&opened, 9, THREADS).expect("the loader works");
            })
        );
        Ok(())
    }

    /// Milliseconds from the start of a new process to batch `batch`, with the warm cache in `folder`.
    fn first_elsewhere(&self, folder: &Path, batch: usize) -> Result<f64> {
        let program = std::env::current_exe().map_err(|error| Error::io("find", folder, &error))?;
        let numbers = [self.rows, self.part_rows, self.width, batch].map(|number| number.to_string());
        let mut command = Command::new(&program);
        let output = command.arg(FIRST).args(numbers).arg(self.column).arg(folder).arg(&self.table).output();
        let output = output.map_err(|error| Error::io("start", &program, &error))?;
        let text = String::from_utf8_lossy(&output.stdout);
        text.trim().parse().map_err(|_| Error::stage(format!("a new process said `{}`", text.trim())))
    }

    /// Entry point of that process, which prints the milliseconds. They do not include the computation of the digests
    /// of the parts, which a store has in its manifest.
    pub fn first(arguments: &[String]) -> Result<()> {
        let [rows, part_rows, width, batch, column, folder, table] = arguments else {
            return Err(Error::internal(format!("{} arguments, expected 7", arguments.len())));
        };
        let number = |text: &str| text.parse::<usize>().map_err(|error| Error::internal(error.to_string()));
        let column = if column == "feature" { "feature" } else { "regions" };
        let stored = StoredTable {
            rows: number(rows)?,
            part_rows: number(part_rows)?,
            width: number(width)?,
            column,
            tokens: &[],
            table: table.into(),
        };
        let (batch, digests) = (number(batch)?, digests(&stored.table)?);
        let clock = Instant::now();
        let opened = stored.open(&stored.table, &digests, &Path::new(folder).join("cache"), None)?;
        let mut loader = start(&opened, 3, batch, THREADS)?;
        let first = loader.next(|| Ok(()))?;
        let milliseconds = clock.elapsed().as_secs_f64() * 1e3;
        assert_eq!(first.map(|first| first.number), Some(batch));
        println!("{milliseconds}");
        Ok(())
    }

    /// Measures epochs with an empty shard cache, and the parts in the page cache.
    fn cold(&self, table: &Path, cache: &Path, samples: &RecordBatch, name: &str) -> Result<()> {
        let digests = digests(table)?;
        let mut first = Vec::new();
        let seconds = median_seconds(|epoch| {
            let _ = fs::remove_dir_all(cache);
            let clock = Instant::now();
            let opened = self.open(table, &digests, cache, Some(samples)).expect("the parts are there");
            let mut loader = start(&opened, epoch, 0, THREADS).expect("the loader works");
            let mut rows = 0;
            while let Some(batch) = loader.next(|| Ok(())).expect("the loader works") {
                if rows == 0 {
                    first.push(clock.elapsed().as_secs_f64());
                }
                rows += batch.len();
            }
            assert_eq!(rows, self.rows);
        });
        first.sort_by(f64::total_cmp);
        println!(
            "{:<46} {:>11.0} samples/s, first batch after {:.0} ms",
            format!("Pairloom, {name}"),
            self.rows as f64 / seconds,
            first[first.len() / 2] * 1e3
        );
        Ok(())
    }

    /// Opens cache, shards and samples, and creates the data order.
    fn open(
        &self,
        table: &Path,
        digests: &[String],
        cache: &Path,
        samples: Option<&RecordBatch>,
    ) -> Result<OpenedTraining> {
        let cache = ShardCache::open(cache, 16 << 30)?;
        let rows = |part: usize| self.part_rows.min(self.rows - part * self.part_rows);
        let sources = digests.iter().enumerate();
        let sources = sources.map(|(part, digest)| ShardSource { digest: digest.clone(), rows: rows(part) }).collect();
        // The samples of a training are in the cache too.
        let samples = cache.get_or_make(
            "5a3b1e5500000000",
            || samples.cloned().ok_or_else(|| Error::internal("the samples are kept")),
            &|| Ok(()),
        )?;
        let (folder, digests) = (table.to_owned(), digests.to_vec());
        let read = move |part: usize| {
            let path = folder.join(format!("part-{part:05}.parquet"));
            let content = fs::read(&path).map_err(|error| Error::io("read", &path, &error))?;
            assert_eq!(blake3::hash(&content).to_hex().as_str(), digests[part]);
            parts::decode_whole(content.into())
        };
        let shards = TableShards::new("features", sources, cache, Box::new(read), Box::new(|| Ok(())));
        let images = LoaderImages::Vectors { shards, column: self.column.to_owned() };
        let data = LoaderData::new(&samples, vec![LoaderDataSet { images, samples: self.rows, weight: 1.0 }])?;
        let order = DataOrder::new(&data.order_sets(), Shuffle::Global, 7, BATCH).map_err(Error::data)?;
        Ok((Arc::new(data), Arc::new(order), pooled_heap()))
    }

    /// Loads one epoch. Returns the sum of the first values of all rows, as the peers do.
    fn epoch(&self, opened: &OpenedTraining, epoch: u64, threads: usize) -> Result<f64> {
        let mut loader = start(opened, epoch, 0, threads)?;
        let (mut sum, mut rows) = (0.0, 0);
        while let Some(batch) = loader.next(|| Ok(()))? {
            sum += batch.images().iter().step_by(self.width).map(|&value| f64::from(value)).sum::<f64>();
            rows += batch.token_ids().iter().filter(|tokens| tokens.len() == TOKENS).count();
        }
        assert_eq!(rows, self.rows);
        Ok(sum)
    }

    /// Table `samples` with one caption of [`TOKENS`] token ids per image.
    fn samples(&self) -> Result<RecordBatch> {
        let schema = tables::samples::table().schema();
        let column = |value: &dyn Fn(usize) -> usize| -> ArrayRef {
            let number = |i| i64::try_from(value(i)).expect("rows are counted in thousands");
            Arc::new(Int64Array::from_iter_values((0..self.rows).map(number)))
        };
        let words = Arc::new(Int32Array::from(self.tokens.to_vec()));
        let words = tables::list_array(&schema, "token_ids", vec![TOKENS; self.rows], words)?;
        let (shard, row) = (column(&|i| i / self.part_rows), column(&|i| i % self.part_rows));
        let columns = vec![column(&|_| 0), column(&|i| i), column(&|i| i), column(&|i| i), shard, row, words];
        tables::batch(&schema, columns)
    }

    /// Writes the parts with all columns compressed.
    fn compress(&self, to: &Path) -> Result<()> {
        fs::create_dir_all(to).map_err(|error| Error::io("create", to, &error))?;
        let level = ZstdLevel::try_new(1).unwrap_or_default();
        let properties = WriterProperties::builder().set_compression(Compression::ZSTD(level)).build();
        for part in 0..self.rows.div_ceil(self.part_rows) {
            let name = format!("part-{part:05}.parquet");
            let from = self.table.join(&name);
            let content = fs::read(&from).map_err(|error| Error::io("read", &from, &error))?;
            let batch = parts::decode_whole(content.into())?;
            let mut writer = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties.clone()))?;
            writer.write(&batch)?;
            fs::write(to.join(&name), writer.into_inner()?).map_err(|error| Error::io("write", to, &error))?;
        }
        Ok(())
    }
}

fn start(opened: &OpenedTraining, epoch: u64, batch: usize, threads: usize) -> Result<Loader> {
    let start = LoaderStart::single_rank(epoch, batch, threads);
    Loader::start(Arc::clone(&opened.0), Arc::clone(&opened.1), start, &opened.2)
}

/// Digests of the parts.
fn digests(table: &Path) -> Result<Vec<String>> {
    let mut digests = Vec::new();
    loop {
        let path = table.join(format!("part-{:05}.parquet", digests.len()));
        match fs::read(&path) {
            Ok(content) => digests.push(blake3::hash(&content).to_hex().to_string()),
            Err(_) => return Ok(digests),
        }
    }
}

/// Peak growth of the process's anonymous memory while `work` runs, in MB.
fn anonymous_memory(work: impl FnOnce()) -> f64 {
    let now = || {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
    };
    let before = now();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most: f64 = 0.0;
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                most = most.max(now() - before);
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            most
        });
        work();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        watch.join().unwrap_or(f64::NAN)
    })
}
