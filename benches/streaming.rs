//! Benchmark of data loading: shuffled samples per second, compared with other loaders on the same rows.
//!
//! Two data sets: `vectors`, 40,000 rows of 1,024 × f32 and 24 token ids (4 KB each), and `regions`, 2,000 rows of 36 ×
//! 2,048 × f32 (295 KB each). The rows are random, and written as npy, which the peers convert to their own formats,
//! and as the Parquet parts of a store. For comparison, one thread copies the same bytes, in order and in batches of
//! random rows. The peers run in Python (`streaming_peer.py` documents the measurements) if the environment variable
//! `PAIRLOOM_PEER_PYTHON` names an interpreter with the packages in `streaming_peers.txt`.
//!
//! Run: `cargo bench --bench streaming`, or only one data set with `-- vectors` or `-- regions`. It writes up to 5 GB
//! of temporary files, and removes them.
#![expect(clippy::print_stdout, clippy::disallowed_methods, reason = "a benchmark measures time and prints")]
#![expect(clippy::cast_precision_loss, reason = "printed numbers need not be exact")]

#[path = "streaming/loader.rs"]
mod loader;
#[path = "streaming/step.rs"]
mod step;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, Int64Array, StringArray};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;
use pairloom_storage::parquet;
use pairloom_tables::{self as tables, Table};

/// Samples per batch.
const BATCH: usize = 128;
/// Token ids per caption.
const TOKENS: usize = 24;
/// Regions of an image.
const REGIONS: usize = 36;
/// Repetitions of each measurement; the median is printed.
const EPOCHS: usize = 5;

/// Rows of a data set.
struct BenchRows {
    /// Name on the command line.
    name: &'static str,
    rows: usize,
    /// Shape of the features of a row.
    shape: &'static [usize],
    features: Vec<f32>,
    /// [`TOKENS`] token ids per row; the first is the index of the row.
    tokens: Vec<i32>,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [first, rest @ ..] = arguments.as_slice()
        && first == loader::FIRST
    {
        return loader::StoredTable::first(rest);
    }
    let selected: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let forms: [(&str, usize, &[usize]); 2] = [("vectors", 40_000, &[1024]), ("regions", 2000, &[REGIONS, 2048])];
    for (name, rows, shape) in forms {
        if selected.is_empty() || selected.iter().any(|selection| selection == name) {
            let folder = std::env::temp_dir().join(format!("pairloom-bench-{}-{name}", std::process::id()));
            let done = measure_data_set(&BenchRows::draw(name, rows, shape), &folder);
            let _ = fs::remove_dir_all(&folder);
            done?;
        }
    }
    Ok(())
}

/// Writes the rows, and measures all loaders.
fn measure_data_set(data: &BenchRows, folder: &Path) -> Result<()> {
    let shape: Vec<String> = data.shape.iter().map(usize::to_string).collect();
    println!(
        "\n{}: {} samples of {} x f32 and {TOKENS} token ids, {:.1} KB each, batch {BATCH}, shuffled, warm page cache",
        data.name,
        data.rows,
        shape.join(" x "),
        data.sample_bytes() / 1e3
    );
    fs::create_dir_all(folder).map_err(|error| Error::io("create", folder, &error))?;
    data.write_npy(folder)?;
    let store = folder.join("store");
    let clock = Instant::now();
    let bytes = data.write_parts(&store)?;
    let rate = data.rows as f64 / clock.elapsed().as_secs_f64();
    println!("{:<46} {rate:>11.0} samples/s, {} MB", "written as Parquet parts, one thread", bytes / 1_000_000);
    let clock = Instant::now();
    data.read_parts(&store)?;
    let rate = data.rows as f64 / clock.elapsed().as_secs_f64();
    println!("{:<46} {rate:>11.0} samples/s", "Parquet parts read in order, one thread");
    let limit = data.measure_copies();
    let (table, part_rows) = data.vectors_table();
    let stored = loader::StoredTable {
        rows: data.rows,
        part_rows,
        width: data.width(),
        column: if data.shape.len() == 1 { "feature" } else { "regions" },
        tokens: &data.tokens,
        table: folder.join("store").join(table.name),
    };
    stored.measure(folder, sum_of_first_values(&data.features, data.width()), limit)?;
    run_peers(folder)
}

impl BenchRows {
    /// Draws normally distributed features and uniform token ids, with a fixed seed.
    fn draw(name: &'static str, rows: usize, shape: &'static [usize]) -> Self {
        let width: usize = shape.iter().product();
        let mut features = Vec::with_capacity(rows * width);
        let mut rng = Rng::new(7, &[width as u64]);
        while features.len() < rows * width {
            // Box-Muller transform.
            let (radius, angle) = ((-2.0 * (1.0 - rng.uniform()).ln()).sqrt(), std::f64::consts::TAU * rng.uniform());
            #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
            features.extend([(radius * angle.cos()) as f32, (radius * angle.sin()) as f32]);
        }
        let token = |at: usize, rng: &mut Rng| {
            if at.is_multiple_of(TOKENS) { at / TOKENS } else { 4 + rng.uniform_below(9996) }
        };
        let tokens = (0..rows * TOKENS).map(|at| i32::try_from(token(at, &mut rng)).expect("a small number"));
        let tokens = tokens.collect();
        Self { name, rows, shape, features, tokens }
    }

    fn width(&self) -> usize {
        self.shape.iter().product()
    }

    fn sample_bytes(&self) -> f64 {
        ((self.width() + TOKENS) * 4) as f64
    }

    /// Writes `features.npy` and `tokens.npy` for the peers.
    fn write_npy(&self, folder: &Path) -> Result<()> {
        let shape: Vec<usize> = [&[self.rows], self.shape].concat();
        write_npy_file(
            &folder.join("features.npy"),
            "<f4",
            &shape,
            self.features.iter().map(|value| value.to_le_bytes()),
        )?;
        write_npy_file(
            &folder.join("tokens.npy"),
            "<i4",
            &[self.rows, TOKENS],
            self.tokens.iter().map(|id| id.to_le_bytes()),
        )
    }

    /// Table of the features, and its rows per part as in `ingest` and `extract`.
    fn vectors_table(&self) -> (Table, usize) {
        if self.shape.len() == 1 { (tables::features::table(), 1024) } else { (tables::regions::table(), 128) }
    }

    /// Writes the tables `features` or `regions`, and `captions` with one word per token id, as in a store. Returns
    /// their size in bytes.
    fn write_parts(&self, store: &Path) -> Result<usize> {
        let (table, part_rows) = self.vectors_table();
        let (vectors, captions) = (table.schema_with_shape(self.shape), tables::captions::table().schema());
        let width = self.width();
        let mut bytes = 0;
        for (part, start) in (0..self.rows).step_by(part_rows).enumerate() {
            let rows = start..self.rows.min(start + part_rows);
            let ids: ArrayRef = Arc::new(Int64Array::from_iter_values(
                rows.clone().map(|row| i64::try_from(row).expect("rows are counted in thousands")),
            ));
            let splits: ArrayRef = Arc::new(StringArray::from_iter_values(rows.clone().map(|_| "train")));
            let texts = self.tokens[rows.start * TOKENS..rows.end * TOKENS].chunks_exact(TOKENS);
            let texts = texts.map(|ids| ids.iter().map(|id| format!("w{id}")).collect::<Vec<_>>().join(" "));
            let texts: ArrayRef = Arc::new(StringArray::from_iter_values(texts));
            let values = self.features[rows.start * width..rows.end * width].to_vec();
            let values = match *self.shape {
                [count, width] => {
                    tables::ColumnValues::into_array(tables::regions::RegionColumn::new(values, count, width)?)
                }
                _ => tables::vector_array(values, width)?,
            };
            let parts = [
                (table.name, &vectors, vec![Arc::clone(&ids), Arc::clone(&splits), values]),
                ("captions", &captions, vec![Arc::clone(&ids), ids, splits, texts]),
            ];
            for (name, schema, columns) in parts {
                let content = parquet::encode(schema, &[tables::batch(schema, columns)?])?;
                bytes += content.len();
                let folder = store.join(name);
                let path = folder.join(format!("part-{part:05}.parquet"));
                let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, content));
                written.map_err(|error| Error::io("write", &path, &error))?;
            }
        }
        Ok(bytes)
    }

    /// Reads all parts of both tables, and one value of each row.
    fn read_parts(&self, store: &Path) -> Result<()> {
        let (table, part_rows) = self.vectors_table();
        let (mut rows, mut sum) = (0, 0.0);
        for part in 0..self.rows.div_ceil(part_rows) {
            for name in [table.name, "captions"] {
                let path = store.join(name).join(format!("part-{part:05}.parquet"));
                let content = fs::read(&path).map_err(|error| Error::io("read", &path, &error))?;
                for batch in parquet::decode(content.into())? {
                    let batch = batch?;
                    match name {
                        "captions" => rows += tables::text_column(&batch, "text")?.len(),
                        "regions" => sum += sum_of_first_values(tables::regions::values(&batch)?.0, self.width()),
                        _ => sum += sum_of_first_values(tables::vector_column(&batch, "feature")?.0, self.width()),
                    }
                }
            }
        }
        let expected = sum_of_first_values(&self.features, self.width());
        assert!(rows == self.rows && (sum - expected).abs() < 1e-6, "{rows} rows, {sum}, expected {expected}");
        Ok(())
    }

    /// Measures copies by one thread: all bytes in order, and batches of random rows. Returns samples per second of the
    /// former.
    fn measure_copies(&self) -> f64 {
        let width = self.width();
        let mut target = vec![0.0f32; self.features.len()];
        let in_order = median_seconds(|_| target.copy_from_slice(&self.features));
        assert_eq!(target[width - 1], self.features[width - 1]);
        drop(target);

        let mut batch = (vec![0.0f32; BATCH * width], vec![0i32; BATCH * TOKENS]);
        let mut order: Vec<usize> = (0..self.rows).collect();
        let at_random = median_seconds(|epoch| {
            Rng::new(7, &[epoch]).shuffle(&mut order);
            let mut sum = 0.0;
            for rows in order.chunks(BATCH) {
                for (place, &row) in rows.iter().enumerate() {
                    batch.0[place * width..][..width].copy_from_slice(&self.features[row * width..][..width]);
                    batch.1[place * TOKENS..][..TOKENS].copy_from_slice(&self.tokens[row * TOKENS..][..TOKENS]);
                }
                sum += batch.0.iter().step_by(width).sum::<f32>();
            }
            std::hint::black_box(sum);
        });
        for (name, seconds) in [("copy in order, one thread", in_order), ("copy of random rows, one thread", at_random)]
        {
            let rate = self.rows as f64 / seconds;
            println!("{name:<46} {rate:>11.0} samples/s, {:.1} GB/s", rate * self.sample_bytes() / 1e9);
        }
        self.rows as f64 / in_order
    }
}

/// Sum of the first values of all rows.
fn sum_of_first_values(values: &[f32], width: usize) -> f64 {
    values.iter().step_by(width).map(|&value| f64::from(value)).sum()
}

/// Median time of `work` in seconds, after a warm-up.
fn median_seconds(mut work: impl FnMut(u64)) -> f64 {
    work(0);
    let mut times: Vec<f64> = (1..=EPOCHS as u64)
        .map(|epoch| {
            let clock = Instant::now();
            work(epoch);
            clock.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Writes an npy file of version 1: <https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html>.
fn write_npy_file(path: &Path, kind: &str, shape: &[usize], values: impl Iterator<Item = [u8; 4]>) -> Result<()> {
    let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({}), }}", shape.join(", "));
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        file.write_all(b"\x93NUMPY\x01\x00")?;
        file.write_all(&118u16.to_le_bytes())?;
        file.write_all(format!("{header:<117}\n").as_bytes())?;
        for value in values {
            file.write_all(&value)?;
        }
        file.flush()
    };
    write().map_err(|error| Error::io("write", path, &error))
}

/// Runs the peers on the npy files in `folder`, and prints their results.
fn run_peers(folder: &Path) -> Result<()> {
    let Ok(python) = std::env::var("PAIRLOOM_PEER_PYTHON") else {
        println!("peers             skipped: `PAIRLOOM_PEER_PYTHON` names no interpreter");
        return Ok(());
    };
    let script = test_data::root().join("benches/streaming_peer.py");
    let started = Command::new(&python).arg(&script).arg(folder).stdout(Stdio::piped()).spawn();
    let mut child = started.map_err(|error| Error::io("start", Path::new(&python), &error))?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line.map_err(|error| Error::io("read the output of", Path::new(&python), &error))?;
            println!("{}", format_result(&line));
        }
    }
    let ended = child.wait().map_err(|error| Error::io("wait for", Path::new(&python), &error))?;
    if ended.success() {
        Ok(())
    } else {
        Err(Error::stage(format!("`{python}` {} ended with {ended}", script.display())))
    }
}

/// Formats a line of the peer program.
fn format_result(line: &str) -> String {
    let Ok(figures) = serde_json::from_str::<serde_json::Value>(line) else { return line.to_owned() };
    let name = figures["peer"].as_str().unwrap_or("?");
    let Some(rate) = figures["samples_per_second"].as_f64() else {
        return format!("{name:<46} skipped: {}", figures["error"].as_str().unwrap_or(line));
    };
    let mut text = format!("{name:<46} {rate:>11.0} samples/s");
    if let Some(rate) = figures["gb_per_second"].as_f64() {
        text += &format!(", {rate:.1} GB/s");
    }
    for (key, label, unit) in [
        ("first_batch_ms", "first batch", "ms"),
        ("resume_ms", "after a resume", "ms"),
        ("memory_mb", "holds", "MB"),
        ("disk_mb", "on disk", "MB"),
    ] {
        if let Some(figure) = figures[key].as_f64() {
            text += &format!(", {label} {figure:.0} {unit}");
        }
    }
    text
}
