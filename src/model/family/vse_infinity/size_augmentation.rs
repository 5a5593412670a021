//! Size augmentation: random omission of regions, and random masking, replacement and omission of words, in training.

use crate::family::encoded_items::EncodedItems;
use crate::family::model::LocalBatch;
use pairloom_kernels::text::vocabulary::UNKNOWN_ID;

/// Random stream of dropped regions.
const REGIONS: u64 = 0x7265_6769_6f6e;

/// Random stream of changed words.
const WORDS: u64 = 0x776f_7264_7331;

/// Drops each region of a batch with `probability`. An image whose regions would all be dropped keeps them.
pub fn drop_regions(regions: &EncodedItems, batch: &LocalBatch<'_>, probability: f64) -> EncodedItems {
    let (mut rows, mut lengths, mut start) = (Vec::new(), Vec::new(), 0);
    for (image, count) in regions.counts().into_iter().enumerate() {
        let mut rng = batch.rng(image, REGIONS);
        let mut kept: Vec<i64> = (start..start + count).filter(|_| rng.uniform() >= probability).collect();
        if kept.is_empty() {
            kept = (start..start + count).collect();
        }
        lengths.push(i64::try_from(kept.len()).unwrap_or(count));
        rows.extend(kept);
        start += count;
    }
    let rows = tch::Tensor::from_slice(&rows).to_device(regions.vectors.device());
    EncodedItems { vectors: regions.vectors.index_select(0, &rows), lengths: Some(lengths) }
}

/// Changes each word of a batch with `probability`: half of the changed words become `<unk>`, which stands for the mask
/// token of the published code; a tenth becomes a random one of `words` words; the rest is dropped. `<start>` and
/// `<end>` are words. A caption whose words would all be dropped stays as it is.
pub fn change_words(captions: &[&[i32]], batch: &LocalBatch<'_>, words: usize, probability: f64) -> Vec<Vec<i32>> {
    let change = |(number, caption): (usize, &&[i32])| {
        let mut rng = batch.rng(number, WORDS);
        let mut changed = Vec::with_capacity(caption.len());
        for &word in *caption {
            let draw = rng.uniform() / probability;
            if draw >= 1.0 {
                changed.push(word);
            } else if draw < 0.5 {
                changed.push(UNKNOWN_ID);
            } else if draw < 0.6 {
                changed.push(i32::try_from(rng.uniform_below(words)).unwrap_or(UNKNOWN_ID));
            }
        }
        if changed.is_empty() { caption.to_vec() } else { changed }
    };
    captions.iter().enumerate().map(change).collect()
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::*;
    use crate::family::image_rows::ImageRows;

    fn batch(like: &Tensor, pairs: std::ops::Range<usize>) -> LocalBatch<'static> {
        let images = ImageRows::new(&[], 1, like).expect("no images");
        LocalBatch { images, captions: &[], pairs, global_size: 100, seed_and_step: [3, 5] }
    }

    #[test]
    fn a_fifth_of_the_regions_is_dropped() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let vectors = Tensor::arange(3600, (Kind::Float, Device::Cpu)).view([3600, 1]);
        let regions = EncodedItems { vectors, lengths: Some(vec![36; 100]) };
        let kept = drop_regions(&regions, &batch(&like, 0..100), 0.2);
        // 2,880 with a standard deviation of 24.
        assert!((2780..2980).contains(&kept.vectors.size()[0]), "{:?}", kept.vectors.size());
        let counts = kept.counts();
        let first = Vec::<f32>::try_from(kept.slice(0..1).vectors.view(-1)).expect("f32");
        assert!(first.iter().all(|&row| row < 36.0) && counts.iter().all(|&count| count <= 36));
        // Image 70 alone is as in the batch.
        let alone = drop_regions(&regions.slice(70..71), &batch(&like, 70..71), 0.2);
        assert_eq!(alone.vectors, kept.slice(70..71).vectors);
        let one =
            EncodedItems { vectors: Tensor::ones([50, 1], (Kind::Float, Device::Cpu)), lengths: Some(vec![1; 50]) };
        assert_eq!(drop_regions(&one, &batch(&like, 0..50), 0.9).lengths, Some(vec![1; 50]));
    }

    #[test]
    fn words_are_masked_replaced_and_dropped() {
        let like = Tensor::zeros([1], (Kind::Float, Device::Cpu));
        let caption: Vec<i32> = (100..200).collect();
        let captions: Vec<&[i32]> = vec![&caption; 100];
        let changed = change_words(&captions, &batch(&like, 0..100), 50, 0.2);
        let count = |is: fn(i32) -> bool| changed.iter().flatten().filter(|&&word| is(word)).count();
        let (masked, random) = (count(|word| word == UNKNOWN_ID), count(|word| word < 50 && word != UNKNOWN_ID));
        let dropped = 10_000 - changed.iter().map(Vec::len).sum::<usize>();
        // Of 10,000 words 1,000 masked, 200 replaced and 800 dropped; the standard deviation is at most 30.
        assert!((900..1100).contains(&masked) && (140..260).contains(&random), "{masked} {random}");
        assert!((700..900).contains(&dropped), "{dropped}");
        assert_ne!(changed[0], changed[1]);
        assert_eq!(change_words(&[&[7]], &batch(&like, 0..1), 50, 1e-12), [[7]]);
    }
}
