//! Captions with the words of the other captions of their image.
//!
//! Such a caption is its own token ids, then `<pad>`, then the distinct words of the other captions of the image. It is
//! for models that label a caption with the concepts of its image.

use std::collections::{BTreeSet, HashMap};

use pairloom_kernels::text::vocabulary::PAD_ID;

/// Appends to each caption the words of the other captions with its key. `keys` has the image of each caption.
pub fn with_image_words<K: Eq + std::hash::Hash>(captions: &mut [Vec<i32>], keys: &[K]) {
    let mut of_image: HashMap<&K, BTreeSet<i32>> = HashMap::new();
    for (key, caption) in keys.iter().zip(&*captions) {
        of_image.entry(key).or_default().extend(caption);
    }
    for (key, caption) in keys.iter().zip(captions) {
        let own: BTreeSet<i32> = caption.iter().copied().collect();
        caption.push(PAD_ID);
        caption.extend(of_image[key].difference(&own));
    }
}

/// Token ids of the caption itself.
#[must_use]
pub fn own_words(caption: &[i32]) -> &[i32] {
    caption.split(|&word| word == PAD_ID).next().unwrap_or(caption)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_the_image_follow_the_padding() {
        let mut captions = vec![vec![1, 7, 8, 2], vec![1, 5, 2], vec![1, 9, 7, 2], vec![1, 5, 2]];
        with_image_words(&mut captions, &[10, 11, 10, 12]);
        let wanted: [&[i32]; 4] = [&[1, 7, 8, 2, 0, 9], &[1, 5, 2, 0], &[1, 9, 7, 2, 0, 8], &[1, 5, 2, 0]];
        assert_eq!(captions, wanted);
        assert_eq!(own_words(&captions[0]), [1, 7, 8, 2]);
        assert_eq!(own_words(&[1, 2]), [1, 2]);
    }
}
