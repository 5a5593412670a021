//! Toy stages, with which the engine is tested: they count, pass on, and fail when told.

use std::sync::Arc;

use arrow::array::{AsArray, Int64Array};
use arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use serde_json::json;

use crate::error::{Error, Result};
use crate::plan::Node;
use crate::stage::{Cx, Input, Mapped, Output, Over, Problem, Run, Source, Stage, TableRef};
use crate::tables;

/// A stage of the engine's tests.
#[derive(Debug, Clone)]
pub(crate) enum Toy {
    /// Writes the numbers 0..n in parts of 10.
    Count { n: i64, source: Option<Source> },
    /// Maps numbers x to x + add in blocks of 7, with a warning for each multiple of 20.
    Map { rows: TableRef, add: i64 },
    /// Writes the squares of 0..n in blocks of 6, with a warning for each block.
    Squares { n: usize },
    /// Adds up in a state that it saves after every 8 numbers, and writes the sum at that place; then a file.
    Sum { rows: TableRef, fail_at: Option<i64> },
}

impl Toy {
    pub fn count(n: i64) -> Self {
        Self::Count { n, source: None }
    }
    pub fn pass(rows: &str) -> Self {
        Self::Map { rows: rows.to_owned().try_into().unwrap(), add: 0 }
    }
    pub fn add(rows: &str, add: i64) -> Self {
        Self::Map { rows: rows.to_owned().try_into().unwrap(), add }
    }
    pub fn sum(rows: &str) -> Self {
        Self::Sum { rows: rows.to_owned().try_into().unwrap(), fail_at: None }
    }
}

pub(crate) fn node(name: &str, stage: Toy) -> Node<Toy> {
    Node { name: name.to_owned(), stage }
}

fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]))
}

fn numbers(numbers: Vec<i64>) -> Result<arrow::array::RecordBatch> {
    tables::batch(&schema(), vec![Arc::new(Int64Array::from(numbers))])
}

impl Stage for Toy {
    fn kind(&self) -> &'static str {
        match self {
            Toy::Count { .. } => "count",
            Toy::Map { .. } => "map",
            Toy::Squares { .. } => "squares",
            Toy::Sum { .. } => "sum",
        }
    }
    fn version(&self) -> u32 {
        1
    }
    fn settings(&self) -> serde_json::Value {
        match self {
            Toy::Count { n, .. } => json!({ "n": n }),
            Toy::Map { add, .. } => json!({ "add": add }),
            Toy::Squares { n } => json!({ "n": n }),
            Toy::Sum { .. } => json!({}),
        }
    }
    fn inputs(&self) -> Vec<Input> {
        match self {
            Toy::Count { source, .. } => source.iter().map(|source| Input::source("source", source)).collect(),
            Toy::Squares { .. } => vec![],
            Toy::Map { rows, .. } | Toy::Sum { rows, .. } => vec![Input::table("rows", rows, schema())],
        }
    }
    fn outputs(&self) -> Vec<Output> {
        match self {
            Toy::Count { .. } => vec![Output::table("rows", schema(), 10)],
            Toy::Map { .. } => vec![Output::table("rows", schema(), 7)],
            Toy::Squares { .. } => vec![Output::table("rows", schema(), 6)],
            Toy::Sum { .. } => vec![Output::table("sums", schema(), 3), Output::files("total")],
        }
    }
    fn check(&self) -> Vec<Problem> {
        vec![]
    }
}

impl Run for Toy {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        match self {
            Toy::Count { n, .. } => {
                for start in (0..*n).step_by(4) {
                    cx.write("rows", numbers((start..(start + 4).min(*n)).collect())?)?;
                }
                Ok(())
            }
            Toy::Map { add, .. } => cx.map(Over::Rows("rows"), "rows", 7, &|block| {
                let got = tables::ids(&block.rows, "x")?.values();
                let warnings = got.iter().filter(|&&x| x % 20 == 0);
                let warnings =
                    warnings.map(|x| crate::stage::Warning { subject: x.to_string(), message: "round".to_owned() });
                Ok(Mapped { batch: numbers(got.iter().map(|x| x + add).collect())?, warnings: warnings.collect() })
            }),
            Toy::Squares { n } => cx.map(Over::Numbers(*n), "rows", 6, &|block| {
                let warning =
                    crate::stage::Warning { subject: block.range.start.to_string(), message: "block".to_owned() };
                let squares = block.range.clone().map(|x| i64::try_from(x * x).unwrap()).collect();
                Ok(Mapped { batch: numbers(squares)?, warnings: vec![warning] })
            }),
            Toy::Sum { fail_at, .. } => {
                let (mut seen, mut sum) = match cx.state()? {
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
                        cx.save(format!("{seen} {sum}").into(), 2)?;
                    }
                }
                cx.put_file("total", "total.txt", sum.to_string().into())
            }
        }
    }
}
