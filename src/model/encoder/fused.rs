//! Fused GRU on the CPU, from word vectors to states, with this project's kernels instead of libtorch's.
//!
//! Faster than libtorch for three reasons. The gates of a word position take one pass right after the product, while it
//! is in the cache, instead of a dozen passes over memory. The recurrent weights are packed once per step instead of
//! once per word position. And the f32 products of the library behind libtorch use half of the vector width on
//! non-Intel CPUs.
//!
//! The units of the state are distributed to threads. A thread computes its units of every state, and its rows of every
//! gradient. At each position every thread publishes its states, packed for the product, and waits for the others.
//! Results do not depend on the number of threads, because sums are always in the same order.

use std::ops::Range;
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};

use pairloom_kernels::cpu::prefetch;
use pairloom_kernels::gru_cell::{self, GruBackward, GruForward, UnitBlock};
use pairloom_kernels::product::{ElementType, LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product};

/// Input of one direction of the fused GRU. Matrices are row-major; the rows of the weights are ordered by gate: r, z,
/// n.
#[derive(Debug, Clone, Copy)]
pub struct FusedInput<'v> {
    /// Number of captions that have a word at each position.
    pub batch_sizes: &'v [usize],
    /// Row of each word in `vectors`.
    pub token_rows: &'v [usize],
    /// Vectors of the distinct words, `[u, w]`.
    pub vectors: &'v [f32],
    /// `W_ih`, `[3h, w]`.
    pub w_ih: &'v [f32],
    /// `W_hh`, `[3h, h]`.
    pub w_hh: &'v [f32],
    /// `b_ih`, `[3h]`.
    pub b_ih: &'v [f32],
    /// `b_hh`, `[3h]`.
    pub b_hh: &'v [f32],
    /// Element type of the products.
    pub element_type: ElementType,
}

impl<'v> FusedInput<'v> {
    /// Number of units of the state, h.
    fn state_size(&self) -> usize {
        self.b_hh.len() / 3
    }

    /// Width of a word vector, w.
    fn word_dim(&self) -> usize {
        self.w_ih.len() / self.b_ih.len().max(1)
    }

    /// Number of distinct words, u.
    fn n_distinct(&self) -> usize {
        self.vectors.len() / self.word_dim().max(1)
    }

    /// Vector of distinct word `i`.
    fn vector(&self, i: usize) -> &'v [f32] {
        &self.vectors[i * self.word_dim()..][..self.word_dim()]
    }

    /// Index of the first word of each position.
    fn position_starts(&self) -> Vec<usize> {
        let before = self.batch_sizes.iter().scan(0, |next, &size| {
            *next += size;
            Some(*next - size)
        });
        before.collect()
    }
}

/// Units of one thread: whole panels of a product's right factor. A row of states is stored panel by panel and padded
/// with units that are always 0; a row of gates is stored panel by panel in the order r, z, n.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ThreadUnits {
    /// Range of units.
    pub range: Range<usize>,
    /// Number of panels.
    pub panels: usize,
}

impl ThreadUnits {
    /// Distributes the units of a state to at most `threads` threads.
    fn distribute(units: usize, threads: usize) -> Vec<Self> {
        let panels = units.div_ceil(TILE_COLUMNS);
        let threads = threads.clamp(1, panels.max(1));
        let cut = |i: usize| panels * i / threads;
        let assignment = |i: usize| Self {
            range: cut(i) * TILE_COLUMNS..(cut(i + 1) * TILE_COLUMNS).min(units),
            panels: cut(i + 1) - cut(i),
        };
        (0..threads).map(assignment).collect()
    }

    /// Number of values of a row of states, with padding.
    fn width(&self) -> usize {
        self.panels * TILE_COLUMNS
    }

    /// Row of a GRU weight with `h` units that value `i` of a row of gates belongs to; `None` for padding.
    fn gate_row(&self, i: usize, h: usize) -> Option<usize> {
        let (panel, gate, unit) = (i / (3 * TILE_COLUMNS), i / TILE_COLUMNS % 3, i % TILE_COLUMNS);
        let unit = self.range.start + panel * TILE_COLUMNS + unit;
        (unit < self.range.end).then_some(gate * h + unit)
    }

    /// Values of a GRU bias for each panel.
    fn bias(&self, bias: &[f32]) -> Vec<[UnitBlock; 3]> {
        let value = |i| self.gate_row(i, bias.len() / 3).map_or(0.0, |row| bias[row]);
        let panel = |p| std::array::from_fn(|g| std::array::from_fn(|i| value((p * 3 + g) * TILE_COLUMNS + i)));
        (0..self.panels).map(panel).collect()
    }
}

/// Exchange between the threads of one pass.
#[derive(Debug)]
struct ThreadGroup {
    /// Barrier of all threads.
    barrier: Barrier,
    members: usize,
    /// Data that each thread published at each position.
    published: Vec<OnceLock<LeftFactor>>,
}

impl ThreadGroup {
    fn new(members: usize, places: usize) -> Self {
        let published = (0..members * places).map(|_| OnceLock::new()).collect();
        Self { barrier: Barrier::new(members), members, published }
    }

    /// Publishes `left` of thread `member` at position `place`, waits for all threads, and returns the data of all.
    fn all_gather(&self, place: usize, member: usize, left: LeftFactor) -> impl Iterator<Item = &LeftFactor> + Clone {
        drop(self.published[place * self.members + member].set(left));
        self.barrier.wait();
        self.published[place * self.members..][..self.members].iter().filter_map(OnceLock::get)
    }
}

/// Buffers for gates, and for blocks of units.
static GATES: SpareBuffers<[UnitBlock; 3]> = SpareBuffers::new();
static UNITS: SpareBuffers<UnitBlock> = SpareBuffers::new();

/// Captions between a step and the one whose blocks are brought into the cache meanwhile.
const CAPTIONS_AHEAD: usize = 4;

/// Results of the forward pass that the backward pass needs.
#[derive(Debug)]
pub struct FusedTape {
    parts: Vec<ThreadTape>,
}

/// Part of the tape that one thread computed.
#[derive(Debug)]
struct ThreadTape {
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
    let word_gates = |k: usize| &gates.as_flattened().as_flattened()[(first + k) * width..][..width];
    weight_gradient(input, after, word_gates, &before, rows.w_hh);
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

/// Buffers of each kind that are kept: for several directions of a GRU and some threads.
const MAX_BUFFERS: usize = 32;

/// Buffers whose values are overwritten by whoever takes them. Clearing new ones would cost as much as writing them.
#[derive(Debug)]
struct SpareBuffers<T>(Mutex<Vec<Vec<T>>>);

impl<T: Clone + Default> SpareBuffers<T> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Buffer of `len` values, which are any.
    pub fn take(&self, len: usize) -> Vec<T> {
        let mut buffer = self.0.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        buffer.resize(len, T::default());
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&self, buffer: Vec<T>) {
        let mut buffers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < MAX_BUFFERS {
            buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_distributed_in_whole_panels() {
        let distribute =
            |units, threads| ThreadUnits::distribute(units, threads).into_iter().map(|s| s.range).collect::<Vec<_>>();
        assert_eq!(distribute(1024, 2), [0..512, 512..1024]);
        assert_eq!(distribute(100, 3), [0..32, 32..64, 64..100]);
        assert_eq!(distribute(4, 8).as_slice(), std::slice::from_ref(&(0..4)));
        let units = &ThreadUnits::distribute(100, 3)[2];
        assert_eq!((units.panels, units.width()), (2, 64));
        assert_eq!(units.gate_row(0, 100), Some(64));
        assert_eq!(units.gate_row(3 * TILE_COLUMNS + TILE_COLUMNS, 100), Some(100 + 96));
        assert_eq!(units.gate_row(3 * TILE_COLUMNS + 4, 100), None);
    }
}
