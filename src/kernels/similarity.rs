//! What every similarity of captions to images offers, whatever it compares.
//!
//! φ(i, c) says how much caption c says what the captions of image i say. Images and captions are numbered from 0 in the
//! order in which the similarity was built.

/// φ of any image with any caption.
pub trait Similarity: Sync {
    /// What a thread keeps between rows, so that nothing is allocated for each.
    type Scratch: Default + Send;

    /// Images.
    fn images(&self) -> usize;

    /// Captions.
    fn captions(&self) -> usize;

    /// φ of `image` and `caption`, all of it in f64: the value that the other methods must agree with.
    fn pair(&self, image: usize, caption: usize) -> f64;

    /// φ of `image` with every caption, into `values`, one a caption; within 1e-6 of [`Similarity::pair`].
    fn row(&self, image: usize, scratch: &mut Self::Scratch, values: &mut [f32]);

    /// The `m` captions with the largest [`Similarity::pair`] with `image`, best first; of equal ones the lower index.
    fn top(&self, image: usize, m: usize, scratch: &mut Self::Scratch) -> Vec<(usize, f64)>;

    /// φ of every one of `images` with every one of `captions`, row-major: the block of a mini-batch.
    fn block(&self, images: &[usize], captions: &[usize]) -> Vec<f32>;
}

/// Leaves the `m` (caption, φ) with the largest φ, best first; of equal ones the lower index. Cost: linear, and a sort of `m`.
pub(crate) fn best_first(scored: &mut Vec<(usize, f64)>, m: usize) {
    let order = |a: &(usize, f64), b: &(usize, f64)| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0));
    if m < scored.len() {
        scored.select_nth_unstable_by(m, order);
        scored.truncate(m);
    }
    scored.sort_unstable_by(order);
}
