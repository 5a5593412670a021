//! Captions to the joint space: word vectors, a GRU in one direction or two, pooling, then the unit sphere.

use tch::Tensor;

use super::packed::Packed;
use super::pool::{Pooling, max, max_backward, mean, mean_backward, number, rows};
use super::product::Precision;
use super::recurrence::{self, Input, Pull};
use super::unit::{self, Unit};

/// How captions become vectors.
#[derive(Debug, Clone, Copy)]
pub struct CaptionOptions {
    /// How the states of a caption become one.
    pub pooling: Pooling,
    /// True if vectors end with |·|.
    pub absolute: bool,
    /// True if word vectors want no gradient.
    pub words_frozen: bool,
}

/// What the gradient needs.
#[derive(Debug)]
pub struct Tape {
    packed: Packed,
    /// Vectors of the distinct words, `[u, w]`.
    vectors: Tensor,
    directions: Vec<Direction>,
    /// With [`Pooling::Max`], the position of the word that had the largest value, `[b, d]`.
    largest: Option<Tensor>,
    unit: Unit,
}

/// One direction of reading.
#[derive(Debug)]
struct Direction {
    /// Row of each word among the distinct ones, in the order of reading.
    words: Vec<usize>,
    /// For the direction that starts at the end: where each word of the other order stands.
    reverse: Option<Vec<usize>>,
    tape: recurrence::Tape,
}

/// Embeds captions, `[n, d]` in the order they were given. `parameters` are the word vectors and, for each direction,
/// `W_ih`, `W_hh`, `b_ih`, `b_hh`.
pub fn forward(
    captions: &[&[i32]],
    parameters: &[Tensor],
    options: CaptionOptions,
    precision: Precision,
) -> (Tensor, Tape) {
    let device = parameters[0].device();
    let packed = Packed::new(captions);
    let vectors = parameters[0].index_select(0, &Tensor::from_slice(&packed.distinct).to_device(device));
    let directions: Vec<Direction> = parameters[1..]
        .chunks_exact(4)
        .enumerate()
        .map(|(direction, weights)| {
            let reverse = (direction > 0).then(|| packed.reverse());
            let words = match &reverse {
                Some(reverse) => reverse.iter().map(|&row| packed.words[row]).collect(),
                None => packed.words.clone(),
            };
            let tape = Input { vectors: &vectors, words: &words, packed: &packed, weights, precision }.forward();
            Direction { words, reverse, tape }
        })
        .collect();

    let every: Vec<usize> = (0..packed.words.len()).collect();
    let last = packed.last();
    let states = directions.iter().map(|direction| match (options.pooling, &direction.reverse) {
        // The last word that a direction reads is the first one for the other.
        (Pooling::Last, _) => direction.tape.rows(&last, &parameters[2]),
        (Pooling::Mean | Pooling::Max, None) => direction.tape.rows(&every, &parameters[2]),
        (Pooling::Mean | Pooling::Max, Some(reverse)) => direction.tape.rows(reverse, &parameters[2]),
    });
    let sum = states.reduce(|a, b| a + b).expect("a GRU has a direction");
    let states = if directions.len() == 1 { sum } else { sum / number(directions.len()) };
    let (pooled, largest) = match options.pooling {
        Pooling::Last => (states, None),
        Pooling::Mean => (mean(&states, &packed), None),
        Pooling::Max => {
            let (pooled, largest) = max(&states, &packed);
            (pooled, Some(largest))
        }
    };
    let (out, unit) = unit::forward(pooled.index_select(0, &rows(&packed.places, device)), true, options.absolute);
    (out, Tape { packed, vectors, directions, largest, unit })
}

impl Tape {
    /// Gradients in the parameters, in their order, from that of the embeddings, `[n, d]`. `None` in place of the word
    /// vectors' where they are frozen.
    #[must_use]
    pub fn backward(
        self,
        d: &Tensor,
        parameters: &[Tensor],
        options: CaptionOptions,
        precision: Precision,
    ) -> Vec<Option<Tensor>> {
        let Self { packed, vectors, directions, largest, unit } = self;
        let device = d.device();
        let d = unit.backward(d);
        let d = d.zeros_like().index_copy(0, &rows(&packed.places, device), &d);
        let d = if directions.len() == 1 { d } else { d / number(directions.len()) };
        let d = match (options.pooling, largest) {
            (Pooling::Mean, _) => mean_backward(&d, &packed),
            (Pooling::Max, Some(largest)) => max_backward(&d, &largest, &packed),
            _ => d,
        };

        let mut of_vectors = (!options.words_frozen).then(|| vectors.zeros_like());
        let mut gradients = vec![None];
        for (Direction { words, reverse, tape }, weights) in directions.into_iter().zip(parameters[1..].chunks_exact(4))
        {
            let input = Input { vectors: &vectors, words: &words, packed: &packed, weights, precision };
            let aligned = reverse.filter(|_| options.pooling != Pooling::Last);
            let d = aligned.map_or_else(|| d.shallow_clone(), |reverse| d.index_select(0, &rows(&reverse, device)));
            let pull = if options.pooling == Pooling::Last { Pull::Last(&d) } else { Pull::Words(&d) };
            gradients.extend(input.backward(tape, pull, of_vectors.as_mut()).map(Some));
        }
        let distinct = Tensor::from_slice(&packed.distinct).to_device(device);
        gradients[0] = of_vectors.map(|found| parameters[0].zeros_like().index_copy(0, &distinct, &found));
        gradients
    }
}
