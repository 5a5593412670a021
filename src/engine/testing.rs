//! Toy stages for tests of the engine.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use serde_json::json;

use pairloom_base::error::{Error, Result};
use pairloom_stage::plan::PlanNode;
use pairloom_stage::{
    CopiedRows, FileKeys, MapInput, MapOutput, MapSummary, PartKey, Problem, RowKey, RowKeys, RunnableStage, SourceRef,
    Stage, StageContext, StageInput, StageOutput, TableRef,
};
use pairloom_tables as tables;

/// Toy stage. Its tables have one column of integers.
#[derive(Debug, Clone)]
pub(crate) enum ToyStage {
    /// Writes the numbers 0..n in parts of 10. They stand for paths relative to `source`, if there is one.
    Count { n: i64, source: Option<SourceRef> },
    /// Maps each number x to x + `add` in blocks of 7, with a warning for each multiple of 20.
    Map { rows: TableRef, add: i64 },
    /// Maps each number x to x + `add` in blocks of 7. The key of a row is that of its number.
    Keyed { rows: TableRef, add: i64 },
    /// Writes the squares of 0..n in blocks of 6, with a warning for each block.
    Squares { n: usize },
    /// Writes the running sum after every 4 numbers, saves its state after every 8, and writes the total to a file.
    /// Fails at the number `fail_at`.
    Sum { rows: TableRef, fail_at: Option<i64> },
}

impl ToyStage {
    pub fn count(n: i64) -> Self {
        Self::Count { n, source: None }
    }
    pub fn pass(rows: &str) -> Self {
        Self::Map { rows: rows.to_owned().try_into().unwrap(), add: 0 }
    }
    pub fn add(rows: &str, add: i64) -> Self {
        Self::Map { rows: rows.to_owned().try_into().unwrap(), add }
    }
    pub fn keyed(rows: &str, add: i64) -> Self {
        Self::Keyed { rows: rows.to_owned().try_into().unwrap(), add }
    }
    pub fn sum(rows: &str) -> Self {
        Self::Sum { rows: rows.to_owned().try_into().unwrap(), fail_at: None }
    }
}

pub(crate) fn node(name: &str, stage: ToyStage) -> PlanNode<ToyStage> {
    PlanNode { name: name.to_owned(), coordinates: vec![], stage }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]))
}

fn numbers(numbers: Vec<i64>) -> Result<RecordBatch> {
    tables::batch(&schema(), vec![Arc::new(Int64Array::from(numbers))])
}

impl Stage for ToyStage {
    fn kind(&self) -> &'static str {
        match self {
            ToyStage::Count { .. } => "count",
            ToyStage::Map { .. } => "map",
            ToyStage::Keyed { .. } => "keyed",
            ToyStage::Squares { .. } => "squares",
            ToyStage::Sum { .. } => "sum",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        match self {
            ToyStage::Count { n, .. } => json!({ "n": n }),
            ToyStage::Map { add, .. } | ToyStage::Keyed { add, .. } => json!({ "add": add }),
            ToyStage::Squares { n } => json!({ "n": n }),
            ToyStage::Sum { .. } => json!({}),
        }
    }
    fn inputs(&self) -> Vec<StageInput> {
        match self {
            ToyStage::Count { source, .. } => {
                source.iter().map(|source| StageInput::source("source", source)).collect()
            }
            ToyStage::Squares { .. } => vec![],
            ToyStage::Map { rows, .. } | ToyStage::Keyed { rows, .. } | ToyStage::Sum { rows, .. } => {
                vec![StageInput::any_table("rows", rows, schema())]
            }
        }
    }
    fn outputs(&self) -> Vec<StageOutput> {
        match self {
            ToyStage::Count { .. } => vec![StageOutput::table("rows", schema(), 10).relative_to("source")],
            ToyStage::Map { .. } | ToyStage::Keyed { .. } => vec![StageOutput::table("rows", schema(), 7)],
            ToyStage::Squares { .. } => vec![StageOutput::table("rows", schema(), 6)],
            ToyStage::Sum { .. } => vec![StageOutput::table("sums", schema(), 3), StageOutput::files("total")],
        }
    }
    fn check(&self) -> Vec<Problem> {
        vec![]
    }
    fn copied_rows(&self) -> Option<CopiedRows> {
        let copied = CopiedRows { input: "rows", output: "rows", key_columns: &["x"], not_of_rows: &["rows"] };
        matches!(self, ToyStage::Keyed { .. }).then_some(copied)
    }
    fn item_keys(&self, rows: &RecordBatch, _: &FileKeys) -> Result<Vec<Option<RowKey>>> {
        let numbers = tables::int_column(rows, "x")?.values().iter();
        Ok(numbers.map(|x| Some(RowKey::of(&x.to_le_bytes()))).collect())
    }
}

impl RunnableStage for ToyStage {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        match self {
            ToyStage::Count { n, .. } => {
                for start in (0..*n).step_by(4) {
                    cx.write("rows", numbers((start..(start + 4).min(*n)).collect())?)?;
                }
                Ok(())
            }
            ToyStage::Map { add, .. } => {
                let summary = cx.map(MapInput::Table("rows"), "rows", 7, &|block| {
                    let got = tables::int_column(&block.rows, "x")?.values();
                    let warnings = got.iter().filter(|&&x| x % 20 == 0);
                    let warnings = warnings
                        .map(|x| pairloom_stage::Warning { subject: x.to_string(), message: "round".to_owned() });
                    let batch = numbers(got.iter().map(|x| x + add).collect())?;
                    Ok(MapOutput { warnings: warnings.collect(), ..MapOutput::new(batch) })
                })?;
                // Also after a resume, the summary counts all rows.
                let MapSummary { inputs, rows, .. } = summary;
                if inputs == rows { Ok(()) } else { Err(Error::internal(format!("{rows} rows of {inputs}"))) }
            }
            ToyStage::Keyed { add, .. } => {
                let earlier = cx.earlier_rows("rows", &["rows"])?;
                cx.map(MapInput::Table("rows"), "rows", 7, &|block| {
                    let got = tables::int_column(&block.rows, "x")?.values();
                    let keys: Vec<RowKey> = got.iter().map(|x| RowKey::of(&x.to_le_bytes())).collect();
                    let part_key = PartKey::of(keys.iter().zip(got).map(|(key, x)| (Some(*key), *x, [])));
                    if let Some(part) = MapOutput::find_earlier(&earlier, part_key.as_ref(), || keys.clone())? {
                        return Ok(part);
                    }
                    let found = earlier.as_ref().map(|earlier| earlier.find(&keys)).transpose()?.unwrap_or_default();
                    let mut copied = 0;
                    let mut row = |place: usize, x: i64| match found.rows.get(place).and_then(Option::as_ref) {
                        Some((batch, row)) => {
                            copied += 1;
                            tables::int_column(batch, "x").map(|column| column.value(*row))
                        }
                        None => Ok(x + add),
                    };
                    let rows = got.iter().enumerate().map(|(place, &x)| row(place, x)).collect::<Result<Vec<_>>>()?;
                    let (row_keys, warnings) = (RowKeys(keys), found.warnings);
                    Ok(MapOutput { warnings, row_keys, part_key, copied, ..MapOutput::new(numbers(rows)?) })
                })?;
                Ok(())
            }
            ToyStage::Squares { n } => {
                let summary = cx.map(MapInput::Range(*n), "rows", 6, &|block| {
                    let warning =
                        pairloom_stage::Warning { subject: block.range.start.to_string(), message: "block".to_owned() };
                    let squares = block.range.clone().map(|x| i64::try_from(x * x).unwrap()).collect();
                    Ok(MapOutput { warnings: vec![warning], ..MapOutput::new(numbers(squares)?) })
                })?;
                let expected = (*n as u64, *n as u64, n.div_ceil(6).min(MapSummary::WARNINGS));
                let got = (summary.inputs, summary.rows, summary.warnings.len());
                if got == expected { Ok(()) } else { Err(Error::internal(format!("{got:?}, expected {expected:?}"))) }
            }
            ToyStage::Sum { fail_at, .. } => {
                let (mut seen, mut sum) = match cx.saved_state()? {
                    Some(state) => {
                        let text = String::from_utf8_lossy(&state).into_owned();
                        let (seen, sum) = text.split_once(' ').ok_or_else(|| Error::internal("state"))?;
                        (seen.parse().unwrap(), sum.parse().unwrap())
                    }
                    None => (0, 0),
                };
                let all = cx.read_all("rows")?;
                let all: Vec<i64> =
                    all.iter().flat_map(|b| b.column(0).as_primitive::<Int64Type>().values().to_vec()).collect();
                for &x in &all[seen..] {
                    if Some(x) == *fail_at {
                        return Err(Error::stage(format!("met {x}")));
                    }
                    sum += x;
                    seen += 1;
                    if seen % 4 == 0 {
                        cx.write("sums", numbers(vec![sum])?)?;
                        cx.warn(seen.to_string(), "four more");
                    }
                    if seen % 8 == 0 {
                        cx.save_state(format!("{seen} {sum}").into(), 2)?;
                    }
                }
                cx.put_file("total", "total.txt", sum.to_string().into())
            }
        }
    }
}
