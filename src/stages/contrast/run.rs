//! The work of `contrast`: every method of a table against its counterpart.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};

use super::hits::{Found, read};
use super::paired::{Difference, differences};
use super::settings::{AGAINST, Contrast, RANKINGS};
use crate::error::{Error, Result};
use crate::stage::{Cx, Run};
use crate::tables;

/// A row of `contrasts`.
struct Row<'f> {
    found: &'f Found,
    baseline: &'f Found,
    difference: Difference,
}

impl Run for Contrast {
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let ours = read(cx, RANKINGS)?;
        let theirs = self.against.is_some().then(|| read(cx, AGAINST)).transpose()?;
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
        let place = |found: &Found| format!("{} of protocol `{}`", found.method, found.protocol);
        if pairs.is_empty() {
            let list = |all: &[Found]| all.iter().map(place).collect::<Vec<_>>().join(", ");
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
            cx.proceed()?;
            let of_pair = differences(&found.queries, &baseline.queries)
                .map_err(|error| error.context(format!("{} against {}", place(found), baseline.method)))?;
            rows.extend(of_pair.into_iter().map(|difference| Row { found, baseline, difference }));
            cx.progress(number as u64 + 1, Some(pairs.len() as u64));
        }
        write(cx, &rows)
    }
}

impl Contrast {
    /// What a result is compared with: of the same protocol the baseline, or the same method.
    ///
    /// # Errors
    /// Several methods have the name of the baseline, or none has.
    fn counterpart<'f>(&self, found: &Found, among: &'f [Found]) -> Result<Option<&'f Found>> {
        let of_protocol = among.iter().filter(|other| other.protocol == found.protocol);
        let Some(name) = self.baseline() else {
            return Ok(of_protocol.into_iter().find(|other| other.method == found.method));
        };
        let named: Vec<&Found> = of_protocol.clone().filter(|other| other.method.name == name).collect();
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

fn write(cx: &mut Cx<'_>, rows: &[Row<'_>]) -> Result<()> {
    let text = |get: &dyn Fn(&Row<'_>) -> String| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(get)))
    };
    let parameters = |get: &dyn Fn(&Row<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(get).collect::<StringArray>())
    };
    let number = |get: &dyn Fn(&Difference) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| get(&row.difference))))
    };
    let count = |get: &dyn Fn(&Difference) -> usize| -> ArrayRef {
        let count = |row: &Row<'_>| i64::try_from(get(&row.difference)).unwrap_or(i64::MAX);
        Arc::new(Int64Array::from_iter_values(rows.iter().map(count)))
    };
    let columns = vec![
        text(&|row| row.found.protocol.clone()),
        text(&|row| row.found.method.name.clone()),
        parameters(&|row| row.found.method.parameters.clone()),
        text(&|row| row.baseline.method.name.clone()),
        parameters(&|row| row.baseline.method.parameters.clone()),
        text(&|row| row.difference.measure.clone()),
        number(&|of| of.values[0]),
        number(&|of| of.values[1]),
        number(&|of| of.values[0] - of.values[1]),
        number(&|of| of.ci95.0),
        number(&|of| of.ci95.1),
        number(&|of| of.p_value),
        count(&|of| of.won),
        count(&|of| of.lost),
        count(&|of| of.n_queries),
        count(&|of| of.n_images),
    ];
    cx.write("contrasts", tables::batch(&tables::contrasts::table().schema(), columns)?)
}
