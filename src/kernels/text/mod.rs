//! Text kernels: tokenisers, the vocabulary of token ids, and the caption similarities CIDEr and SPICE with their
//! interface, [`CaptionSimilarity`].

pub use tokenizer::Tokenizer;
pub use vocabulary::Vocabulary;

pub mod tokenizer;
pub mod treebank;
pub mod ptb;
pub mod vocabulary;
pub mod cider;
pub mod spice;

// φ(i, c) is the similarity of caption c to the captions of image i, its references. Images and captions are numbered
// from 0 in the order in which the similarity was built.

/// Caption similarity φ of every image with every caption.
pub trait CaptionSimilarity: Sync {
    /// Buffers that a thread reuses between rows.
    type Scratch: Default + Send;

    /// Number of images.
    fn image_count(&self) -> usize;

    /// Number of captions.
    fn caption_count(&self) -> usize;

    /// φ of `image` and `caption`, computed in f64: the definition that the other methods must agree with.
    fn pair(&self, image: usize, caption: usize) -> f64;

    /// Writes φ of `image` with every caption to `values`, within 1e-6 of [`CaptionSimilarity::pair`].
    ///
    /// # Shapes
    /// `values`: `n_captions`
    fn row(&self, image: usize, scratch: &mut Self::Scratch, values: &mut [f32]);

    /// The `m` captions with the largest [`CaptionSimilarity::pair`] with `image`, best first; ties by lower index.
    fn top_captions(&self, image: usize, m: usize, scratch: &mut Self::Scratch) -> Vec<(usize, f64)>;

    /// φ of all of `images` with all of `captions`, as for a mini-batch.
    ///
    /// # Shapes
    /// result: `[images.len(), captions.len()]`, row-major
    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32>;
}

/// Keeps the `m` (caption, φ) with the largest φ, sorted best first; ties by lower index. Cost: linear, and a sort of
/// `m`.
pub(crate) fn keep_top(scored: &mut Vec<(usize, f64)>, m: usize) {
    let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if m < scored.len() {
        scored.select_nth_unstable_by(m, order);
        scored.truncate(m);
    }
    scored.sort_unstable_by(order);
}
