//! Captions as sparse vectors in one piece of memory (compressed sparse rows): what the table `caption_ngrams` holds.

use super::frequency::Idf;
use super::ngrams::{Ngram, ORDERS};
use az::SaturatingAs;

/// Numbers of n-grams are less. A billion n-grams are a hundred times those of all captions of COCO.
const NUMBERS: i64 = 1 << 30;

/// The weighted n-grams of many captions.
#[derive(Debug, Clone)]
pub struct Vectors {
    images: Vec<usize>,
    words: Vec<u32>,
    offsets: Vec<usize>,
    ngrams: Vec<u32>,
    orders: Vec<i8>,
    counts: Vec<i32>,
    weights: Vec<f64>,
}

/// One caption of [`Vectors`]; the slices are of one length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Caption<'a> {
    /// Index of its image.
    pub image: usize,
    /// Its words.
    pub words: u32,
    /// Numbers of its distinct n-grams, ascending.
    pub ngrams: &'a [u32],
    /// n of each of them, 1 to 4.
    pub orders: &'a [i8],
    /// How often the caption has each of them.
    pub counts: &'a [i32],
    /// count · idf of each of them, at least 0.
    pub weights: &'a [f64],
}

impl Default for Vectors {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            words: Vec::new(),
            offsets: vec![0],
            ngrams: Vec::new(),
            orders: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
        }
    }
}

impl Vectors {
    /// Adds a caption of `image`, images being numbered from 0.
    pub fn push(&mut self, image: usize, words: usize, ngrams: &[Ngram], idf: &Idf) {
        for ngram in ngrams {
            self.ngrams.push(ngram.number);
            self.orders.push(ngram.order);
            self.counts.push(ngram.count);
            self.weights.push(f64::from(ngram.count) * idf.of(ngram.number));
        }
        self.close(image, words.saturating_as::<u32>());
    }

    /// Adds a caption of `image` as a row of the table `caption_ngrams` gives it.
    ///
    /// # Errors
    /// What no caption has: lists of different lengths, n-grams that are not ascending, an n that is not 1 to 4, a count
    /// below 1, a weight that is negative or no number. The caption is not added then.
    pub fn push_row(
        &mut self,
        image: usize,
        words: i64,
        ngrams: &[i64],
        orders: &[i8],
        counts: &[i32],
        weights: &[f64],
    ) -> Result<(), String> {
        let Ok(words) = u32::try_from(words) else {
            return Err(format!("{words} words, wanted 0 to {}", u32::MAX));
        };
        let lengths = [ngrams.len(), orders.len(), counts.len(), weights.len()];
        if lengths.iter().any(|&length| length != ngrams.len()) {
            return Err(format!("{lengths:?} n-grams, orders, counts, weights, wanted as many of each"));
        }
        if let Some([a, b]) = ngrams.array_windows().find(|[a, b]| a >= b) {
            return Err(format!("n-gram {a} before {b}, wanted ascending numbers"));
        }
        if let Some(number) = ngrams.iter().find(|number| !(0..NUMBERS).contains(*number)) {
            return Err(format!("n-gram {number}, wanted 0 to {}", NUMBERS - 1));
        }
        if let Some(order) = orders.iter().find(|&&order| !(1..=ORDERS).any(|n| usize::try_from(order) == Ok(n))) {
            return Err(format!("an n-gram of {order} words, wanted 1 to {ORDERS}"));
        }
        if let Some(count) = counts.iter().find(|&&count| count < 1) {
            return Err(format!("an n-gram counted {count} times, wanted at least 1"));
        }
        // The largest weight there is: 2^31 occurrences of an n-gram of one image in 2^32.
        if let Some(weight) = weights.iter().find(|&&weight| !(0.0..1e12).contains(&weight)) {
            return Err(format!("an n-gram of weight {weight}, wanted at least 0 and less than 1e12"));
        }
        self.ngrams.extend(ngrams.iter().filter_map(|&number| u32::try_from(number).ok()));
        self.orders.extend(orders);
        self.counts.extend(counts);
        self.weights.extend(weights);
        self.close(image, words);
        Ok(())
    }

    /// The caption `index`, in the order in which they were added.
    #[must_use]
    pub fn caption(&self, index: usize) -> Caption<'_> {
        let range = self.offsets[index]..self.offsets[index + 1];
        Caption {
            image: self.images[index],
            words: self.words[index],
            ngrams: &self.ngrams[range.clone()],
            orders: &self.orders[range.clone()],
            counts: &self.counts[range.clone()],
            weights: &self.weights[range],
        }
    }

    /// Captions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// Whether there is no caption.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    fn close(&mut self, image: usize, words: u32) {
        self.images.push(image);
        self.words.push(words);
        self.offsets.push(self.ngrams.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::cider::Ngrams;

    #[test]
    fn a_row_of_the_table_gives_the_same_caption() {
        let mut ngrams = Ngrams::default();
        let words: Vec<String> = "a dog and a cat".split(' ').map(str::to_owned).collect();
        let mut vectors = Vectors::default();
        vectors.push(3, words.len(), &ngrams.count(&words), &Idf::uniform());
        vectors.push(3, 0, &[], &Idf::uniform());
        let caption = vectors.caption(0);
        let numbers: Vec<i64> = caption.ngrams.iter().map(|&number| number.into()).collect();
        let mut read = Vectors::default();
        read.push_row(3, 5, &numbers, caption.orders, caption.counts, caption.weights).expect("a caption");
        read.push_row(3, 0, &[], &[], &[], &[]).expect("a caption without words");
        assert_eq!((read.caption(0), read.caption(1)), (caption, vectors.caption(1)));
        assert_eq!((read.len(), caption.ngrams.len()), (2, 4 + 4 + 3 + 2));
    }

    #[test]
    fn refuses_what_no_caption_has() {
        let mut vectors = Vectors::default();
        let mut refused = |words, ngrams: &[i64], order, count, weight, wanted: &str| {
            let n = ngrams.len();
            let result = vectors.push_row(0, words, ngrams, &vec![order; n], &vec![count; n], &vec![weight; n]);
            assert!(result.as_ref().is_err_and(|error| error.contains(wanted)), "{result:?}");
        };
        refused(-1, &[1], 1, 1, 1.0, "-1 words");
        refused(1, &[2, 2], 1, 1, 1.0, "2 before 2");
        refused(1, &[-2], 1, 1, 1.0, "n-gram -2");
        refused(1, &[i64::MAX], 1, 1, 1.0, "n-gram 9223");
        refused(1, &[1], 0, 1, 1.0, "0 words, wanted 1 to 4");
        refused(1, &[1], 5, 1, 1.0, "5 words");
        refused(1, &[1], 1, 0, 1.0, "0 times");
        refused(1, &[1], 1, 1, -1.0, "weight -1");
        refused(1, &[1], 1, 1, f64::NAN, "weight NaN");
        assert!(vectors.push_row(0, 1, &[1], &[1, 1], &[1], &[1.0]).is_err());
        assert!(vectors.is_empty() && vectors.offsets == [0]);
    }
}
