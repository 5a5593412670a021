//! Run of `test_significance`: compares every method of a table with its baseline.

use arrow::array::{Float64Array, Int64Array, StringArray};
use az::SaturatingAs;

use super::hits::{HitsTable, MethodHits, read_hits};
use super::paired::{Difference, differences};
use super::settings::{AGAINST, RANKINGS, TestSignificance};
use pairloom_base::error::{Error, Result};
use pairloom_stage::{RunnableStage, StageContext};
use pairloom_tables::{self as tables, Nullable};

/// Row of `significance_tests`.
struct SignificanceRow<'f> {
    method: &'f MethodHits,
    baseline: &'f MethodHits,
    difference: Difference,
}

impl RunnableStage for TestSignificance {
    fn run(&self, cx: &mut StageContext<'_>) -> Result<()> {
        let HitsTable { cutoffs, methods: ours } = read_hits(cx, RANKINGS)?;
        let theirs = self.against.is_some().then(|| read_hits(cx, AGAINST)).transpose()?;
        if let Some(theirs) = theirs.as_ref().filter(|theirs| theirs.cutoffs != cutoffs) {
            let message = format!("`rankings` has cut-offs {cutoffs:?}, `against` has {:?}", theirs.cutoffs);
            return Err(Error::data(message).hint("both evaluations must have the same `cutoffs`"));
        }
        let theirs = theirs.map(|theirs| theirs.methods);
        let mut pairs = Vec::new();
        let mut alone = Vec::new();
        for found in &ours {
            let baseline = self.counterpart(found, theirs.as_deref().unwrap_or(&ours))?;
            match baseline {
                Some(baseline) if !std::ptr::eq(found, baseline) => pairs.push((found, baseline)),
                Some(_) => {}
                None => alone.push(found),
            }
        }
        let place = |found: &MethodHits| format!("{} of protocol `{}`", found.method, found.protocol);
        if pairs.is_empty() {
            let list = |all: &[MethodHits]| all.iter().map(place).collect::<Vec<_>>().join(", ");
            let of_baseline = theirs.as_deref().map(|theirs| format!(", `against` has {}", list(theirs)));
            let message =
                format!("nothing to compare: `rankings` has {}{}", list(&ours), of_baseline.unwrap_or_default());
            return Err(Error::data(message)
                .hint("both must have a protocol in common; `baseline` names a method to compare all with"));
        }
        for found in alone {
            cx.warn(place(found), "is not in `against`, so it is not compared");
        }
        let mut rows = Vec::new();
        for (number, &(found, baseline)) in pairs.iter().enumerate() {
            let of_pair = differences(&found.queries, &baseline.queries, &cutoffs, cx.cancel())
                .map_err(|error| error.context(format!("{} against {}", place(found), baseline.method)))?;
            rows.extend(of_pair.into_iter().map(|difference| SignificanceRow { method: found, baseline, difference }));
            cx.progress(number as u64 + 1, Some(pairs.len() as u64), "comparisons");
        }
        let evaluations = self.evaluations(cx)?;
        write(cx, &rows, &evaluations)
    }
}

/// Evaluation that a result is of.
struct TestedEvaluation {
    key: String,
    /// Settings that differ from those of the other evaluation.
    settings: Option<String>,
}

impl TestSignificance {
    /// Evaluations of the methods and of the baselines.
    fn evaluations(&self, cx: &StageContext<'_>) -> Result<[TestedEvaluation; 2]> {
        let lineage = cx.lineage()?;
        let producer = |input: &str| {
            let found = lineage.producer(input)?;
            found.ok_or_else(|| Error::internal(format!("`{input}` is a source")))
        };
        let of_methods = producer(RANKINGS)?;
        let of_baselines = if self.against.is_some() { producer(AGAINST)? } else { of_methods };
        Ok([(of_methods, of_baselines), (of_baselines, of_methods)]
            .map(|(own, other)| TestedEvaluation { key: own.key.clone(), settings: lineage.own_settings(own, other) }))
    }

    /// Finds the result that a result is compared with: of the same protocol, that of the baseline or of the same
    /// method.
    ///
    /// # Errors
    /// Several methods have the name of the baseline, or none has.
    fn counterpart<'f>(&self, found: &MethodHits, among: &'f [MethodHits]) -> Result<Option<&'f MethodHits>> {
        let of_protocol = among.iter().filter(|other| other.protocol == found.protocol);
        let Some(name) = self.baseline() else {
            return Ok(of_protocol.into_iter().find(|other| other.method == found.method));
        };
        let named: Vec<&MethodHits> = of_protocol.clone().filter(|other| other.method.name == name).collect();
        let there: Vec<String> = of_protocol.map(|other| other.method.to_string()).collect();
        match named.as_slice() {
            [one] => Ok(Some(one)),
            [] if there.is_empty() => Ok(None),
            [] => Err(Error::data(format!("no method is called `{name}`; there are {}", there.join(", ")))
                .hint("set `baseline` to one of them")),
            several => {
                let several: Vec<String> = several.iter().map(|other| other.method.to_string()).collect();
                Err(Error::data(format!("several methods are called `{name}`: {}", several.join(", ")))
                    .hint("evaluate the one to compare with by itself, and name its table as `against`"))
            }
        }
    }
}

fn write(cx: &mut StageContext<'_>, rows: &[SignificanceRow<'_>], evaluations: &[TestedEvaluation; 2]) -> Result<()> {
    let [own, baseline] = evaluations;
    let key = |of: &TestedEvaluation| StringArray::from_iter_values(rows.iter().map(|_| &of.key));
    let settings = |of: &TestedEvaluation| Nullable(rows.iter().map(|_| of.settings.as_deref()).collect());
    let text =
        |get: for<'r> fn(&'r SignificanceRow<'r>) -> &'r str| StringArray::from_iter_values(rows.iter().map(get));
    let parameters = |get: for<'r> fn(&'r SignificanceRow<'r>) -> &'r MethodHits| {
        Nullable(rows.iter().map(|row| get(row).method.parameters.as_deref()).collect())
    };
    let number =
        |get: fn(&Difference) -> f64| Float64Array::from_iter_values(rows.iter().map(|row| get(&row.difference)));
    let count = |get: fn(&Difference) -> usize| {
        let count = |row: &SignificanceRow<'_>| get(&row.difference).saturating_as::<i64>();
        Int64Array::from_iter_values(rows.iter().map(count))
    };
    let columns = tables::significance_tests::TableColumns {
        protocol: text(|row| &row.method.protocol),
        method: text(|row| &row.method.method.name),
        parameters: parameters(|row| row.method),
        baseline: text(|row| &row.baseline.method.name),
        baseline_parameters: parameters(|row| row.baseline),
        settings: settings(own),
        baseline_settings: settings(baseline),
        evaluation: key(own),
        baseline_evaluation: key(baseline),
        measure: text(|row| &row.difference.measure),
        value: number(|of| of.values[0]),
        baseline_value: number(|of| of.values[1]),
        difference: number(|of| of.values[0] - of.values[1]),
        ci95_low: number(|of| of.ci95.0),
        ci95_high: number(|of| of.ci95.1),
        p_value: number(|of| of.p_value),
        wins: count(|of| of.wins),
        losses: count(|of| of.losses),
        n_queries: count(|of| of.n_queries),
        n_images: count(|of| of.n_images),
    };
    cx.write("significance_tests", columns.into_batch()?)
}
