//! Hubs before and after a method: how often items are found, and which are found most.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::elements::ResultRow;
use super::read;
use super::text::Label;
use super::things::Things;
use crate::error::{Error, Result};
use crate::stage::Cx;
use crate::tables;

/// Hubs of a direction that are shown.
const SHOWN: usize = 6;

/// The numbers of lists that items are in, by the first method of the results, and by the best of the others.
#[derive(Debug)]
pub(super) struct Hubs {
    /// Cut-offs, ascending.
    pub(super) cutoffs: Vec<usize>,
    /// The methods; one or two.
    pub(super) methods: Vec<String>,
    /// Captions that images find, images that captions find.
    pub(super) directions: [Found; 2],
}

/// Items of one direction.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Shares at the first and at the last cut-off, for each method: (N, percent of items that at least N queries have among their
    /// best).
    pub(super) shares: [Vec<Vec<(f64, f64)>>; 2],
    /// The items that the first method finds most often.
    pub(super) hubs: Vec<Hub>,
}

/// An item that is found often.
#[derive(Debug)]
pub(super) struct Hub {
    pub(super) item: Label,
    /// For each method in how many lists it is, at each cut-off.
    pub(super) counts: Vec<Vec<i64>>,
    /// Queries that it matches.
    pub(super) own: i64,
}

/// An item of one fold, the queries that it matches, and Nₖ at each cut-off by each method.
type Counts = BTreeMap<(i64, i64), (i64, Vec<Vec<i64>>)>;

/// Reads them, of the first protocol of the results.
///
/// # Errors
/// A table cannot be read. A picture that cannot be shown is a warning.
pub(super) fn read(cx: &mut Cx<'_>, results: &[ResultRow], things: &mut Things) -> Result<Option<Hubs>> {
    let Some(first) = results.first() else { return Ok(None) };
    let others = results.iter().filter(|row| row.protocol == first.protocol && row.method != first.method);
    let best = others.reduce(|best, row| if row.rsum > best.rsum { row } else { best });
    let methods: Vec<String> = [Some(first), best].into_iter().flatten().map(|row| row.method.clone()).collect();
    let mut counts = [Counts::new(), Counts::new()];
    let mut cutoffs = Vec::new();
    while let Some(batch) = cx.next("hubs")? {
        let (protocols, directions) = (tables::texts(&batch, "protocol")?, tables::texts(&batch, "direction")?);
        let number = |name: &str| tables::ids(&batch, name);
        let (folds, items, own) = (number("fold")?, number("item_id")?, number("own")?);
        cutoffs = tables::hubs::cutoffs(&batch.schema());
        if cutoffs.is_empty() {
            return Err(Error::data("`hubs` has no counts, wanted a column such as `n1`"));
        }
        let found = cutoffs.iter().map(|k| number(&format!("n{k}"))).collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == directions.value(row));
            let name = read::method(&batch, row)?;
            let method = methods.iter().position(|method| *method == name);
            let (Some(direction), Some(method)) = (direction, method) else { continue };
            if protocols.value(row) != first.protocol {
                continue;
            }
            let empty = || (own.value(row), vec![vec![0; cutoffs.len()]; methods.len()]);
            let of = counts[direction].entry((folds.value(row), items.value(row))).or_insert_with(empty);
            of.1[method] = found.iter().map(|counts| counts.value(row)).collect();
        }
    }
    let most: [Vec<_>; 2] = counts.each_ref().map(most);
    let wanted = |direction: usize| -> HashSet<i64> { most[direction].iter().map(|(id, ..)| *id).collect() };
    things.read_captions(cx, &wanted(0), &HashSet::new())?;
    things.read_images(cx, &wanted(1))?;
    let mut directions = counts.each_ref().map(|counts| Found {
        shares: [0, cutoffs.len().saturating_sub(1)].map(|k| shares(counts, methods.len(), k)),
        hubs: vec![],
    });
    for (direction, most) in most.into_iter().enumerate() {
        let hub = |(id, own, counts): (i64, i64, Vec<Vec<i64>>)| {
            let item = if direction == 0 { things.caption(id) } else { things.image(id) };
            Hub { item, counts, own }
        };
        directions[direction].hubs = most.into_iter().map(hub).collect();
    }
    Ok(Some(Hubs { cutoffs, methods, directions }))
}

/// The items that the first method finds most often, at the last cut-off.
fn most(counts: &Counts) -> Vec<(i64, i64, Vec<Vec<i64>>)> {
    let mut all: Vec<_> = counts.iter().map(|(&(_, id), (own, counts))| (id, *own, counts.clone())).collect();
    all.sort_by_key(|(id, _, counts)| (std::cmp::Reverse(counts.first().and_then(|first| first.last().copied())), *id));
    all.truncate(SHOWN);
    all
}

/// For each method the share of items that are found at least so often, for each number from 1; `k`: the place of the cut-off.
#[expect(clippy::cast_precision_loss, reason = "pools are far below 2⁵³")]
fn shares(counts: &Counts, methods: usize, k: usize) -> Vec<Vec<(f64, f64)>> {
    let share = |method: usize| {
        let mut histogram: HashMap<i64, usize> = HashMap::new();
        for (_, counts) in counts.values() {
            *histogram.entry(counts[method][k]).or_default() += 1;
        }
        let mut numbers: Vec<(i64, usize)> = histogram.into_iter().filter(|&(number, _)| number > 0).collect();
        numbers.sort_unstable();
        let mut above: usize = numbers.iter().map(|(_, items)| items).sum();
        let mut points = Vec::with_capacity(numbers.len());
        for (number, items) in numbers {
            points.push((number as f64, 100.0 * above as f64 / counts.len() as f64));
            above -= items;
        }
        points
    };
    (0..methods).map(share).collect()
}
