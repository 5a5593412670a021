//! Incremental matchings against the algorithm on all pairs, and examples of the paper.

use super::csls::Csls;
use super::distance::Distance;
use super::inverted_softmax::InvertedSoftmax;
use super::method::{DenseScores, StatisticalMethod};
use super::relaxed_greedy::{
    CapacityRule, GreedyRelaxation, IncrementalMatching, MatchCandidate, MatchingLimits, query_slices, relaxed_greedy,
};
use super::testing::{random_scores, statistical_correction, to_f32};
use crate::measure::hubs::k_occurrences;
use crate::random::Rng;

/// The first `length` candidates of every query.
fn lists(s: &DenseScores, length: usize) -> Vec<Vec<MatchCandidate>> {
    let candidates = |(query, items): (usize, Vec<usize>)| {
        items.into_iter().take(length).map(|item| MatchCandidate { item, score: s.at(query, item) }).collect()
    };
    s.rankings().into_iter().enumerate().map(candidates).collect()
}

fn taken(matching: &IncrementalMatching) -> Vec<Vec<usize>> {
    matching.matched().iter().map(|taken| taken.iter().map(|candidate| candidate.item).collect()).collect()
}

#[test]
fn an_incremental_matching_equals_the_one_of_all_pairs() {
    let mut rng = Rng::new(5, &[]);
    let mut n_extended = 0;
    for round in 0..300 {
        let (queries, items) = (1 + rng.uniform_below(25), 1 + rng.uniform_below(12));
        let s = random_scores(&mut rng, queries, items, [2, 16, 4096][round % 3]);
        let lambda = [1.0, 1.3, 2.0, 1e9][rng.uniform_below(4)];
        let capacity = [CapacityRule::Scaled, CapacityRule::Strict][rng.uniform_below(2)];
        let limits = GreedyRelaxation { lambda, capacity }.limits(rng.uniform_below(5), queries, items);
        let expected = relaxed_greedy(&s, limits);
        let mut matching = IncrementalMatching::new(limits, items, lists(&s, rng.uniform_below(4)));
        let all = lists(&s, items);
        loop {
            let short = matching.advance();
            if short.is_empty() {
                break;
            }
            assert!(short.is_sorted());
            n_extended += short.len();
            let open = matching.open_items();
            let longer: Vec<_> = short
                .into_iter()
                .map(|query| {
                    let rest = all[query].iter().copied().filter(|candidate| open.contains(&candidate.item));
                    let list: Vec<_> = rest.take(matching.known_open_count(query) + 1 + rng.uniform_below(3)).collect();
                    let whole = list.len() == open.len();
                    (query, list, whole)
                })
                .collect();
            matching.extend_lists(longer);
        }
        assert_eq!(taken(&matching), expected, "round {round}");
        assert!(expected.iter().all(|items| items.len() <= limits.items_per_query));
        let counts = k_occurrences(expected.iter().map(Vec::as_slice), items, limits.items_per_query);
        assert!(counts.iter().all(|&count| count <= limits.queries_per_item));
    }
    assert!(n_extended > 300, "too few lists had to be extended: {n_extended}");
}

/// Inverted softmax or CSLS with relaxed greedy matching: comparable scores give the matching of the definitions.
#[test]
fn matchings_over_corrected_scores_are_those_of_the_definitions() {
    let mut rng = Rng::new(9, &[]);
    let (mut others_than_of_scores, mut one_sided_differs) = (0, 0);
    for _ in 0..30 {
        // Some queries have higher scores than others.
        let noise = random_scores(&mut rng, 20, 8, 1 << 20);
        let s = DenseScores::from_fn(20, 8, |q, i| noise.at(q, i) + if q % 4 == 0 { 0.5 } else { 0.0 });
        let limits = GreedyRelaxation { lambda: 1.5, capacity: CapacityRule::Scaled }.limits(2, 20, 8);
        let inverted = InvertedSoftmax { beta: 4.0, query_bank: false };
        let csls = Csls { k: 3, ..Csls::default() };
        let one_sided = Csls { item_side_only: true, ..csls };
        let tight = GreedyRelaxation { lambda: 1.0, capacity: CapacityRule::Scaled }.limits(1, 20, 8);
        let sets = [csls, one_sided].map(|csls| relaxed_greedy(&csls.definition(&s, &s, Distance::Cosine), tight));
        one_sided_differs += usize::from(sets[0] != sets[1]);
        for method in [&inverted as &dyn StatisticalMethod, &csls, &one_sided] {
            let definition = method.definition(&s, &s, Distance::Cosine);
            let correction = statistical_correction(method, &s, &s, Distance::Cosine);
            let across = |q: usize, i: usize| correction.comparable_score(q, i, to_f32([s.at(q, i)].into_iter())[0]);
            let got = relaxed_greedy(&DenseScores::from_fn(20, 8, across), limits);
            assert_eq!(got, relaxed_greedy(&definition, limits));
            others_than_of_scores += usize::from(got != relaxed_greedy(&s, limits));
        }
    }
    assert!(others_than_of_scores > 60, "{others_than_of_scores}");
    // The ranking of a query does not depend on its own term, a matching does.
    assert!(one_sided_differs > 10, "{one_sided_differs}");
}

#[test]
fn two_queries_by_hand() {
    // Item 0 is the best of both queries; the pair with 0.9 is taken first.
    let s = DenseScores { queries: 2, items: 2, values: vec![0.8, 0.1, 0.9, 0.7] };
    let matched_items =
        |k, lambda| relaxed_greedy(&s, GreedyRelaxation { lambda, capacity: CapacityRule::Strict }.limits(k, 2, 2));
    assert_eq!(matched_items(1, 1.0), [[1], [0]]);
    assert_eq!(matched_items(1, 1.4), [[1], [0]]);
    // From λ = 1.5 an item may have two queries.
    assert_eq!(matched_items(1, 1.5), [[0], [0]]);
    assert_eq!(matched_items(2, 1.0), [[0, 1], [0, 1]]);
    // Equal scores: the lower query, then the lower item.
    let s = DenseScores { queries: 2, items: 3, values: vec![0.5; 6] };
    assert_eq!(
        relaxed_greedy(&s, MatchingLimits { items_per_query: 2, queries_per_item: 1, total_pairs: 9 }),
        [vec![0, 1], vec![2]]
    );
}

/// Without effective limits, a matching equals the nearest neighbours.
#[test]
fn an_infinite_relaxation_gives_the_nearest_neighbours() {
    let mut rng = Rng::new(6, &[]);
    for _ in 0..20 {
        let s = random_scores(&mut rng, 30, 8, 16);
        for capacity in [CapacityRule::Scaled, CapacityRule::Strict] {
            let limits = GreedyRelaxation { lambda: f64::INFINITY, capacity }.limits(3, 30, 8);
            let got = relaxed_greedy(&s, MatchingLimits { total_pairs: 90, ..limits });
            let expected: Vec<Vec<usize>> = s.rankings().into_iter().map(|items| items[..3].to_vec()).collect();
            assert_eq!(got, expected);
        }
    }
}

#[test]
fn slices_have_one_query_of_each_image() {
    assert_eq!(query_slices(&[0, 0, 1, 2, 2, 2, 1]), [vec![0, 2, 3], vec![1, 4, 6], vec![5]]);
    assert_eq!((query_slices(&[0, 1, 2]), query_slices(&[])), (vec![vec![0, 1, 2]], vec![]));
}

/// The three readings of the paper for λ = 2, k = 10 and five captions of each image: an image gets at most 20 captions,
/// 100, or 20 of each slice. Figure 3 has at most 20, and for λ = 1 table 4 has R@1 above 20 %.
#[test]
fn capacities_of_an_image_by_rule() {
    let limits = |capacity, lambda, k| GreedyRelaxation { lambda, capacity }.limits(k, 5000, 1000);
    let slice_limits = |lambda, k| GreedyRelaxation { lambda, capacity: CapacityRule::Slices }.limits(k, 1000, 1000);
    let largest = [limits(CapacityRule::Strict, 2.0, 10), limits(CapacityRule::Scaled, 2.0, 10), slice_limits(2.0, 10)];
    assert_eq!(largest.map(|limits| limits.queries_per_item), [20, 100, 20]);
    // Captions that get an image at all, of 5,000: the limit of R@1.
    let matched =
        [limits(CapacityRule::Strict, 1.0, 1), limits(CapacityRule::Scaled, 1.0, 1)].map(|limits| limits.total_pairs);
    assert_eq!((matched, 5 * slice_limits(1.0, 1).total_pairs), ([1000, 5000], 5000));
}

/// With five captions for each image and a capacity of 1, the published algorithm matches a fifth of the captions, so
/// at most 20 % can be hits; the scaled capacity matches all.
#[test]
fn strict_capacities_match_a_fifth_of_five_captions_per_image() {
    let images = 20;
    let mut rng = Rng::new(7, &[]);
    let noise = random_scores(&mut rng, 5 * images, images, 256);
    // Every caption is nearest to its own image.
    let s = DenseScores::from_fn(5 * images, images, |q, i| noise.at(q, i) / 4.0 + f64::from(u8::from(q / 5 == i)));
    let hits = |capacity| {
        let limits = GreedyRelaxation { lambda: 1.0, capacity }.limits(1, 5 * images, images);
        let rows = relaxed_greedy(&s, limits);
        (rows.iter().flatten().count(), rows.iter().enumerate().filter(|(q, items)| items.contains(&(q / 5))).count())
    };
    assert_eq!(hits(CapacityRule::Strict), (images, images));
    assert_eq!(hits(CapacityRule::Scaled), (5 * images, 5 * images));
}

/// Figure 3 of the paper: with λ = 2 no item is among the first ten of more than 20 queries.
#[test]
fn relaxed_matching_bounds_k_occurrences() {
    let mut rng = Rng::new(8, &[]);
    let noise = random_scores(&mut rng, 60, 60, 256);
    let s = DenseScores::from_fn(60, 60, |q, i| noise.at(q, i) + if i < 5 { 1.0 } else { 0.0 });
    let largest = |rows: Vec<Vec<usize>>| k_occurrences(rows.iter().map(Vec::as_slice), 60, 10).into_iter().max();
    let limits = GreedyRelaxation { lambda: 2.0, capacity: CapacityRule::Scaled }.limits(10, 60, 60);
    assert!(largest(s.rankings()) > Some(40));
    assert_eq!(largest(relaxed_greedy(&s, limits)), Some(20));
}

/// −0 and 0 are equal, so the lower index comes first.
#[test]
fn zeros_of_either_sign_are_equal() {
    let s = DenseScores { queries: 2, items: 2, values: vec![-0.0, 0.0, 0.0, -0.0] };
    assert_eq!(s.rankings(), [[0, 1], [0, 1]]);
    let limits = MatchingLimits { items_per_query: 1, queries_per_item: 1, total_pairs: 2 };
    assert_eq!(relaxed_greedy(&s, limits), [[0], [1]]);
    let mut matching = IncrementalMatching::new(limits, 2, lists(&s, 2));
    assert!(matching.advance().is_empty());
    assert_eq!(taken(&matching), [[0], [1]]);
}
