//! Backward pass of the fused GRU: gradients of weights, biases and word vectors.

use std::sync::{Barrier, OnceLock};

use super::forward::{FusedTape, GATES, ThreadTape, UNITS};
use super::partition::{FusedInput, ThreadGroup, ThreadUnits};
use pairloom_kernels::gru_cell::{self, GruBackward, UnitBlock};
use pairloom_kernels::product::{LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product};

/// Number of rows of a weight's gradient that are computed together. Their factor fits into the L2 cache beside a panel
/// of the other.
const ROWS_PER_BLOCK: usize = 8 * TILE_ROWS;

/// Gradient of the states, row-major.
#[derive(Debug, Clone, Copy)]
pub enum FusedStateGradient<'v> {
    /// Gradient of the state after the last word of each caption, longest caption first, `[b, h]`; zero for other
    /// states.
    LastWord(&'v [f32]),
    /// Gradient of the state after every word, `[n, h]`.
    EveryWord(&'v [f32]),
}

/// Buffers for gradients, row-major and without gaps. Their values are overwritten, except `vectors`.
#[derive(Debug)]
pub struct GradientBuffers<'v> {
    /// Gradient of the vectors of the distinct words, `[u, w]`, which is added. `None` if it is not needed.
    pub vectors: Option<&'v mut [f32]>,
    /// Gradient of `W_ih`, `[3h, w]`.
    pub w_ih: &'v mut [f32],
    /// Gradient of `W_hh`, `[3h, h]`.
    pub w_hh: &'v mut [f32],
    /// Gradient of `b_ih`, `[3h]`.
    pub b_ih: &'v mut [f32],
    /// Gradient of `b_hh`, `[3h]`.
    pub b_hh: &'v mut [f32],
}

/// Rows of the gradients that one thread computes.
struct GradientRows<'v> {
    /// Index of the first distinct word, and the rows of its vector and the following ones.
    vectors: Option<(usize, &'v mut [f32])>,
    /// Row of the gradient for each value of a row of gates; `None` for padding. The same holds for the next three
    /// fields.
    w_ih: Vec<Option<&'v mut [f32]>>,
    w_hh: Vec<Option<&'v mut [f32]>>,
    b_ih: Vec<Option<&'v mut [f32]>>,
    b_hh: Vec<Option<&'v mut [f32]>>,
}

/// Data that the threads exchange after the last position.
struct BackwardExchange<'t> {
    group: ThreadGroup,
    barrier: Barrier,
    units: &'t [ThreadUnits],
    /// For each thread, the states before every word except the first ones.
    before: Vec<OnceLock<RightFactor>>,
    /// For each thread, the gradients of the input products of the distinct words.
    inputs: Vec<OnceLock<Vec<[UnitBlock; 3]>>>,
}

impl FusedTape {
    /// Computes all gradients from that of the states. `input` is the input of the forward pass.
    pub fn backward(
        self,
        input: &FusedInput<'_>,
        state_gradient: FusedStateGradient<'_>,
        gradients: GradientBuffers<'_>,
    ) {
        let thread_units: Vec<ThreadUnits> = self.parts.iter().map(|part| part.units.clone()).collect();
        let threads = thread_units.len();
        let exchange = BackwardExchange {
            group: ThreadGroup::new(threads, input.batch_sizes.len()),
            barrier: Barrier::new(threads),
            units: &thread_units,
            before: (0..threads).map(|_| OnceLock::new()).collect(),
            inputs: (0..threads).map(|_| OnceLock::new()).collect(),
        };
        let rows = distribute_rows(gradients, &thread_units, input);
        let exchange = &exchange;
        std::thread::scope(|scope| {
            let mut work = self.parts.into_iter().zip(rows).enumerate();
            let first = work.next();
            for (thread, (part, rows)) in work {
                scope.spawn(move || backward_thread(input, state_gradient, thread, part, rows, exchange));
            }
            if let Some((thread, (part, rows))) = first {
                backward_thread(input, state_gradient, thread, part, rows, exchange);
            }
        });
    }
}

fn backward_thread(
    input: &FusedInput<'_>,
    state_gradient: FusedStateGradient<'_>,
    thread: usize,
    mut part: ThreadTape,
    rows: GradientRows<'_>,
    exchange: &BackwardExchange<'_>,
) {
    backward_through_time(input, state_gradient, thread, &mut part, exchange);
    let ThreadTape { units, gates, candidates, states } = part;
    let first = input.batch_sizes[0];
    let after = input.token_rows.len() - first;

    // States before each word except the first ones, in the order of the words.
    if after > 0 {
        let starts = input.position_starts();
        let before: Vec<usize> = (1..starts.len())
            .flat_map(|t| (0..input.batch_sizes[t]).map(move |c| (t, c)))
            .map(|(t, c)| starts[t - 1] + c)
            .collect();
        let right = RightFactor::from_rows(input.element_type, after, units.range.len(), |k| {
            states[before[k] * units.panels..][..units.panels].as_flattened()
        });
        drop(exchange.before[thread].set(right));
    }
    UNITS.give(states);
    let inputs = gru_cell::occurrence_sums(input.token_rows, input.n_distinct(), units.panels, &gates, &candidates);
    let (b_ih, b_hh) = (gru_cell::column_sums(&inputs, units.panels), gru_cell::column_sums(&gates, units.panels));
    for (sums, rows) in [(b_ih, rows.b_ih), (b_hh, rows.b_hh)] {
        for (sum, row) in sums.as_flattened().as_flattened().iter().zip(rows) {
            if let Some(row) = row {
                row[0] = *sum;
            }
        }
    }
    UNITS.give(candidates);
    drop(exchange.inputs[thread].set(inputs));
    exchange.barrier.wait();

    let width = 3 * units.width();
    let before: Vec<(usize, &RightFactor)> = exchange
        .units
        .iter()
        .zip(&exchange.before)
        .filter_map(|(units, right)| Some((units.range.start, right.get()?)))
        .collect();
    let of_words = |k: usize| &gates.as_flattened().as_flattened()[(first + k) * width..][..width];
    weight_gradient(input, after, of_words, &before, rows.w_hh);
    GATES.give(gates);

    let all: Vec<&[[UnitBlock; 3]]> =
        exchange.inputs.iter().filter_map(OnceLock::get).map(|inputs| &inputs[..]).collect();
    let words = RightFactor::from_rows(input.element_type, input.n_distinct(), input.word_dim(), |k| input.vector(k));
    let own = all[thread].as_flattened().as_flattened();
    weight_gradient(input, input.n_distinct(), |k| &own[k * width..][..width], &[(0, &words)], rows.w_ih);
    if let Some((first, rows)) = rows.vectors {
        add_word_vector_gradient(input, exchange.units, &all, first, rows);
    }
}

/// Backpropagates through the positions. Gates and candidates are overwritten by the gradients of `q` and `x_n`.
fn backward_through_time(
    input: &FusedInput<'_>,
    state_gradient: FusedStateGradient<'_>,
    thread: usize,
    part: &mut ThreadTape,
    exchange: &BackwardExchange<'_>,
) {
    let ThreadTape { units, gates, candidates, states } = part;
    let (panels, h, element_type) = (units.panels, input.state_size(), input.element_type);
    let zeros = vec![0.0; units.width()];
    let recurrent: Vec<RightFactor> = exchange
        .units
        .iter()
        .map(|from| {
            RightFactor::from_rows(element_type, 3 * from.width(), units.range.len(), |k| {
                from.gate_row(k, h).map_or(&zeros[..], |row| &input.w_hh[row * h..][units.range.clone()])
            })
        })
        .collect();
    let starts = input.position_starts();
    let mut state = vec![[0.0; TILE_COLUMNS]; input.batch_sizes[0] * panels];
    for (t, &size) in input.batch_sizes.iter().enumerate().rev() {
        let start = starts[t];
        let longer = input.batch_sizes.get(t + 1).copied().unwrap_or(0);
        // Captions from `longer` on end at this position.
        let (pulled, from) = match state_gradient {
            FusedStateGradient::LastWord(d) => (&d[longer * h..size * h], longer),
            FusedStateGradient::EveryWord(d) => (&d[start * h..][..size * h], 0),
        };
        for (d, to) in pulled.chunks_exact(h).zip(state[from * panels..].chunks_exact_mut(panels)) {
            gru_cell::add(to.as_flattened_mut(), &d[units.range.clone()]);
        }
        for caption in 0..size {
            for panel in 0..panels {
                let at = (start + caption) * panels + panel;
                gru_cell::backward(GruBackward {
                    previous_state: if t == 0 {
                        &[0.0; TILE_COLUMNS]
                    } else {
                        &states[(starts[t - 1] + caption) * panels + panel]
                    },
                    state: &mut state[caption * panels + panel],
                    gates: &mut gates[at],
                    hidden_candidate: &mut candidates[at],
                });
            }
        }
        if t == 0 {
            return;
        }
        let row = |caption: usize| gates[(start + caption) * panels..][..panels].as_flattened().as_flattened();
        let left = LeftFactor::from_rows(element_type, size, 3 * units.width(), row);
        let published = exchange.group.all_gather(t, thread, left);
        for panel in 0..panels {
            for (block, first) in (0..size).step_by(TILE_ROWS).enumerate() {
                let rows = TILE_ROWS.min(size - first);
                let mut product = Tile::ZERO;
                for (left, right) in published.clone().zip(&recurrent) {
                    add_product(element_type, rows, left.panel(block), right.panel(panel), &mut product);
                }
                for (i, values) in product.0.iter().enumerate().take(rows) {
                    gru_cell::add(&mut state[(first + i) * panels + panel], values);
                }
            }
        }
    }
}

/// Computes the gradient of a weight: the product of the gradients of its outputs, a row of `left` for each of `depth`
/// words, and its inputs, given in `rights` with their first columns. The result is written to `rows`.
fn weight_gradient<'v>(
    input: &FusedInput<'_>,
    depth: usize,
    left: impl Fn(usize) -> &'v [f32],
    rights: &[(usize, &RightFactor)],
    mut rows: Vec<Option<&mut [f32]>>,
) {
    if depth == 0 {
        rows.into_iter().flatten().for_each(|row| row.fill(0.0));
        return;
    }
    for (group, out) in rows.chunks_mut(ROWS_PER_BLOCK).enumerate() {
        let factor = LeftFactor::from_columns(input.element_type, out.len(), depth, |k| {
            &left(k)[group * ROWS_PER_BLOCK..][..out.len()]
        });
        for &(start, right) in rights {
            for (panel, (columns, right)) in right.panels().enumerate() {
                for (out, (rows, left)) in out.chunks_mut(TILE_ROWS).zip(factor.panels()) {
                    let mut product = Tile::ZERO;
                    add_product(input.element_type, rows, left, right, &mut product);
                    for (out, values) in out.iter_mut().zip(&product.0) {
                        if let Some(out) = out {
                            out[start + panel * TILE_COLUMNS..][..columns].copy_from_slice(&values[..columns]);
                        }
                    }
                }
            }
        }
    }
}

/// Adds the gradient of the vectors of the distinct words from `first` on: that of their input products times `W_ih`.
fn add_word_vector_gradient(
    input: &FusedInput<'_>,
    thread_units: &[ThreadUnits],
    inputs: &[&[[UnitBlock; 3]]],
    first: usize,
    rows: &mut [f32],
) {
    let (width, h, element_type) = (input.word_dim(), input.state_size(), input.element_type);
    let count = rows.len() / width;
    if count == 0 {
        return;
    }
    let zeros = vec![0.0; width];
    let factors: Vec<(LeftFactor, RightFactor)> = thread_units
        .iter()
        .zip(inputs)
        .map(|(units, inputs)| {
            let depth = 3 * units.width();
            let inputs = inputs.as_flattened().as_flattened();
            let row = |k| units.gate_row(k, h).map_or(&zeros[..], |row| &input.w_ih[row * width..][..width]);
            let left = LeftFactor::from_rows(element_type, count, depth, |i| &inputs[(first + i) * depth..][..depth]);
            (left, RightFactor::from_rows(element_type, depth, width, row))
        })
        .collect();
    for panel in 0..width.div_ceil(TILE_COLUMNS) {
        let columns = TILE_COLUMNS.min(width - panel * TILE_COLUMNS);
        for (block, out) in rows.chunks_mut(TILE_ROWS * width).enumerate() {
            let mut product = Tile::ZERO;
            for (left, right) in &factors {
                add_product(element_type, out.len() / width, left.panel(block), right.panel(panel), &mut product);
            }
            for (out, values) in out.chunks_exact_mut(width).zip(&product.0) {
                gru_cell::add(&mut out[panel * TILE_COLUMNS..][..columns], values);
            }
        }
    }
}

/// Distributes the rows of the gradients to the threads.
fn distribute_rows<'v>(
    gradients: GradientBuffers<'v>,
    thread_units: &[ThreadUnits],
    input: &FusedInput<'_>,
) -> Vec<GradientRows<'v>> {
    let GradientBuffers { vectors, w_ih, w_hh, b_ih, b_hh } = gradients;
    let (h, word) = (input.state_size(), input.word_dim());
    let words_per_thread = input.n_distinct().div_ceil(thread_units.len()).max(1);
    let mut vectors = vectors.map(|vectors| vectors.chunks_mut(words_per_thread * word));
    let mut matrices = [(w_ih, word), (w_hh, h), (b_ih, 1), (b_hh, 1)]
        .map(|(matrix, width)| matrix.chunks_exact_mut(width).map(Some).collect::<Vec<_>>());
    let mut deal = |(thread, units): (usize, &ThreadUnits)| {
        let mut rows = |matrix: usize| -> Vec<Option<&'v mut [f32]>> {
            let row = |i| units.gate_row(i, h).and_then(|row| matrices[matrix][row].take());
            (0..3 * units.width()).map(row).collect()
        };
        let (w_ih, w_hh, b_ih, b_hh) = (rows(0), rows(1), rows(2), rows(3));
        let vectors = vectors.as_mut().map(|vectors| (thread * words_per_thread, vectors.next().unwrap_or_default()));
        GradientRows { vectors, w_ih, w_hh, b_ih, b_hh }
    };
    thread_units.iter().enumerate().map(&mut deal).collect()
}
