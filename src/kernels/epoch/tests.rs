//! What an epoch promises, and the order of small ones by hand.

use std::collections::HashMap;

use super::*;

fn plan(shards: &[usize], order: Order, batch: usize) -> Plan {
    Plan::new(&[DataSet { shards: shards.to_vec(), weight: 1.0 }], order, 7, batch).unwrap()
}

fn indices(plan: &Plan, epoch: u64) -> Vec<usize> {
    plan.epoch(epoch).samples(0..plan.positions()).map(|sample| sample.index).collect()
}

#[test]
fn every_size_is_permuted() {
    for n in (1..300).chain([511, 512, 513, 4096, 10_007]) {
        let permutation = Permutation::new(n, 3, &[n as u64]);
        let mut values: Vec<usize> = (0..n).map(|place| permutation.at(place)).collect();
        values.sort_unstable();
        assert!(values.into_iter().eq(0..n), "{n}");
    }
}

/// Over many seeds, each value stands at each place as often as any other, and so does each pair of values at a pair of
/// places: χ² with a bound far beyond its 0.999 quantile, yet far below that of a shuffle with a bias of some percent.
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
fn an_epoch_is_every_sample_once_and_a_function_of_seed_and_epoch() {
    for order in [Order::Global, Order::Windows(1), Order::Windows(3), Order::Windows(100)] {
        let plan = plan(&[40, 0, 13, 200, 1, 77, 40], order, 16);
        let first = indices(&plan, 0);
        assert_eq!(first, indices(&plan, 0));
        assert_ne!(first, indices(&plan, 1));
        let other = Plan::new(&[DataSet { shards: vec![371], weight: 1.0 }], order, 8, 16).unwrap();
        assert_ne!(first, indices(&other, 0));
        for (position, &index) in first.iter().enumerate() {
            assert_eq!(plan.sample_at(0, position), Some(Sample { set: 0, index }));
        }
        assert_eq!(plan.sample_at(0, first.len()), None);
        let mut sorted = first;
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..371), "{order:?}");
    }
}

/// Cutting a data set into other shards does not change a global order.
#[test]
fn a_global_order_does_not_depend_on_shards() {
    assert_eq!(indices(&plan(&[100, 28], Order::Global, 8), 5), indices(&plan(&[64, 64], Order::Global, 8), 5));
}

/// In the middle third of a global epoch stand samples of everywhere; neighbours are not neighbours.
#[test]
fn a_global_order_mixes() {
    let plan = plan(&[1000; 30], Order::Global, 100);
    let order = indices(&plan, 2);
    let mut shards: HashMap<usize, usize> = HashMap::new();
    for &index in &order[10_000..20_000] {
        *shards.entry(index / 1000).or_default() += 1;
    }
    assert!(shards.len() == 30 && shards.values().all(|&count| (240..430).contains(&count)), "{shards:?}");
    let close = order.windows(2).filter(|pair| pair[0].abs_diff(pair[1]) < 300).count();
    // 2 · 300 / 30000 of 29999 pairs: 600.
    assert!((480..720).contains(&close), "{close}");
}

#[test]
fn a_window_needs_its_shards_and_no_others() {
    let shards = [10, 20, 0, 30, 5, 5, 40, 10];
    let plan = plan(&shards, Order::Windows(3), 7);
    let epoch = plan.epoch(4);
    let stretches = epoch.stretches();
    assert_eq!(stretches.len(), 3);
    assert_eq!((stretches[0].positions.start, stretches[2].positions.end), (0, 120));
    let mut all: Vec<usize> = stretches.iter().flat_map(|stretch| stretch.shards.clone()).collect();
    for stretch in &stretches {
        for sample in epoch.samples(stretch.positions.clone()) {
            assert!(stretch.shards.contains(&plan.shard(sample)));
        }
    }
    all.sort_unstable();
    assert!(all.into_iter().eq(0..8));
    assert_ne!(stretches[0].shards, plan.epoch(5).stretches()[0].shards);
}

#[test]
fn shares_are_the_batch_for_any_number_of_ranks() {
    for samples in [0, 1, 5, 128, 131] {
        for ranks in 1..=9 {
            let mut next = 0;
            for rank in 0..ranks {
                let share = share(samples, rank, ranks);
                assert_eq!(share.start, next);
                assert!(share.len() == samples / ranks || share.len() == samples.div_ceil(ranks));
                next = share.end;
            }
            assert_eq!(next, samples);
        }
    }
}

#[test]
fn batches_cover_the_epoch_and_the_last_is_what_is_left() {
    let plan = plan(&[50, 51], Order::Global, 20);
    let batches: Vec<_> = (0..plan.batches()).map(|b| plan.batch(b)).collect();
    assert_eq!(batches, [0..20, 20..40, 40..60, 60..80, 80..100, 100..101]);
    assert_eq!(plan.batch(6), 101..101);
}

/// Two epochs of three data sets by hand: 8 samples with weights 1 : 2 : 1 are 2, 4 and 2 draws.
#[test]
fn data_sets_mix_by_weight_and_go_on_where_the_last_epoch_stopped() {
    let set = |samples: usize, weight: f64| DataSet { shards: vec![samples], weight };
    let plan = Plan::new(&[set(2, 1.0), set(3, 2.0), set(3, 1.0)], Order::Global, 1, 4).unwrap();
    let epochs: Vec<Vec<Sample>> = (0..3).map(|epoch| plan.epoch(epoch).samples(0..8).collect()).collect();
    for samples in &epochs {
        // Draws stand at ⅛ ⅜ ⅝ ⅞ (second) and ¼ ¾ (first, third).
        let sets: Vec<usize> = samples.iter().map(|sample| sample.set).collect();
        assert_eq!(sets, [1, 0, 2, 1, 1, 0, 2, 1]);
    }
    for (set, samples) in [(0, 2), (1, 3), (2, 3)] {
        let drawn: Vec<usize> = epochs.iter().flatten().filter(|s| s.set == set).map(|s| s.index).collect();
        for pass in drawn.chunks_exact(samples) {
            let mut pass = pass.to_vec();
            pass.sort_unstable();
            assert!(pass.into_iter().eq(0..samples), "set {set}");
        }
    }
}

/// Any position can be asked for first, and the stretches hold what is drawn.
#[test]
fn mixed_positions_do_not_depend_on_where_one_begins() {
    let sets = [
        DataSet { shards: vec![300, 20, 100, 50], weight: 0.3 },
        DataSet { shards: vec![7, 8], weight: 2.5 },
        DataSet { shards: vec![1000; 3], weight: 1.1 },
    ];
    for order in [Order::Global, Order::Windows(2)] {
        let plan = Plan::new(&sets, order, 5, 64).unwrap();
        let epoch = plan.epoch(3);
        let all: Vec<Sample> = epoch.samples(0..plan.positions()).collect();
        assert_eq!(all.len(), 3485);
        for (start, sample) in all.iter().enumerate() {
            assert_eq!(epoch.samples(start..start + 1).next(), Some(*sample));
        }
        let stretches = epoch.stretches();
        for (position, sample) in all.iter().enumerate() {
            let needed = stretches.iter().any(|stretch| {
                stretch.set == sample.set
                    && stretch.positions.contains(&position)
                    && stretch.shards.contains(&plan.shard(*sample))
            });
            assert!(needed, "{order:?}, position {position}: {sample:?}");
        }
    }
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let set = |shards: &[usize], weight| DataSet { shards: shards.to_vec(), weight };
    let refused = |sets: &[DataSet], batch| Plan::new(sets, Order::Global, 0, batch).unwrap_err();
    assert_eq!(refused(&[], 1), "no data set");
    assert_eq!(refused(&[set(&[3], 1.0), set(&[0, 0], 1.0)], 1), "data set 1 has no sample");
    assert_eq!(refused(&[set(&[3], f64::NAN)], 1), "data set 0 has weight NaN, wanted a number above 0");
    assert_eq!(refused(&[set(&[3], 1.0)], 0), "a batch of 0 samples, wanted at least 1");
}
