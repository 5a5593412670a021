//! Forward pass of the fused GRU: states after every word.

use super::partition::{FusedInput, ThreadGroup, ThreadUnits};
use super::spare::SpareBuffers;
use pairloom_kernels::cpu::prefetch;
use pairloom_kernels::gru_cell::{self, GruForward, UnitBlock};
use pairloom_kernels::product::{LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product};

/// Buffers for gates, and for blocks of units.
pub(super) static GATES: SpareBuffers<[UnitBlock; 3]> = SpareBuffers::new();
pub(super) static UNITS: SpareBuffers<UnitBlock> = SpareBuffers::new();

/// Captions between a step and the one whose blocks are brought into the cache meanwhile.
const CAPTIONS_AHEAD: usize = 4;

/// Results of the forward pass that the backward pass needs.
#[derive(Debug)]
pub struct FusedTape {
    pub(super) parts: Vec<ThreadTape>,
}

/// Part of the tape that one thread computed.
#[derive(Debug)]
pub(super) struct ThreadTape {
    pub units: ThreadUnits,
    /// Gates r, z, n of every word.
    pub gates: Vec<[UnitBlock; 3]>,
    /// `q_n` of every word.
    pub candidates: Vec<UnitBlock>,
    /// `h'` of every word.
    pub states: Vec<UnitBlock>,
}

impl FusedTape {
    /// Runs the GRU over all words, from h = 0, on `threads` threads.
    #[must_use]
    pub fn forward(input: &FusedInput<'_>, threads: usize) -> Self {
        let thread_units = ThreadUnits::distribute(input.state_size(), threads);
        let group = ThreadGroup::new(thread_units.len(), input.batch_sizes.len());
        let (thread_units, group) = (&thread_units, &group);
        let parts = std::thread::scope(|scope| {
            let others: Vec<_> = (1..thread_units.len())
                .map(|thread| scope.spawn(move || forward_thread(input, thread_units, thread, group)))
                .collect();
            let mut parts = vec![forward_thread(input, thread_units, 0, group)];
            parts.extend(others.into_iter().map(|other| other.join().expect("no thread of a pass panics")));
            parts
        });
        Self { parts }
    }

    /// Copies the states after the words `rows` to `out`, row-major.
    pub fn states(&self, rows: impl ExactSizeIterator<Item = usize>, out: &mut [f32]) {
        let width = self.parts.last().map_or(0, |part| part.units.range.end);
        for (row, out) in rows.zip(out.chunks_exact_mut(width.max(1))) {
            for ThreadTape { units, states, .. } in &self.parts {
                let state = states[row * units.panels..][..units.panels].as_flattened();
                out[units.range.clone()].copy_from_slice(&state[..units.range.len()]);
            }
        }
    }
}

fn forward_thread(
    input: &FusedInput<'_>,
    thread_units: &[ThreadUnits],
    thread: usize,
    group: &ThreadGroup,
) -> ThreadTape {
    let units = thread_units[thread].clone();
    let (panels, h, element_type) = (units.panels, input.state_size(), input.element_type);
    let inputs = input_products(input, &units);
    let zeros = vec![0.0; h];
    let recurrent: Vec<RightFactor> = thread_units
        .iter()
        .map(|from| {
            let column = |i| units.gate_row(i, h).map_or(&zeros[..], |row| &input.w_hh[row * h..][..h]);
            let depth = from.range.len();
            RightFactor::from_columns(element_type, depth, 3 * units.width(), |i| &column(i)[from.range.clone()])
        })
        .collect();
    let bias = units.bias(input.b_hh);
    let words = input.token_rows.len();
    let mut gates = GATES.take(words * panels);
    let mut candidates = UNITS.take(words * panels);
    let mut states = UNITS.take(words * panels);
    let mut start = 0;
    let mut published: Vec<&LeftFactor> = Vec::new();
    let blocks = input.batch_sizes[0].div_ceil(TILE_ROWS);
    let mut products = [(); 3].map(|()| vec![Tile::ZERO; blocks]);
    for (t, &size) in input.batch_sizes.iter().enumerate() {
        let before_start = if t == 0 { 0 } else { start - input.batch_sizes[t - 1] };
        let (done, states_here) = states.split_at_mut(start * panels);
        for panel in 0..panels {
            // The weights of a gate stay in the L2 cache during the loop over all captions.
            for (gate, products) in products.iter_mut().enumerate() {
                for (block, product) in products[..size.div_ceil(TILE_ROWS)].iter_mut().enumerate() {
                    *product = Tile::ZERO;
                    for (left, right) in published.iter().zip(&recurrent) {
                        let rows = TILE_ROWS.min(size - block * TILE_ROWS);
                        add_product(element_type, rows, left.panel(block), right.panel(panel * 3 + gate), product);
                    }
                }
            }
            let input_row = |caption: usize| input.token_rows[start + caption] * panels + panel;
            for caption in 0..size {
                let at = (start + caption) * panels + panel;
                let later = caption + CAPTIONS_AHEAD;
                if later < size {
                    let at = (start + later) * panels + panel;
                    prefetch(inputs[input_row(later)].as_flattened());
                    prefetch(gates[at].as_flattened());
                    prefetch(&candidates[at]);
                    prefetch(&states_here[later * panels + panel]);
                    if t > 0 {
                        prefetch(&done[(before_start + later) * panels + panel]);
                    }
                }
                gru_cell::forward(GruForward {
                    input_products: &inputs[input_row(caption)],
                    hidden_products: products
                        .each_ref()
                        .map(|products| &products[caption / TILE_ROWS].0[caption % TILE_ROWS]),
                    hidden_bias: &bias[panel],
                    previous_state: if t == 0 {
                        &[0.0; TILE_COLUMNS]
                    } else {
                        &done[(before_start + caption) * panels + panel]
                    },
                    gates: &mut gates[at],
                    hidden_candidate: &mut candidates[at],
                    state: &mut states_here[caption * panels + panel],
                });
            }
        }
        if let Some(&next) = input.batch_sizes.get(t + 1) {
            let state = |caption: usize| states_here[caption * panels..][..panels].as_flattened();
            let left = LeftFactor::from_rows(element_type, next, units.range.len(), state);
            published = group.all_gather(t, thread, left).collect();
        }
        start += size;
    }
    GATES.give(inputs);
    ThreadTape { units, gates, candidates, states }
}

/// `W_ih·w + b_ih` of every distinct word, `[u]` rows of gates.
fn input_products(input: &FusedInput<'_>, units: &ThreadUnits) -> Vec<[UnitBlock; 3]> {
    let (width, h, element_type) = (input.word_dim(), input.state_size(), input.element_type);
    let zeros = vec![0.0; width];
    let words = LeftFactor::from_rows(element_type, input.n_distinct(), width, |i| input.vector(i));
    let weights = RightFactor::from_columns(element_type, width, 3 * units.width(), |i| {
        units.gate_row(i, h).map_or(&zeros[..], |row| &input.w_ih[row * width..][..width])
    });
    let bias = units.bias(input.b_ih);
    let mut out = GATES.take(input.n_distinct() * units.panels);
    for (column, (_, right)) in weights.panels().enumerate() {
        let (panel, gate) = (column / 3, column % 3);
        for (block, (rows, left)) in words.panels().enumerate() {
            let mut product = Tile([bias[panel][gate]; TILE_ROWS]);
            add_product(element_type, rows, left, right, &mut product);
            for (i, values) in product.0.iter().enumerate().take(rows) {
                out[(block * TILE_ROWS + i) * units.panels + panel][gate] = *values;
            }
        }
    }
    out
}
