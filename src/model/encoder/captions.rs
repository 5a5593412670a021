//! Captions to the joint space: word vectors, a GRU in one direction or two, pooling, then the unit sphere.

use tch::{Device, Kind, Tensor};

use super::gru;
use super::packed::Packed;
use super::pool::{self, Pooled, number, rows};
use super::product::Precision;
use super::unit::{self, Unit};
use crate::model::form::{Form, Pooling};

/// What the gradient needs.
#[derive(Debug)]
pub struct Tape {
    packed: Packed,
    /// Vectors of the distinct words, `[u, w]`.
    vectors: Tensor,
    directions: Vec<gru::Tape>,
    pooled: Vec<Pooled>,
    unit: Unit,
}

/// Embeds captions, `[n, d]` in the order they were given. `parameters` are the word vectors and, for each direction,
/// `W_ih`, `W_hh`, `b_ih`, `b_hh`.
#[must_use]
pub fn forward(captions: &[&[i64]], parameters: &[Tensor], form: &Form, precision: Precision) -> (Tensor, Tape) {
    let device = parameters[0].device();
    let packed = Packed::new(captions);
    let vectors = parameters[0].index_select(0, &Tensor::from_slice(&packed.distinct).to_device(device));
    let orders = orders(&packed, form, device);
    let directions: Vec<gru::Tape> = parameters[1..]
        .chunks_exact(4)
        .zip(&orders)
        .map(|(gru, order)| {
            // A word that occurs more than once has one input product.
            let products = precision.product(&vectors, &gru[0].tr()).g_add_(&gru[2]);
            gru::forward(products.index_select(0, &order.words), &gru[1], &gru[3], &packed.sizes, precision)
        })
        .collect();

    // Each direction is pooled by itself, but for the largest value, which is that of the averaged states.
    let (states, pooled): (Vec<Tensor>, Vec<Pooled>) = if form.pooling == Pooling::Max {
        let aligned = directions.iter().zip(&orders).map(|(tape, order)| order.align(tape.states())).collect();
        let (state, pooled) = pool::forward(&mean(aligned), &packed, form.pooling);
        (vec![state], vec![pooled])
    } else {
        directions.iter().map(|tape| pool::forward(tape.states(), &packed, form.pooling)).unzip()
    };
    let found = mean(states).index_select(0, &rows(&packed.places, device));
    let (out, unit) = unit::forward(found, true, form.absolute);
    (out, Tape { packed, vectors, directions, pooled, unit })
}

impl Tape {
    /// Gradients in the parameters, in their order, from that of the embeddings, `[n, d]`. `None` in place of the word
    /// vectors' where they are frozen.
    #[must_use]
    pub fn backward(self, d: &Tensor, parameters: &[Tensor], form: &Form, precision: Precision) -> Vec<Option<Tensor>> {
        let Self { packed, vectors, directions, pooled, unit } = self;
        let device = d.device();
        let d = unit.backward(d);
        #[expect(clippy::cast_precision_loss, reason = "there are at most two directions")]
        let share = 1.0 / directions.len() as f64;
        let d = d.zeros_like().index_copy(0, &rows(&packed.places, device), &d) * share;
        let mut of_states: Vec<Tensor> = pooled.into_iter().map(|pooled| pooled.backward(&d, &packed)).collect();
        let orders = orders(&packed, form, device);
        if form.pooling == Pooling::Max {
            of_states = orders.iter().map(|order| order.align(&of_states[0])).collect();
        }

        let mut of_vectors = (!form.words_frozen).then(|| vectors.zeros_like());
        let mut gradients = vec![None];
        for (((tape, d), order), gru) in
            directions.into_iter().zip(of_states).zip(&orders).zip(parameters[1..].chunks_exact(4))
        {
            let found = tape.backward(&d, &gru[1], &packed.sizes, precision);
            // Every occurrence of a word adds to the gradient of its one input product.
            let per_word = Tensor::zeros([vectors.size()[0], found.inputs.size()[1]], (d.kind(), device)).index_add(
                0,
                &order.words,
                &found.inputs,
            );
            if let Some(of_vectors) = &mut of_vectors {
                let _ = of_vectors.g_add_(&precision.product(&per_word, &gru[0]));
            }
            let bias = per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>);
            let input = precision.product(&per_word.tr(), &vectors);
            gradients.extend([input, found.weight, bias, found.bias].map(Some));
        }
        let distinct = Tensor::from_slice(&packed.distinct).to_device(device);
        gradients[0] = of_vectors.map(|found| parameters[0].zeros_like().index_copy(0, &distinct, &found));
        gradients
    }
}

/// The order in which a direction reads the words.
struct Order {
    /// Row of each word among the distinct ones, `[n]`.
    words: Tensor,
    /// Where each word of the other order stands, for the direction that starts at the end.
    reverse: Option<Tensor>,
}

impl Order {
    /// Rows of this order in the order of the captions, and the other way round.
    fn align(&self, rows: &Tensor) -> Tensor {
        self.reverse.as_ref().map_or_else(|| rows.shallow_clone(), |reverse| rows.index_select(0, reverse))
    }
}

fn orders(packed: &Packed, form: &Form, device: Device) -> Vec<Order> {
    let forwards = Order { words: rows(&packed.words, device), reverse: None };
    if !form.bidirectional {
        return vec![forwards];
    }
    let reverse = packed.reverse();
    let words: Vec<usize> = reverse.iter().map(|&row| packed.words[row]).collect();
    vec![forwards, Order { words: rows(&words, device), reverse: Some(rows(&reverse, device)) }]
}

/// The mean of one or two tensors.
fn mean(tensors: Vec<Tensor>) -> Tensor {
    let count = number(tensors.len());
    let sum = tensors.into_iter().reduce(|a, b| a + b).expect("a GRU has a direction");
    if count == 1 { sum } else { sum / count }
}
