//! Gradients of everything that the states depend on.

use std::sync::{Barrier, OnceLock};

use super::forward::{Part, Tape};
use super::share::{Reading, Share, Team};
use crate::kernels::gates::{self, StepBack, Units};
use crate::kernels::product::{COLUMNS, Left, ROWS, Right, Tile, tile};

/// Rows of a weight's gradient that are computed together: their factor fits the second cache beside a panel of the other.
const TOGETHER: usize = 8 * ROWS;

/// The gradient of the states, row-major.
#[derive(Debug, Clone, Copy)]
pub enum Pull<'v> {
    /// Of the state after the last word of each caption, longest caption first, `[b, h]`; of no other.
    Last(&'v [f32]),
    /// Of the state after every word, `[n, h]`.
    Words(&'v [f32]),
}

/// Where gradients go, row-major and without gaps; values there are overwritten.
#[derive(Debug)]
pub struct Gradients<'v> {
    /// Of the vectors of the distinct words, `[u, w]`: added. `None` where nobody asks.
    pub vectors: Option<&'v mut [f32]>,
    /// Of `W_ih`, `[3h, w]`.
    pub w_ih: &'v mut [f32],
    /// Of `W_hh`, `[3h, h]`.
    pub w_hh: &'v mut [f32],
    /// Of `b_ih`, `[3h]`.
    pub b_ih: &'v mut [f32],
    /// Of `b_hh`, `[3h]`.
    pub b_hh: &'v mut [f32],
}

/// The rows of the gradients that one thread computes.
struct Rows<'v> {
    /// Of the distinct words, the first one's number with them.
    vectors: Option<(usize, &'v mut [f32])>,
    /// For each value of a row of gates.
    w_ih: Vec<Option<&'v mut [f32]>>,
    w_hh: Vec<Option<&'v mut [f32]>>,
    b_ih: Vec<Option<&'v mut [f32]>>,
    b_hh: Vec<Option<&'v mut [f32]>>,
}

/// What the threads tell each other after the last position.
struct Exchange<'t> {
    team: Team,
    barrier: Barrier,
    shares: &'t [Share],
    /// Of each thread: the states before every word but the first ones.
    before: Vec<OnceLock<Right>>,
    /// Of each thread: the gradients of the input products of the distinct words.
    inputs: Vec<OnceLock<Vec<[Units; 3]>>>,
}

impl Tape {
    /// Gradients, from those of the states. Uses the tape up. `reading` is that of the forward pass.
    pub fn backward(self, reading: &Reading<'_>, pull: Pull<'_>, gradients: Gradients<'_>) {
        let shares: Vec<Share> = self.parts.iter().map(|part| part.share.clone()).collect();
        let members = shares.len();
        let exchange = Exchange {
            team: Team::new(members, reading.sizes.len()),
            barrier: Barrier::new(members),
            shares: &shares,
            before: (0..members).map(|_| OnceLock::new()).collect(),
            inputs: (0..members).map(|_| OnceLock::new()).collect(),
        };
        let rows = deal(gradients, &shares, reading);
        let exchange = &exchange;
        std::thread::scope(|scope| {
            let mut work = self.parts.into_iter().zip(rows).enumerate();
            let first = work.next();
            for (member, (part, rows)) in work {
                scope.spawn(move || gradients_of(reading, pull, member, part, rows, exchange));
            }
            if let Some((member, (part, rows))) = first {
                gradients_of(reading, pull, member, part, rows, exchange);
            }
        });
    }
}

fn gradients_of(
    reading: &Reading<'_>,
    pull: Pull<'_>,
    member: usize,
    mut part: Part,
    rows: Rows<'_>,
    exchange: &Exchange<'_>,
) {
    through_time(reading, pull, member, &mut part, exchange);
    let Part { share, gates, candidates, states } = part;
    let first = reading.sizes[0];
    let after = reading.words.len() - first;

    // The states before each word but the first ones, in the order of the words.
    if after > 0 {
        let starts = reading.starts();
        let before: Vec<usize> = (1..starts.len())
            .flat_map(|t| (0..reading.sizes[t]).map(move |c| (t, c)))
            .map(|(t, c)| starts[t - 1] + c)
            .collect();
        let right = Right::from_rows(reading.lanes, after, share.units.len(), |k| {
            states[before[k] * share.panels..][..share.panels].as_flattened()
        });
        drop(exchange.before[member].set(right));
    }
    let inputs = gates::occurrence_sums(reading.words, reading.distinct(), share.panels, &gates, &candidates);
    let (b_ih, b_hh) = (gates::column_sums(&inputs, share.panels), gates::column_sums(&gates, share.panels));
    for (sums, rows) in [(b_ih, rows.b_ih), (b_hh, rows.b_hh)] {
        for (sum, row) in sums.as_flattened().as_flattened().iter().zip(rows) {
            if let Some(row) = row {
                row[0] = *sum;
            }
        }
    }
    drop(exchange.inputs[member].set(inputs));
    exchange.barrier.wait();

    let gates = gates.as_flattened().as_flattened();
    let width = 3 * share.width();
    let before: Vec<(usize, &Right)> = exchange
        .shares
        .iter()
        .zip(&exchange.before)
        .filter_map(|(share, right)| Some((share.units.start, right.get()?)))
        .collect();
    let of_words = |k: usize| &gates[(first + k) * width..][..width];
    weight(reading, after, of_words, &before, rows.w_hh);

    let all: Vec<&[[Units; 3]]> = exchange.inputs.iter().filter_map(OnceLock::get).map(|inputs| &inputs[..]).collect();
    let words = Right::from_rows(reading.lanes, reading.distinct(), reading.word(), |k| reading.vector(k));
    let own = all[member].as_flattened().as_flattened();
    weight(reading, reading.distinct(), |k| &own[k * width..][..width], &[(0, &words)], rows.w_ih);
    if let Some((first, rows)) = rows.vectors {
        vectors(reading, exchange.shares, &all, first, rows);
    }
}

/// Back through the positions: gates and candidates become the gradients of `q` and of `x_n`.
fn through_time(reading: &Reading<'_>, pull: Pull<'_>, member: usize, part: &mut Part, exchange: &Exchange<'_>) {
    let Part { share, gates, candidates, states } = part;
    let (panels, h, lanes) = (share.panels, reading.units(), reading.lanes);
    let zeros = vec![0.0; share.width()];
    let recurrent: Vec<Right> = exchange
        .shares
        .iter()
        .map(|from| {
            Right::from_rows(lanes, 3 * from.width(), share.units.len(), |k| {
                from.gate_row(k, h).map_or(&zeros[..], |row| &reading.w_hh[row * h..][share.units.clone()])
            })
        })
        .collect();
    let starts = reading.starts();
    let mut state = vec![[0.0; COLUMNS]; reading.sizes[0] * panels];
    for (t, &size) in reading.sizes.iter().enumerate().rev() {
        let start = starts[t];
        let longer = reading.sizes.get(t + 1).copied().unwrap_or(0);
        // Captions from here on end here.
        let (pulled, from) = match pull {
            Pull::Last(d) => (&d[longer * h..size * h], longer),
            Pull::Words(d) => (&d[start * h..][..size * h], 0),
        };
        for (d, to) in pulled.chunks_exact(h).zip(state[from * panels..].chunks_exact_mut(panels)) {
            gates::add(to.as_flattened_mut(), &d[share.units.clone()]);
        }
        for caption in 0..size {
            for panel in 0..panels {
                let at = (start + caption) * panels + panel;
                gates::backward(StepBack {
                    before: if t == 0 { &[0.0; COLUMNS] } else { &states[(starts[t - 1] + caption) * panels + panel] },
                    state: &mut state[caption * panels + panel],
                    gates: &mut gates[at],
                    candidate: &mut candidates[at],
                });
            }
        }
        if t == 0 {
            return;
        }
        let row = |caption: usize| gates[(start + caption) * panels..][..panels].as_flattened().as_flattened();
        let left = Left::from_rows(lanes, size, 3 * share.width(), row);
        let published = exchange.team.exchange(t, member, left);
        for panel in 0..panels {
            for (block, first) in (0..size).step_by(ROWS).enumerate() {
                let rows = ROWS.min(size - first);
                let mut product = Tile::ZERO;
                for (left, right) in published.clone().zip(&recurrent) {
                    tile(lanes, rows, left.panel(block), right.panel(panel), &mut product);
                }
                for (i, values) in product.0.iter().enumerate().take(rows) {
                    gates::add(&mut state[(first + i) * panels + panel], values);
                }
            }
        }
    }
}

/// The gradient of a weight: the product of the gradients of what it gave, one row of `left` for each of `depth` words, and of
/// what it was given, whose columns start where `rights` says. Its rows go to `rows`.
fn weight<'v>(
    reading: &Reading<'_>,
    depth: usize,
    left: impl Fn(usize) -> &'v [f32],
    rights: &[(usize, &Right)],
    mut rows: Vec<Option<&mut [f32]>>,
) {
    if depth == 0 {
        rows.into_iter().flatten().for_each(|row| row.fill(0.0));
        return;
    }
    for (group, out) in rows.chunks_mut(TOGETHER).enumerate() {
        let factor = Left::from_columns(reading.lanes, out.len(), depth, |k| &left(k)[group * TOGETHER..][..out.len()]);
        for &(start, right) in rights {
            for (panel, (columns, right)) in right.panels().enumerate() {
                for (out, (rows, left)) in out.chunks_mut(ROWS).zip(factor.panels()) {
                    let mut product = Tile::ZERO;
                    tile(reading.lanes, rows, left, right, &mut product);
                    for (out, values) in out.iter_mut().zip(&product.0) {
                        if let Some(out) = out {
                            out[start + panel * COLUMNS..][..columns].copy_from_slice(&values[..columns]);
                        }
                    }
                }
            }
        }
    }
}

/// The gradient of the vectors of the distinct words from `first` on: that of their input products times `W_ih`.
fn vectors(reading: &Reading<'_>, shares: &[Share], inputs: &[&[[Units; 3]]], first: usize, rows: &mut [f32]) {
    let (width, h, lanes) = (reading.word(), reading.units(), reading.lanes);
    let count = rows.len() / width;
    if count == 0 {
        return;
    }
    let zeros = vec![0.0; width];
    let factors: Vec<(Left, Right)> = shares
        .iter()
        .zip(inputs)
        .map(|(share, inputs)| {
            let depth = 3 * share.width();
            let inputs = inputs.as_flattened().as_flattened();
            let row = |k| share.gate_row(k, h).map_or(&zeros[..], |row| &reading.w_ih[row * width..][..width]);
            let left = Left::from_rows(lanes, count, depth, |i| &inputs[(first + i) * depth..][..depth]);
            (left, Right::from_rows(lanes, depth, width, row))
        })
        .collect();
    for panel in 0..width.div_ceil(COLUMNS) {
        let columns = COLUMNS.min(width - panel * COLUMNS);
        for (block, out) in rows.chunks_mut(ROWS * width).enumerate() {
            let mut product = Tile::ZERO;
            for (left, right) in &factors {
                tile(lanes, out.len() / width, left.panel(block), right.panel(panel), &mut product);
            }
            for (out, values) in out.chunks_exact_mut(width).zip(&product.0) {
                gates::add(&mut out[panel * COLUMNS..][..columns], values);
            }
        }
    }
}

/// The rows of each thread.
fn deal<'v>(gradients: Gradients<'v>, shares: &[Share], reading: &Reading<'_>) -> Vec<Rows<'v>> {
    let Gradients { vectors, w_ih, w_hh, b_ih, b_hh } = gradients;
    let (h, word) = (reading.units(), reading.word());
    let together = reading.distinct().div_ceil(shares.len()).max(1);
    let mut vectors = vectors.map(|vectors| vectors.chunks_mut(together * word));
    let mut matrices = [(w_ih, word), (w_hh, h), (b_ih, 1), (b_hh, 1)]
        .map(|(matrix, width)| matrix.chunks_exact_mut(width).map(Some).collect::<Vec<_>>());
    let mut deal = |(member, share): (usize, &Share)| {
        let mut rows = |matrix: usize| -> Vec<Option<&'v mut [f32]>> {
            let row = |i| share.gate_row(i, h).and_then(|row| matrices[matrix][row].take());
            (0..3 * share.width()).map(row).collect()
        };
        let (w_ih, w_hh, b_ih, b_hh) = (rows(0), rows(1), rows(2), rows(3));
        let vectors = vectors.as_mut().map(|vectors| (member * together, vectors.next().unwrap_or_default()));
        Rows { vectors, w_ih, w_hh, b_ih, b_hh }
    };
    shares.iter().enumerate().map(&mut deal).collect()
}
