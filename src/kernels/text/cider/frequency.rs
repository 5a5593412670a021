//! Document frequencies of n-grams, and their inverse document frequencies (idf).

use super::ngrams::Ngram;

/// Document frequencies: for each n-gram, the number of images with a caption that contains it.
#[derive(Debug, Clone, Default)]
pub struct DocumentFrequency {
    images: u32,
    counts: Vec<u32>,
    /// The last image with the n-gram, counted from 1; 0 if none.
    last: Vec<u32>,
}

impl DocumentFrequency {
    /// Adds an image with the n-grams of all its captions.
    pub fn add_image<'a>(&mut self, captions: impl IntoIterator<Item = &'a [Ngram]>) {
        self.images += 1;
        for ngram in captions.into_iter().flatten() {
            let id = ngram.id as usize;
            if id >= self.counts.len() {
                self.counts.resize(id + 1, 0);
                self.last.resize(id + 1, 0);
            }
            if self.last[id] != self.images {
                self.last[id] = self.images;
                self.counts[id] += 1;
            }
        }
    }

    /// Number of images added.
    #[must_use]
    pub fn image_count(&self) -> u32 {
        self.images
    }

    /// Number of images that have the n-gram `id`.
    #[must_use]
    pub fn images_with(&self, id: u32) -> u32 {
        self.counts.get(id as usize).copied().unwrap_or(0)
    }

    /// The idf `ln N − ln max(1, df)` of every n-gram. N is the number of images added, or `images` if given: published
    /// training code sets a constant.
    ///
    /// # Errors
    /// N is 0, or less than a document frequency, whose idf would be negative.
    pub fn idf(&self, images: Option<u32>) -> Result<Idf, String> {
        let n = images.unwrap_or(self.images);
        let most = self.counts.iter().copied().max().unwrap_or(0);
        if n < most.max(1) {
            return Err(format!(
                "a corpus of {n} images, wanted at least {}, the largest document frequency",
                most.max(1)
            ));
        }
        let log = f64::from(n).ln();
        Ok(Idf { known: self.counts.iter().map(|&count| log - f64::from(count.max(1)).ln()).collect(), unseen: log })
    }
}

/// Inverse document frequencies: the weight of one occurrence of each n-gram.
#[derive(Debug, Clone)]
pub struct Idf {
    known: Vec<f64>,
    unseen: f64,
}

impl Idf {
    /// Weight 1 for every n-gram.
    #[must_use]
    pub fn uniform() -> Self {
        Self { known: Vec::new(), unseen: 1.0 }
    }

    /// The weight of the n-gram `id`.
    #[must_use]
    pub fn weight(&self, id: u32) -> f64 {
        self.known.get(id as usize).copied().unwrap_or(self.unseen)
    }

    /// True if every counted n-gram has weight 0, so that φ of all counted captions is 0: in a corpus of one image, or
    /// of images that all have the same n-grams.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        if self.known.is_empty() { self.unseen == 0.0 } else { self.known.iter().all(|&idf| idf == 0.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::cider::NgramVocabulary;

    #[test]
    fn counts_images_and_not_captions() {
        let mut ngrams = NgramVocabulary::default();
        let mut count = |text: &str| ngrams.count_ngrams(&text.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let (dog, dogs, cat) = (count("dog"), count("dog dog"), count("cat"));
        let mut frequency = DocumentFrequency::default();
        frequency.add_image([&dog[..], &dogs[..]]);
        frequency.add_image([&dog[..], &cat[..]]);
        frequency.add_image([]);
        assert_eq!(
            (frequency.image_count(), frequency.images_with(dog[0].id), frequency.images_with(cat[0].id)),
            (3, 2, 1)
        );
        assert_eq!(frequency.images_with(99), 0);
        let idf = frequency.idf(None).expect("three images");
        assert_eq!(idf.weight(dog[0].id), 3f64.ln() - 2f64.ln());
        assert_eq!((idf.weight(cat[0].id), idf.weight(99)), (3f64.ln(), 3f64.ln()));
        assert_eq!(frequency.idf(Some(113_287)).expect("more").weight(99), 113_287f64.ln());
        assert!(!idf.is_zero() && !Idf::uniform().is_zero());
        assert!(frequency.idf(Some(1)).is_err_and(|error| error.contains("at least 2")));
        assert!(DocumentFrequency::default().idf(None).is_err());
    }

    #[test]
    fn weights_of_one_image_are_zero() {
        let mut frequency = DocumentFrequency::default();
        frequency.add_image([&NgramVocabulary::default().count_ngrams(&["dog".to_owned()])[..]]);
        assert!(frequency.idf(None).is_ok_and(|idf| idf.is_zero() && idf.weight(7) == 0.0));
    }
}
