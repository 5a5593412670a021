//! Document frequencies, and the weight of one occurrence of an n-gram.

use super::ngrams::Ngram;

/// How many images have an n-gram in one of their captions.
#[derive(Debug, Clone, Default)]
pub struct Frequency {
    images: u32,
    counts: Vec<u32>,
    /// The last image, counted from 1, that was seen with the n-gram.
    last: Vec<u32>,
}

impl Frequency {
    /// Counts one more image with the n-grams of all its captions.
    pub fn add<'a>(&mut self, captions: impl IntoIterator<Item = &'a [Ngram]>) {
        self.images += 1;
        for ngram in captions.into_iter().flatten() {
            let number = ngram.number as usize;
            if number >= self.counts.len() {
                self.counts.resize(number + 1, 0);
                self.last.resize(number + 1, 0);
            }
            if self.last[number] != self.images {
                self.last[number] = self.images;
                self.counts[number] += 1;
            }
        }
    }

    /// Images counted.
    #[must_use]
    pub fn images(&self) -> u32 {
        self.images
    }

    /// Images that have the n-gram `number`.
    #[must_use]
    pub fn of(&self, number: u32) -> u32 {
        self.counts.get(number as usize).copied().unwrap_or(0)
    }

    /// `ln N − ln max(1, df)` of every n-gram; N is the images counted, or another number, as the published training code
    /// sets it.
    ///
    /// # Errors
    /// N is 0, or less than the images of some n-gram, whose weight would be below 0.
    pub fn idf(&self, images: Option<u32>) -> Result<Idf, String> {
        let n = images.unwrap_or(self.images);
        let most = self.counts.iter().copied().max().unwrap_or(0);
        if n < most.max(1) {
            return Err(format!("a corpus of {n} images, wanted at least {}, which share an n-gram", most.max(1)));
        }
        let log = f64::from(n).ln();
        Ok(Idf { known: self.counts.iter().map(|&count| log - f64::from(count.max(1)).ln()).collect(), unseen: log })
    }
}

/// The weight of one occurrence of each n-gram.
#[derive(Debug, Clone)]
pub struct Idf {
    known: Vec<f64>,
    unseen: f64,
}

impl Idf {
    /// Every n-gram weighs 1.
    #[must_use]
    pub fn uniform() -> Self {
        Self { known: Vec::new(), unseen: 1.0 }
    }

    /// The weight of the n-gram `number`.
    #[must_use]
    pub fn of(&self, number: u32) -> f64 {
        self.known.get(number as usize).copied().unwrap_or(self.unseen)
    }

    /// Whether every n-gram that was counted weighs nothing, so that every φ of the counted captions is 0: a corpus of one
    /// image, or of images that all have the same n-grams.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        if self.known.is_empty() { self.unseen == 0.0 } else { self.known.iter().all(|&idf| idf == 0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::cider::Ngrams;

    #[test]
    fn counts_images_not_captions() {
        let mut ngrams = Ngrams::default();
        let mut count = |text: &str| ngrams.count(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (dog, dogs, cat) = (count("dog"), count("dog dog"), count("cat"));
        let mut frequency = Frequency::default();
        frequency.add([&dog[..], &dogs[..]]);
        frequency.add([&dog[..], &cat[..]]);
        frequency.add([]);
        assert_eq!((frequency.images(), frequency.of(dog[0].number), frequency.of(cat[0].number)), (3, 2, 1));
        assert_eq!(frequency.of(99), 0);
        let idf = frequency.idf(None).expect("three images");
        assert_eq!(idf.of(dog[0].number), 3f64.ln() - 2f64.ln());
        assert_eq!((idf.of(cat[0].number), idf.of(99)), (3f64.ln(), 3f64.ln()));
        assert_eq!(frequency.idf(Some(113_287)).expect("more").of(99), 113_287f64.ln());
        assert!(!idf.is_zero() && !Idf::uniform().is_zero());
        assert!(frequency.idf(Some(1)).is_err_and(|error| error.contains("at least 2")));
        assert!(Frequency::default().idf(None).is_err());
    }

    #[test]
    fn says_that_one_image_weighs_nothing() {
        let mut frequency = Frequency::default();
        frequency.add([&Ngrams::default().count(&["dog".to_owned()])[..]]);
        assert!(frequency.idf(None).is_ok_and(|idf| idf.is_zero() && idf.of(7) == 0.0));
    }
}
