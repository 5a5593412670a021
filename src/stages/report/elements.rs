//! Elements of a page: rows of results, steps and epochs of a training, examples, and how numbers are written.

use crate::kernels::measure::chance::chance;
use crate::kernels::measure::recall::{Retrieval, rsum};

/// A row of the table of results.
#[derive(Debug, Clone)]
pub(super) struct ResultRow {
    pub(super) protocol: String,
    pub(super) method: String,
    pub(super) transductive: bool,
    pub(super) n_images: usize,
    pub(super) n_captions: usize,
    /// Image to text, text to image.
    pub(super) directions: [Retrieval; 2],
    pub(super) rsum: f64,
    pub(super) hs_sum: f64,
    /// 95 % intervals of the recalls of each direction, where they are known.
    pub(super) intervals: [Vec<Option<(f64, f64)>>; 2],
}

impl ResultRow {
    /// What a random order would give in the same pool; captions spread evenly over images.
    pub(super) fn chance(&self, cutoffs: &[usize]) -> Option<([Retrieval; 2], f64)> {
        if self.n_images == 0 {
            return None;
        }
        let captions_each = (self.n_captions + self.n_images / 2) / self.n_images;
        let directions = [chance(self.n_captions, captions_each, cutoffs)?, chance(self.n_images, 1, cutoffs)?];
        let rsum = rsum(&directions[0], &directions[1]);
        Some((directions, rsum))
    }

    /// Whether some recall has an interval.
    pub(super) fn has_intervals(&self) -> bool {
        self.intervals.iter().flatten().any(Option::is_some)
    }
}

/// An optimiser step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) number: f64,
    pub(super) loss: f64,
    pub(super) gradient_norm: f64,
    pub(super) learning_rate: f64,
    /// The loss if all scores were equal, where it is known.
    pub(super) collapsed_loss: Option<f64>,
}

/// Validation after one epoch.
#[derive(Debug, Clone)]
pub(super) struct Epoch {
    pub(super) number: i64,
    pub(super) loss: f64,
    pub(super) rsum: f64,
    /// Recalls at 1, 5, 10: image to text, text to image.
    pub(super) recalls: [[f64; 3]; 2],
    pub(super) best: bool,
}

/// A query and what it found.
#[derive(Debug, Clone)]
pub(super) struct Example {
    /// Place of the best match, from 0.
    pub(super) rank: i64,
    /// The query: a caption's text, or the name of an image.
    pub(super) text: String,
    /// The query's picture, when it is an image.
    pub(super) picture: Option<Picture>,
    pub(super) found: Vec<Hit>,
    /// What would have been right, when none of `found` is: captions, or the image.
    pub(super) missed: Vec<Hit>,
}

/// An item that a query found.
#[derive(Debug, Clone)]
pub(super) struct Hit {
    pub(super) score: Option<f32>,
    pub(super) right: bool,
    pub(super) text: String,
    pub(super) picture: Option<Picture>,
}

/// A small JPEG.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Picture(pub(super) Vec<u8>);

/// Titles of the two directions.
pub(super) const DIRECTIONS: [&str; 2] = ["image → text", "text → image"];

/// Recalls and ranks as the papers print them; a dash for what is no number.
pub(super) fn tenth(value: f64) -> String {
    if value.is_nan() { "–".to_owned() } else { format!("{value:.1}") }
}

/// A name for a place that counts from 0: `1st`, `22nd`.
pub(super) fn place(rank: i64) -> String {
    let number = rank.saturating_add(1);
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_named_as_people_do() {
        let names: Vec<String> = [0, 1, 2, 3, 9, 10, 11, 12, 20, 21, 110, 111].map(place).into();
        assert_eq!(
            names,
            ["1st", "2nd", "3rd", "4th", "10th", "11th", "12th", "13th", "21st", "22nd", "111th", "112th"]
        );
    }
}
