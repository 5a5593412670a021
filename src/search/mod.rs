//! Exact search in scores of all rows with all columns, without ever holding them: the matrix of 5,000 images and 25,000
//! captions has 125 million scores, and what anybody wants of it are ten a row, a rank a column, or a number for each.
//!
//! Scores come a few rows and [`COLUMNS`](crate::kernels::product::COLUMNS) columns at a time out of a product, and while they
//! lie in the cache all is taken from them that was asked for, along both directions ([`Search::find`]).
//! They are approximate: f32, or bf16 where the processor multiplies that, or f32 of something else that computes them, a GPU
//! ([`Products`]). Every pair whose score is too close to call, by a
//! proven bound, is computed again by the exact score ([`Scoring`]), which is a function of the two vectors alone. So ranks and
//! lists are those of the definition, bit for bit: for any processor, GPU, number of threads and size of blocks.
//!
//! A long search can be ended and goes on: what it has found so far is kept by whoever watches it ([`Keeper`]).
//!
//! Sums over all scores ([`Statistic`](crate::kernels::hubness::statistic::Statistic) of a softmax, means) are of f32 products, in an order
//! that depends on the sizes alone: the same bits for any number of threads, and for every processor with the same vectors.
//! Products of something else are rounded in other places, and so are sums of them.
//!
//! # Example
//! ```
//! use pairloom::search::{Ask, Positives, Scoring, Search, Vectors};
//!
//! # fn main() -> Result<(), pairloom::error::Error> {
//! let (images, captions) = ([1.0, 0.0, 0.0, 1.0], [0.8, 0.6, 1.0, 0.0, 0.0, 1.0]);
//! let images = Vectors::new("images", &images, 2)?;
//! let captions = Vectors::new("captions", &captions, 2)?;
//! let matches = [0..2, 2..3];
//! let search = Search::new(&images, &captions, Scoring::Product, 2)?;
//! let (i2t, t2i) = (Ask { k: 2, positives: Positives::Ranges(&matches), ..Ask::default() }, Ask { k: 1, ..Ask::default() });
//! let [of_images, of_captions] = search.find(&i2t, &t2i, &mut |_, _| Ok(()))?;
//! assert_eq!(of_images.top[0].iter().map(|best| best.item).collect::<Vec<_>>(), [1, 0]);
//! assert_eq!(of_images.ranks[0].map(|rank| rank.rank), Some(0));
//! assert_eq!(of_captions.top[2][0].item, 1);
//! # Ok(())
//! # }
//! ```

mod vectors;
mod watch;
mod scoring;
mod ask;
mod exact;
mod twins;
mod packed;
mod products;
mod pass;
mod threads;
mod words;
mod section;
mod candidates;
mod nearest;
mod ranks;
mod in_order;
mod sums;
mod so_far;
mod find;
mod rows;
mod sinkhorn;
mod greedy;
pub mod assignment;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod resume_tests;

pub use ask::{Answer, Ask, Positives};
pub use find::Search;
pub use greedy::{Greedy, Matched};
pub use products::Products;
pub use scoring::{Scoring, Side};
pub use sinkhorn::Potentials;
pub use vectors::Vectors;
pub use watch::{Keeper, WORTH, Watch, Watcher};
