//! Captions as sparse tf-idf vectors in compressed sparse rows, the content of the table `caption_ngrams`: from the
//! counts and ids of n-grams, and their inverse document frequencies.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use az::SaturatingAs;

/// Upper bound of n-gram ids. All captions of COCO have about a hundredth of this many n-grams.
const MAX_NGRAM_IDS: i64 = 1 << 30;

/// Tf-idf vectors of many captions.
#[derive(Debug, Clone)]
pub struct CaptionVectors {
    images: Vec<usize>,
    word_count: Vec<u32>,
    offsets: Vec<usize>,
    ngrams: Vec<u32>,
    orders: Vec<i8>,
    counts: Vec<i32>,
    weights: Vec<f64>,
}

/// Vector of one caption of [`CaptionVectors`]. All slices have the same length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CaptionVector<'a> {
    /// Index of the image.
    pub image: usize,
    /// Number of words of the caption.
    pub words: u32,
    /// Ids of the distinct n-grams, ascending.
    pub ngrams: &'a [u32],
    /// n of each n-gram, 1 to 4.
    pub orders: &'a [i8],
    /// Occurrences of each n-gram in the caption.
    pub counts: &'a [i32],
    /// count · idf of each n-gram, at least 0.
    pub weights: &'a [f64],
}

impl Default for CaptionVectors {
    fn default() -> Self {
        Self {
            images: Vec::new(),
            word_count: Vec::new(),
            offsets: vec![0],
            ngrams: Vec::new(),
            orders: Vec::new(),
            counts: Vec::new(),
            weights: Vec::new(),
        }
    }
}

impl CaptionVectors {
    /// Adds a caption of the image with index `image`.
    pub fn push(&mut self, image: usize, words: usize, ngrams: &[Ngram], idf: &Idf) {
        for ngram in ngrams {
            self.ngrams.push(ngram.id);
            self.orders.push(ngram.order);
            self.counts.push(ngram.count);
            self.weights.push(f64::from(ngram.count) * idf.weight(ngram.id));
        }
        self.finish_caption(image, words.saturating_as::<u32>());
    }

    /// Adds a caption of the image with index `image`, from a row of the table `caption_ngrams`.
    ///
    /// # Errors
    /// The lists have different lengths, the ids are not ascending, an n is not 1 to 4, a count is below 1, or a weight
    /// is negative, NaN or too large. The caption is not added in this case.
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
            return Err(format!("{words} words, expected 0 to {}", u32::MAX));
        };
        let lengths = [ngrams.len(), orders.len(), counts.len(), weights.len()];
        if lengths.iter().any(|&length| length != ngrams.len()) {
            return Err(format!("{lengths:?} n-grams, orders, counts, weights, expected equally many of each"));
        }
        if let Some([a, b]) = ngrams.array_windows().find(|[a, b]| a >= b) {
            return Err(format!("n-gram {a} before {b}, expected ascending ids"));
        }
        if let Some(id) = ngrams.iter().find(|id| !(0..MAX_NGRAM_IDS).contains(*id)) {
            return Err(format!("n-gram {id}, expected 0 to {}", MAX_NGRAM_IDS - 1));
        }
        if let Some(order) = orders.iter().find(|&&order| !(1..=ORDERS).any(|n| usize::try_from(order) == Ok(n))) {
            return Err(format!("an n-gram of {order} words, expected 1 to {ORDERS}"));
        }
        if let Some(count) = counts.iter().find(|&&count| count < 1) {
            return Err(format!("an n-gram counted {count} times, expected at least 1"));
        }
        // No weight reaches 1e12: 2^31 occurrences of an n-gram with df = 1 in 2^32 images weigh 4.8e10.
        if let Some(weight) = weights.iter().find(|&&weight| !(0.0..1e12).contains(&weight)) {
            return Err(format!("an n-gram of weight {weight}, expected at least 0 and less than 1e12"));
        }
        self.ngrams.extend(ngrams.iter().filter_map(|&id| u32::try_from(id).ok()));
        self.orders.extend(orders);
        self.counts.extend(counts);
        self.weights.extend(weights);
        self.finish_caption(image, words);
        Ok(())
    }

    /// The caption `index`, counted in the order in which captions were added.
    #[must_use]
    pub fn caption(&self, index: usize) -> CaptionVector<'_> {
        let range = self.offsets[index]..self.offsets[index + 1];
        CaptionVector {
            image: self.images[index],
            words: self.word_count[index],
            ngrams: &self.ngrams[range.clone()],
            orders: &self.orders[range.clone()],
            counts: &self.counts[range.clone()],
            weights: &self.weights[range],
        }
    }

    /// Number of captions.
    #[must_use]
    pub fn len(&self) -> usize {
        self.images.len()
    }

    /// True if there is no caption.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.images.is_empty()
    }

    fn finish_caption(&mut self, image: usize, words: u32) {
        self.images.push(image);
        self.word_count.push(words);
        self.offsets.push(self.ngrams.len());
    }
}

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
                "a corpus of {n} images, expected at least {}, the largest document frequency",
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

/// Maximum number of words of an n-gram.
pub const ORDERS: usize = 4;

/// An n-gram of a caption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ngram {
    /// Id of the n-gram.
    pub id: u32,
    /// Number of words, 1 to 4.
    pub order: i8,
    /// Occurrences in the caption.
    pub count: i32,
}

/// Vocabulary of n-grams, with ids in order of first occurrence.
#[derive(Debug, Default)]
pub struct NgramVocabulary {
    words: HashMap<String, u32>,
    /// Ids of n-grams. The key is the id of the n-gram without its last word, and the last word.
    ids: HashMap<(Option<u32>, u32), u32>,
}

impl NgramVocabulary {
    /// Counts the n-grams of a caption for n = 1 to 4, by ascending id. New n-grams get the next id.
    ///
    /// # Cost
    /// `O(4 w log w)` for w words.
    pub fn count_ngrams(&mut self, words: &[String]) -> Vec<Ngram> {
        let words: Vec<u32> = words.iter().map(|word| self.word_id(word)).collect();
        let mut found = Vec::with_capacity(ORDERS * words.len());
        for start in 0..words.len() {
            let mut before = None;
            for (order, &word) in (1..).zip(words[start..].iter().take(ORDERS)) {
                let next_id = to_id(self.ids.len());
                let id = *self.ids.entry((before, word)).or_insert(next_id);
                found.push(Ngram { id, order, count: 1 });
                before = Some(id);
            }
        }
        found.sort_unstable_by_key(|ngram| ngram.id);
        found.dedup_by(|next, kept| {
            let same = next.id == kept.id;
            kept.count += i32::from(same);
            same
        });
        found
    }

    /// Number of distinct n-grams. Every id is less.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// True if there is no n-gram.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    fn word_id(&mut self, word: &str) -> u32 {
        // Most words are known; only a new one allocates a string.
        if let Some(&known) = self.words.get(word) {
            return known;
        }
        let next_id = to_id(self.words.len());
        match self.words.entry(word.to_owned()) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => *new.insert(next_id),
        }
    }
}

fn to_id(length: usize) -> u32 {
    u32::try_from(length).expect("2^32 n-grams do not fit into memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_of_the_table_gives_the_same_caption() {
        let mut ngrams = NgramVocabulary::default();
        let words: Vec<String> = "a dog and a cat".split(' ').map(str::to_owned).collect();
        let mut vectors = CaptionVectors::default();
        vectors.push(3, words.len(), &ngrams.count_ngrams(&words), &Idf::uniform());
        vectors.push(3, 0, &[], &Idf::uniform());
        let caption = vectors.caption(0);
        let ids: Vec<i64> = caption.ngrams.iter().map(|&id| id.into()).collect();
        let mut read = CaptionVectors::default();
        read.push_row(3, 5, &ids, caption.orders, caption.counts, caption.weights).expect("a caption");
        read.push_row(3, 0, &[], &[], &[], &[]).expect("a caption without words");
        assert_eq!((read.caption(0), read.caption(1)), (caption, vectors.caption(1)));
        assert_eq!((read.len(), caption.ngrams.len()), (2, 4 + 4 + 3 + 2));
    }

    #[test]
    fn invalid_rows_are_refused() {
        let mut vectors = CaptionVectors::default();
        let mut refused = |words, ngrams: &[i64], order, count, weight, expected: &str| {
            let n = ngrams.len();
            let result = vectors.push_row(0, words, ngrams, &vec![order; n], &vec![count; n], &vec![weight; n]);
            assert!(result.as_ref().is_err_and(|error| error.contains(expected)), "{result:?}");
        };
        refused(-1, &[1], 1, 1, 1.0, "-1 words");
        refused(1, &[2, 2], 1, 1, 1.0, "2 before 2");
        refused(1, &[-2], 1, 1, 1.0, "n-gram -2");
        refused(1, &[i64::MAX], 1, 1, 1.0, "n-gram 9223");
        refused(1, &[1], 0, 1, 1.0, "0 words, expected 1 to 4");
        refused(1, &[1], 5, 1, 1.0, "5 words");
        refused(1, &[1], 1, 0, 1.0, "0 times");
        refused(1, &[1], 1, 1, -1.0, "weight -1");
        refused(1, &[1], 1, 1, f64::NAN, "weight NaN");
        assert!(vectors.push_row(0, 1, &[1], &[1, 1], &[1], &[1.0]).is_err());
        assert!(vectors.is_empty() && vectors.offsets == [0]);
    }

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

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn counts_every_window_of_one_to_four_words() {
        let mut ngrams = NgramVocabulary::default();
        let found = ngrams.count_ngrams(&words("a dog a dog a"));
        // a 3, dog 2; "a dog" 2, "dog a" 2; "a dog a" 2, "dog a dog" 1; "a dog a dog" 1, "dog a dog a" 1.
        let mut counts: Vec<(i8, i32)> = found.iter().map(|ngram| (ngram.order, ngram.count)).collect();
        counts.sort_unstable();
        assert_eq!(counts, [(1, 2), (1, 3), (2, 2), (2, 2), (3, 1), (3, 2), (4, 1), (4, 1)]);
        assert!(found.is_sorted_by_key(|ngram| ngram.id));
        assert_eq!(ngrams.count_ngrams(&words("a dog a dog a")), found);
        assert_eq!(ngrams.len(), 8);
        assert_eq!(ngrams.count_ngrams(&words("dog")).len(), 1);
        assert!(ngrams.count_ngrams(&[]).is_empty());
        assert_eq!(ngrams.len(), 8);
    }

    #[test]
    fn ngrams_of_different_words_with_equal_text_differ() {
        let mut ngrams = NgramVocabulary::default();
        let one = ngrams.count_ngrams(&["a b".to_owned(), "c".to_owned()]);
        let other = ngrams.count_ngrams(&["a".to_owned(), "b c".to_owned()]);
        assert!(one.iter().all(|ngram| other.iter().all(|o| o.id != ngram.id)));
    }
}
