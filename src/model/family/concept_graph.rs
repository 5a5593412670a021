//! Concepts of a model: their graph, their input vectors, and the words that name them, as parameters without gradient;
//! and captions with the words of their image, for their concepts.
//!
//! The adjacency follows from the captions that hold two concepts:
//!
//! ```text
//! P_ij = (captions with i and j) / (captions with i), 0 for i = j
//! B_ij = 1 if 5^(P_ij − 0.02) − 5^(−0.02) ≥ 0.3, else 0
//! A_ij = 0.25 · B_ij / (Σ_i B_ij + 10⁻⁶), and A_ii = 1 more
//! ```

use std::collections::{BTreeSet, HashMap};

use az::SaturatingAs;
use tch::{Kind, Tensor};

use super::graph::Graph;
use super::parameters::{AllowedValues, ParameterInit, ParameterSpec, Parameters, tensor_width};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::text::vocabulary::PAD_ID;
use pairloom_spec::input_spec::InputSpec;

/// Name of the parameter with the adjacency A, `[c, c]`.
pub const CONCEPT_ADJACENCY: &str = "C_GCN.adj_all";

/// Name of the parameter with the input vectors of the concepts, `[c, w]`.
pub const CONCEPT_VECTORS: &str = "concepts.vectors";

/// Name of the parameter with the concept of each word of the vocabulary, or −1, `[words]`.
pub const CONCEPTS_OF_WORDS: &str = "concepts.of_words";

/// Base and shift of the scale of P, and the threshold on that scale.
const BASE: f64 = 5.0;
const SHIFT: f64 = 0.02;
const THRESHOLD: f64 = 0.3;

/// Sum of the weights of the edges into a concept.
const EDGE_SHARE: f64 = 0.25;

/// Concept: the number of captions that hold it, alone and with each concept, and the words that name it.
#[derive(Debug, Clone, PartialEq)]
pub struct Concept {
    /// Lemma of its words.
    pub lemma: String,
    /// Words that name it, such as the plural.
    pub words: Vec<String>,
    /// Number of captions that hold it.
    pub n_captions: i64,
    /// Number of captions that hold it and each concept.
    pub co_occurrences: Vec<f32>,
}

/// Specifications of the parameters, for input vectors of width `word`. Vectors are U(±0.5) and words have no concept,
/// until [`set_concepts`].
///
/// # Errors
/// There is no concept.
pub fn concept_specs(data: &InputSpec, word: i64) -> Result<[ParameterSpec; 3]> {
    let (concepts, words) = (tensor_width(data.concepts.unwrap_or(0))?, tensor_width(data.words)?);
    let fixed = |name: &str, shape: &[i64], init, allowed| ParameterSpec {
        trainable: false,
        allowed,
        ..ParameterSpec::new(name, shape, init)
    };
    let (none, word_concepts) = (ParameterInit::Constant(-1.0), AllowedValues::IndexOrNone { count: concepts });
    Ok([
        fixed(CONCEPT_ADJACENCY, &[concepts, concepts], ParameterInit::Constant(0.0), AllowedValues::PositiveRowSums),
        fixed(CONCEPT_VECTORS, &[concepts, word], ParameterInit::Uniform(0.5), AllowedValues::Finite),
        fixed(CONCEPTS_OF_WORDS, &[words], none, word_concepts),
    ])
}

/// Sets the graph of the concepts, and the concepts of the words of a vocabulary.
///
/// # Errors
/// The model has another number of concepts, or none.
pub fn set_concepts(parameters: &Parameters, concepts: &[Concept], vocabulary: &[String]) -> Result<()> {
    let set = |name: &str, values: &[f64]| -> Result<()> {
        let parameter = parameters.get(name)?;
        if parameter.numel() != values.len() {
            return Err(Error::internal(format!(
                "{} values for `{name}`, expected {}",
                values.len(),
                parameter.numel()
            )));
        }
        tch::no_grad(|| parameter.shallow_clone().copy_(&Tensor::from_slice(values).view_as(parameter)));
        Ok(())
    };
    set(CONCEPT_ADJACENCY, &adjacency(concepts))?;
    let word_concepts: HashMap<&str, usize> = concepts
        .iter()
        .enumerate()
        .flat_map(|(i, concept)| concept.words.iter().map(move |word| (&**word, i)))
        .collect();
    #[expect(clippy::cast_precision_loss, reason = "there are a few hundred concepts")]
    let concept = |word: &String| word_concepts.get(&**word).map_or(-1.0, |&concept| concept as f64);
    set(CONCEPTS_OF_WORDS, &vocabulary.iter().map(concept).collect::<Vec<_>>())
}

/// Adjacency A of the concepts, row-major.
fn adjacency(concepts: &[Concept]) -> Vec<f64> {
    let count = concepts.len();
    let mut edges = vec![0.0; count * count];
    for (i, concept) in concepts.iter().enumerate() {
        for (j, &both) in concept.co_occurrences.iter().enumerate().filter(|(j, _)| *j != i) {
            #[expect(clippy::cast_precision_loss, reason = "there are far fewer than 2^53 captions")]
            let share = f64::from(both) / concept.n_captions as f64;
            if BASE.powf(share - SHIFT) - BASE.powf(-SHIFT) >= THRESHOLD {
                edges[i * count + j] = 1.0;
            }
        }
    }
    for j in 0..count {
        let sum: f64 = (0..count).map(|i| edges[i * count + j]).sum();
        (0..count).for_each(|i| edges[i * count + j] *= EDGE_SHARE / (sum + 1e-6));
        edges[j * count + j] += 1.0;
    }
    edges
}

/// Labels of captions, `[m, c]`: 1 for each concept that a word names, 0 elsewhere.
///
/// # Errors
/// The model has no concepts.
pub fn concept_labels(graph: &Graph<'_>, captions: &[&[i32]]) -> Result<Tensor> {
    let (word_concepts, adjacency) = (graph.get(CONCEPTS_OF_WORDS)?, graph.get(CONCEPT_ADJACENCY)?);
    let (count, concepts) = (captions.len().saturating_as::<i64>(), adjacency.size()[0]);
    let words = Tensor::from_slice(&captions.concat()).to_device(word_concepts.device());
    let rows: Vec<i64> = (0..).zip(captions).flat_map(|(row, words)| vec![row; words.len()]).collect();
    let rows = Tensor::from_slice(&rows).to_device(word_concepts.device());
    // Words without a concept have −1, and mark the column before the first.
    let places = word_concepts.index_select(0, &words).to_kind(Kind::Int64) + 1 + rows * (concepts + 1);
    let labels = Tensor::zeros([count * (concepts + 1)], (adjacency.kind(), adjacency.device()));
    Ok(labels.index_fill(0, &places, 1.0).view([count, concepts + 1]).narrow(1, 1, concepts))
}

// Captions with the words of the other captions of their image.
//
// Such a caption is its own token ids, then `<pad>`, then the distinct words of the other captions of the image. It is
// for models that label a caption with the concepts of its image.

/// Appends to each caption the words of the other captions with its key. `keys` has the image of each caption.
pub fn with_image_words<K: Eq + std::hash::Hash>(captions: &mut [Vec<i32>], keys: &[K]) {
    let mut image_words: HashMap<&K, BTreeSet<i32>> = HashMap::new();
    for (key, caption) in keys.iter().zip(&*captions) {
        image_words.entry(key).or_default().extend(caption);
    }
    for (key, caption) in keys.iter().zip(captions) {
        let own: BTreeSet<i32> = caption.iter().copied().collect();
        caption.push(PAD_ID);
        caption.extend(image_words[key].difference(&own));
    }
}

/// Token ids of the caption itself.
#[must_use]
pub fn own_words(caption: &[i32]) -> &[i32] {
    caption.split(|&word| word == PAD_ID).next().unwrap_or(caption)
}

#[cfg(test)]
mod tests {
    use tch::Device;

    use super::*;
    use pairloom_spec::precision::MatmulPrecision;

    /// 100 captions have `dog`, 50 of them `grass` and 10 `red`; 200 have `grass` and 20 `red`.
    fn concepts() -> Vec<Concept> {
        let concept = |lemma: &str, words: &[&str], n_captions, co_occurrences: [f32; 3]| Concept {
            lemma: lemma.to_owned(),
            words: words.iter().map(|word| (*word).to_owned()).collect(),
            n_captions,
            co_occurrences: co_occurrences.to_vec(),
        };
        vec![
            concept("dog", &["dog", "dogs"], 100, [100.0, 50.0, 10.0]),
            concept("grass", &["grass"], 200, [50.0, 200.0, 0.0]),
            concept("red", &["red"], 20, [10.0, 0.0, 20.0]),
        ]
    }

    /// 5^0.48 − 5^−0.02 = 1.197 and 5^0.23 − 5^−0.02 = 0.480 are edges; 5^0.08 − 5^−0.02 = 0.169 is none. So `dog` is
    /// pointed to by `grass` and `red`, and `grass` by `dog`.
    #[test]
    fn concepts_that_are_often_together_are_neighbours() {
        let found = adjacency(&concepts());
        let (half, whole) = (0.25 / 2.000_001, 0.25 / 1.000_001);
        let expected = [1.0, whole, 0.0, half, 1.0, 0.0, half, 0.0, 1.0];
        assert!(found.iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-15), "{found:?}");
    }

    #[test]
    fn words_label_co_occurrences_their_concepts() {
        let data = InputSpec { concepts: Some(3), ..InputSpec::for_regions(1, 1, 6) };
        let specs = concept_specs(&data, 2).expect("widths");
        let parameters = Parameters::random(specs.into(), &data, 1, Device::Cpu).expect("parameters");
        let vocabulary = ["<pad>", "a", "dogs", "red", "dog", "cat"].map(str::to_owned);
        set_concepts(&parameters, &concepts(), &vocabulary).expect("concepts");
        let graph = Graph::without_gradient(&parameters, MatmulPrecision::default());
        let labels = concept_labels(&graph, &[&[1, 2, 4, 5], &[5, 0], &[3, 0, 4]]).expect("labels");
        let found = Vec::<f32>::try_from(labels.contiguous().view(-1)).expect("labels");
        assert_eq!(found, [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 1.0]);
        assert!(set_concepts(&parameters, &concepts()[..2], &vocabulary).is_err());
    }

    #[test]
    fn words_of_the_image_follow_the_padding() {
        let mut captions = vec![vec![1, 7, 8, 2], vec![1, 5, 2], vec![1, 9, 7, 2], vec![1, 5, 2]];
        with_image_words(&mut captions, &[10, 11, 10, 12]);
        let expected: [&[i32]; 4] = [&[1, 7, 8, 2, 0, 9], &[1, 5, 2, 0], &[1, 9, 7, 2, 0, 8], &[1, 5, 2, 0]];
        assert_eq!(captions, expected);
        assert_eq!(own_words(&captions[0]), [1, 7, 8, 2]);
        assert_eq!(own_words(&[1, 2]), [1, 2]);
    }
}
