//! Tests of the data order: its invariants, and small epochs calculated by hand.

use std::collections::HashMap;

use super::*;

fn data_order(shards: &[usize], shuffle: Shuffle, batch_size: usize) -> DataOrder {
    DataOrder::new(&[DataSet { shards: shards.to_vec(), weight: 1.0 }], shuffle, 7, batch_size).unwrap()
}

fn indices(data_order: &DataOrder, epoch: u64) -> Vec<usize> {
    data_order.epoch(epoch).samples(0..data_order.position_count()).map(|sample| sample.index).collect()
}

#[test]
fn permutations_of_every_size_are_bijective() {
    for n in (1..300).chain([511, 512, 513, 4096, 10_007]) {
        let permutation = Permutation::new(n, 3, &[n as u64]);
        let mut values: Vec<usize> = (0..n).map(|place| permutation.at(place)).collect();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..n), "{n}");
    }
}

/// Over many seeds, each value is equally frequent at each place, and each pair of values at the first and last place.
/// The bound on χ² is far above its 0.999 quantile, and far below the value of a shuffle with a bias of some percent.
#[test]
fn small_permutations_are_close_to_uniform() {
    for n in [2, 3, 4, 5, 6, 7, 9, 12] {
        let seeds = 10_000;
        let mut single = vec![0_f64; n * n];
        let mut pairs = vec![0_f64; n * n];
        for seed in 0..seeds {
            let permutation = Permutation::new(n, seed, &[1]);
            for place in 0..n {
                single[place * n + permutation.at(place)] += 1.0;
            }
            pairs[permutation.at(0) * n + permutation.at(n - 1)] += 1.0;
        }
        #[expect(clippy::cast_precision_loss, reason = "small numbers")]
        let (n_f, seeds) = (n as f64, seeds as f64);
        let chi = |counts: &[f64], expected: f64| counts.iter().map(|c| (c - expected).powi(2) / expected).sum::<f64>();
        let singles = chi(&single, seeds / n_f);
        assert!(singles < 2.0 * n_f * n_f + 30.0, "{n}: {singles}");
        pairs.retain(|&count| count > 0.0);
        assert_eq!(pairs.len(), n * (n - 1));
        let pairs = chi(&pairs, seeds / (n_f * (n_f - 1.0)));
        assert!(pairs < 2.0 * n_f * n_f + 30.0, "{n}: {pairs}");
    }
}

#[test]
fn an_epoch_has_every_sample_once_and_depends_on_seed_and_epoch() {
    for shuffle in [Shuffle::Global, Shuffle::Windows(1), Shuffle::Windows(3), Shuffle::Windows(100)] {
        let data_order = data_order(&[40, 0, 13, 200, 1, 77, 40], shuffle, 16);
        let first = indices(&data_order, 0);
        assert_eq!(first, indices(&data_order, 0));
        assert_ne!(first, indices(&data_order, 1));
        let other = DataOrder::new(&[DataSet { shards: vec![371], weight: 1.0 }], shuffle, 8, 16).unwrap();
        assert_ne!(first, indices(&other, 0));
        for (position, &index) in first.iter().enumerate() {
            assert_eq!(data_order.sample_at(0, position), Some(Sample { data_set: 0, index }));
        }
        assert_eq!(data_order.sample_at(0, first.len()), None);
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..371), "{shuffle:?}");
    }
}

/// Other shards of the same data set do not change the order of a global shuffle.
#[test]
fn a_global_shuffle_does_not_depend_on_shards() {
    assert_eq!(
        indices(&data_order(&[100, 28], Shuffle::Global, 8), 5),
        indices(&data_order(&[64, 64], Shuffle::Global, 8), 5)
    );
}

/// In a global shuffle, the middle third of an epoch has samples of all shards, and neighbouring positions have distant
/// samples.
#[test]
fn a_global_shuffle_mixes_all_shards() {
    let data_order = data_order(&[1000; 30], Shuffle::Global, 100);
    let order = indices(&data_order, 2);
    let mut shards: HashMap<usize, usize> = HashMap::new();
    for &index in &order[10_000..20_000] {
        *shards.entry(index / 1000).or_default() += 1;
    }
    assert!(shards.len() == 30 && shards.values().all(|&count| (240..430).contains(&count)), "{shards:?}");
    let close = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 300).count();
    // The expected number is 2 · 300 / 30000 of 29999 pairs: 600.
    assert!((480..720).contains(&close), "{close}");
}

#[test]
fn a_window_reads_samples_of_its_shards_only() {
    let shards = [10, 20, 0, 30, 5, 5, 40, 10];
    let data_order = data_order(&shards, Shuffle::Windows(3), 7);
    let epoch = data_order.epoch(4);
    let windows = epoch.shard_windows();
    assert_eq!(windows.len(), 3);
    assert_eq!((windows[0].positions.start, windows[2].positions.end), (0, 120));
    let mut all: Vec<usize> = windows.iter().flat_map(|window| window.shards.clone()).collect();
    for window in &windows {
        for sample in epoch.samples(window.positions.clone()) {
            assert!(window.shards.contains(&data_order.shard(sample)));
        }
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..8));
    assert_ne!(windows[0].shards, data_order.epoch(5).shard_windows()[0].shards);
}

#[test]
fn shares_partition_the_batch_for_any_number_of_ranks() {
    for samples in [0, 1, 5, 128, 131] {
        for ranks in 1..=9 {
            let mut next = 0;
            for rank in 0..ranks {
                let share = rank_share(samples, rank, ranks);
                assert_eq!(share.start, next);
                assert!(share.len() == samples / ranks || share.len() == samples.div_ceil(ranks));
                next = share.end;
            }
            assert_eq!(next, samples);
        }
    }
}

#[test]
fn batches_partition_the_epoch() {
    let data_order = data_order(&[50, 51], Shuffle::Global, 20);
    let batches: Vec<_> = (0..data_order.batch_count()).map(|b| data_order.batch_positions(b)).collect();
    assert_eq!(batches, [0..20, 20..40, 40..60, 60..80, 80..100, 100..101]);
    assert_eq!(data_order.batch_positions(6), 101..101);
}

/// Three data sets, calculated by hand: 8 samples with weights 1 : 2 : 1 are 2, 4 and 2 draws.
#[test]
fn data_sets_mix_by_weight_and_continue_their_pass_in_the_next_epoch() {
    let set = |samples: usize, weight: f64| DataSet { shards: vec![samples], weight };
    let data_order = DataOrder::new(&[set(2, 1.0), set(3, 2.0), set(3, 1.0)], Shuffle::Global, 1, 4).unwrap();
    let epochs: Vec<Vec<Sample>> = (0..3).map(|epoch| data_order.epoch(epoch).samples(0..8).collect()).collect();
    for samples in &epochs {
        // Draws are at ⅛ ⅜ ⅝ ⅞ (second data set) and ¼ ¾ (first and third).
        let sets: Vec<usize> = samples.iter().map(|sample| sample.data_set).collect();
        assert_eq!(sets, [1, 0, 2, 1, 1, 0, 2, 1]);
    }
    for (set, samples) in [(0, 2), (1, 3), (2, 3)] {
        let drawn: Vec<usize> = epochs.iter().flatten().filter(|s| s.data_set == set).map(|s| s.index).collect();
        for pass in drawn.chunks_exact(samples) {
            let mut pass = pass.to_vec();
            pass.sort_unstable();
            assert!(pass.into_iter().eq(0..samples), "set {set}");
        }
    }
}

/// Also checks that the windows of shards contain the samples of their positions.
#[test]
fn samples_of_a_mixture_do_not_depend_on_the_first_position() {
    let sets = [
        DataSet { shards: vec![300, 20, 100, 50], weight: 0.3 },
        DataSet { shards: vec![7, 8], weight: 2.5 },
        DataSet { shards: vec![1000; 3], weight: 1.1 },
    ];
    for shuffle in [Shuffle::Global, Shuffle::Windows(2)] {
        let data_order = DataOrder::new(&sets, shuffle, 5, 64).unwrap();
        let epoch = data_order.epoch(3);
        let all: Vec<Sample> = epoch.samples(0..data_order.position_count()).collect();
        assert_eq!(all.len(), 3485);
        for (start, sample) in all.iter().enumerate() {
            assert_eq!(epoch.samples(start..start + 1).next(), Some(*sample));
        }
        let windows = epoch.shard_windows();
        for (position, sample) in all.iter().enumerate() {
            let needed = windows.iter().any(|window| {
                window.data_set == sample.data_set
                    && window.positions.contains(&position)
                    && window.shards.contains(&data_order.shard(*sample))
            });
            assert!(needed, "{shuffle:?}, position {position}: {sample:?}");
        }
    }
}

#[test]
fn invalid_data_sets_and_batch_sizes_are_refused() {
    let set = |shards: &[usize], weight| DataSet { shards: shards.to_vec(), weight };
    let refused = |sets: &[DataSet], batch| DataOrder::new(sets, Shuffle::Global, 0, batch).unwrap_err();
    assert_eq!(refused(&[], 1), "no data set");
    assert_eq!(refused(&[set(&[3], 1.0), set(&[0, 0], 1.0)], 1), "data set 1 has no sample");
    assert_eq!(refused(&[set(&[3], f64::NAN)], 1), "data set 0 has weight NaN, expected a number above 0");
    assert_eq!(refused(&[set(&[3], 1.0)], 0), "a batch of 0 samples, expected at least 1");
}
