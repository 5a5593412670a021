//! The states after every word.

use super::share::{Reading, Share, Team};
use crate::kernels::gates::{self, Step, Units};
use crate::kernels::product::{COLUMNS, Left, ROWS, Right, Tile, tile};

/// What the backward pass needs.
#[derive(Debug)]
pub struct Tape {
    pub(super) parts: Vec<Part>,
}

/// What one thread found.
#[derive(Debug)]
pub(super) struct Part {
    pub share: Share,
    /// r, z, n of every word.
    pub gates: Vec<[Units; 3]>,
    /// `q_n` of every word.
    pub candidates: Vec<Units>,
    /// `h'` of every word.
    pub states: Vec<Units>,
}

impl Tape {
    /// Runs over all words, from h = 0, with `threads` threads.
    #[must_use]
    pub fn forward(reading: &Reading<'_>, threads: usize) -> Self {
        let shares = Share::deal(reading.units(), threads);
        let team = Team::new(shares.len(), reading.sizes.len());
        let (shares, team) = (&shares, &team);
        let parts = std::thread::scope(|scope| {
            let others: Vec<_> =
                (1..shares.len()).map(|member| scope.spawn(move || part(reading, shares, member, team))).collect();
            let mut parts = vec![part(reading, shares, 0, team)];
            parts.extend(others.into_iter().map(|other| other.join().expect("no thread of a pass panics")));
            parts
        });
        Self { parts }
    }

    /// Copies the states after the words `rows` to `out`, row-major.
    pub fn states(&self, rows: impl ExactSizeIterator<Item = usize>, out: &mut [f32]) {
        let units = self.parts.last().map_or(0, |part| part.share.units.end);
        for (row, out) in rows.zip(out.chunks_exact_mut(units.max(1))) {
            for Part { share, states, .. } in &self.parts {
                let state = states[row * share.panels..][..share.panels].as_flattened();
                out[share.units.clone()].copy_from_slice(&state[..share.units.len()]);
            }
        }
    }
}

fn part(reading: &Reading<'_>, shares: &[Share], member: usize, team: &Team) -> Part {
    let share = shares[member].clone();
    let (panels, h, lanes) = (share.panels, reading.units(), reading.lanes);
    let inputs = inputs(reading, &share);
    let zeros = vec![0.0; h];
    let recurrent: Vec<Right> = shares
        .iter()
        .map(|from| {
            let column = |i| share.gate_row(i, h).map_or(&zeros[..], |row| &reading.w_hh[row * h..][..h]);
            let depth = from.units.len();
            Right::from_columns(lanes, depth, 3 * share.width(), |i| &column(i)[from.units.clone()])
        })
        .collect();
    let bias = share.bias(reading.b_hh);
    let words = reading.words.len();
    let mut gates = vec![[[0.0; COLUMNS]; 3]; words * panels];
    let mut candidates = vec![[0.0; COLUMNS]; words * panels];
    let mut states = vec![[0.0; COLUMNS]; words * panels];
    let mut start = 0;
    let mut published: Vec<&Left> = Vec::new();
    let blocks = reading.sizes[0].div_ceil(ROWS);
    let mut products = [(); 3].map(|()| vec![Tile::ZERO; blocks]);
    for (t, &size) in reading.sizes.iter().enumerate() {
        let before_start = if t == 0 { 0 } else { start - reading.sizes[t - 1] };
        let (done, states_here) = states.split_at_mut(start * panels);
        for panel in 0..panels {
            // A gate's weights stay in the second cache while all captions go by.
            for (gate, products) in products.iter_mut().enumerate() {
                for (block, product) in products[..size.div_ceil(ROWS)].iter_mut().enumerate() {
                    *product = Tile::ZERO;
                    for (left, right) in published.iter().zip(&recurrent) {
                        let rows = ROWS.min(size - block * ROWS);
                        tile(lanes, rows, left.panel(block), right.panel(panel * 3 + gate), product);
                    }
                }
            }
            for caption in 0..size {
                let at = (start + caption) * panels + panel;
                gates::forward(Step {
                    inputs: &inputs[reading.words[start + caption] * panels + panel],
                    products: products.each_ref().map(|products| &products[caption / ROWS].0[caption % ROWS]),
                    bias: &bias[panel],
                    before: if t == 0 { &[0.0; COLUMNS] } else { &done[(before_start + caption) * panels + panel] },
                    gates: &mut gates[at],
                    candidate: &mut candidates[at],
                    state: &mut states_here[caption * panels + panel],
                });
            }
        }
        if let Some(&next) = reading.sizes.get(t + 1) {
            let state = |caption: usize| states_here[caption * panels..][..panels].as_flattened();
            let left = Left::from_rows(lanes, next, share.units.len(), state);
            published = team.exchange(t, member, left).collect();
        }
        start += size;
    }
    Part { share, gates, candidates, states }
}

/// `W_ih·w + b_ih` of every distinct word, `[u]` rows of gates.
fn inputs(reading: &Reading<'_>, share: &Share) -> Vec<[Units; 3]> {
    let (width, h, lanes) = (reading.word(), reading.units(), reading.lanes);
    let zeros = vec![0.0; width];
    let words = Left::from_rows(lanes, reading.distinct(), width, |i| reading.vector(i));
    let weights = Right::from_columns(lanes, width, 3 * share.width(), |i| {
        share.gate_row(i, h).map_or(&zeros[..], |row| &reading.w_ih[row * width..][..width])
    });
    let bias = share.bias(reading.b_ih);
    let mut out = vec![[[0.0; COLUMNS]; 3]; reading.distinct() * share.panels];
    for (column, (_, right)) in weights.panels().enumerate() {
        let (panel, gate) = (column / 3, column % 3);
        for (block, (rows, left)) in words.panels().enumerate() {
            let mut product = Tile([bias[panel][gate]; ROWS]);
            tile(lanes, rows, left, right, &mut product);
            for (i, values) in product.0.iter().enumerate().take(rows) {
                out[(block * ROWS + i) * share.panels + panel][gate] = *values;
            }
        }
    }
    out
}
