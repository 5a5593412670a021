//! Matchings out of lists against the algorithm on all pairs; anchors of the paper.

use super::csls::Csls;
use super::distance::Distance;
use super::greedy::{Capacity, Limits, RelaxedGreedy, relaxed_greedy};
use super::inverted_softmax::InvertedSoftmax;
use super::matching::{Candidate, Matching};
use super::matrix::Matrix;
use super::method::StatisticalMethod;
use super::tests::{random, single, stream};
use crate::measure::hubs::occurrences;
use crate::sample::Sample;

/// The lists of a matching, cut to lengths of which some are too short.
fn lists(s: &Matrix, length: usize) -> Vec<Vec<Candidate>> {
    let candidates = |(query, items): (usize, Vec<usize>)| {
        items.into_iter().take(length).map(|item| Candidate { item, score: s.at(query, item) }).collect()
    };
    s.rankings().into_iter().enumerate().map(candidates).collect()
}

fn taken(matching: &Matching) -> Vec<Vec<usize>> {
    matching.taken().iter().map(|taken| taken.iter().map(|candidate| candidate.item).collect()).collect()
}

#[test]
fn a_matching_out_of_lists_is_the_one_of_all_pairs() {
    let mut sample = Sample::new(5, &[]);
    let mut asked = 0;
    for round in 0..300 {
        let (queries, items) = (1 + sample.below(25), 1 + sample.below(12));
        let s = random(&mut sample, queries, items, [2, 16, 4096][round % 3]);
        let lambda = [1.0, 1.3, 2.0, 1e9][sample.below(4)];
        let capacity = [Capacity::Scaled, Capacity::Strict][sample.below(2)];
        let limits = RelaxedGreedy { lambda, capacity }.limits(sample.below(5), queries, items);
        let wanted = relaxed_greedy(&s, limits);
        let mut matching = Matching::new(limits, items, lists(&s, sample.below(4)));
        let all = lists(&s, items);
        loop {
            let short = matching.advance();
            if short.is_empty() {
                break;
            }
            assert!(short.is_sorted());
            asked += short.len();
            let open = matching.open();
            let longer: Vec<_> = short
                .into_iter()
                .map(|query| {
                    let rest = all[query].iter().copied().filter(|candidate| open.contains(&candidate.item));
                    let list: Vec<_> = rest.take(matching.known(query) + 1 + sample.below(3)).collect();
                    let whole = list.len() == open.len();
                    (query, list, whole)
                })
                .collect();
            matching.extend(longer);
        }
        assert_eq!(taken(&matching), wanted, "round {round}");
        assert!(wanted.iter().all(|items| items.len() <= limits.query));
        let counts = occurrences(wanted.iter().map(Vec::as_slice), items, limits.query);
        assert!(counts.iter().all(|&count| count <= limits.item));
    }
    assert!(asked > 300, "lists were long enough nearly always: {asked}");
}

/// IS + RGM and CSLS + RGM: a matching over what corrections say across queries is the one over the definitions.
#[test]
fn matchings_over_corrected_scores_are_those_of_the_definitions() {
    let mut sample = Sample::new(9, &[]);
    let mut others_than_of_scores = 0;
    for _ in 0..30 {
        let s = random(&mut sample, 20, 8, 1 << 20);
        let limits = RelaxedGreedy { lambda: 1.5, capacity: Capacity::Scaled }.limits(2, 20, 8);
        let (inverted, csls) = (InvertedSoftmax { beta: 4.0, bank: false }, Csls { k: 3, bank: false });
        for method in [&inverted as &dyn StatisticalMethod, &csls] {
            let definition = method.definition(&s, &s, Distance::Cosine);
            let of = stream(method, &s, &s, Distance::Cosine);
            let across = |q: usize, i: usize| of.across(q, i, single([s.at(q, i)].into_iter())[0]);
            let got = relaxed_greedy(&Matrix::from_fn(20, 8, across), limits);
            assert_eq!(got, relaxed_greedy(&definition, limits));
            others_than_of_scores += usize::from(got != relaxed_greedy(&s, limits));
        }
    }
    assert!(others_than_of_scores > 40, "{others_than_of_scores}");
}

#[test]
fn two_queries_by_hand() {
    // Both want item 0, and 0.9 is taken first.
    let s = Matrix { queries: 2, items: 2, values: vec![0.8, 0.1, 0.9, 0.7] };
    let of = |k, lambda| relaxed_greedy(&s, RelaxedGreedy { lambda, capacity: Capacity::Strict }.limits(k, 2, 2));
    assert_eq!(of(1, 1.0), [[1], [0]]);
    assert_eq!(of(1, 1.4), [[1], [0]]);
    // From λ = 1.5 an item may have two queries.
    assert_eq!(of(1, 1.5), [[0], [0]]);
    assert_eq!(of(2, 1.0), [[0, 1], [0, 1]]);
    // Equal scores: the lower query, then the lower item.
    let s = Matrix { queries: 2, items: 3, values: vec![0.5; 6] };
    assert_eq!(relaxed_greedy(&s, Limits { query: 2, item: 1, pairs: 9 }), [vec![0, 1], vec![2]]);
}

/// Without a limit that counts, a matching is the nearest neighbours.
#[test]
fn an_infinite_relaxation_is_the_nearest_neighbours() {
    let mut sample = Sample::new(6, &[]);
    for _ in 0..20 {
        let s = random(&mut sample, 30, 8, 16);
        for capacity in [Capacity::Scaled, Capacity::Strict] {
            let limits = RelaxedGreedy { lambda: f64::INFINITY, capacity }.limits(3, 30, 8);
            let got = relaxed_greedy(&s, Limits { pairs: 90, ..limits });
            let wanted: Vec<Vec<usize>> = s.rankings().into_iter().map(|items| items[..3].to_vec()).collect();
            assert_eq!(got, wanted);
        }
    }
}

/// With five captions an image and one place each, the printed algorithm answers a fifth of the captions, so no more than
/// 20 % can be hits; scaled capacity answers all.
#[test]
fn strict_capacities_answer_a_fifth_of_five_captions_an_image() {
    let images = 20;
    let mut sample = Sample::new(7, &[]);
    let noise = random(&mut sample, 5 * images, images, 256);
    // Every caption is nearest to its own image.
    let s = Matrix::from_fn(5 * images, images, |q, i| noise.at(q, i) / 4.0 + f64::from(u8::from(q / 5 == i)));
    let hits = |capacity| {
        let limits = RelaxedGreedy { lambda: 1.0, capacity }.limits(1, 5 * images, images);
        let rows = relaxed_greedy(&s, limits);
        (rows.iter().flatten().count(), rows.iter().enumerate().filter(|(q, items)| items.contains(&(q / 5))).count())
    };
    assert_eq!(hits(Capacity::Strict), (images, images));
    assert_eq!(hits(Capacity::Scaled), (5 * images, 5 * images));
}

/// Figure 3 of the paper: with λ = 2 no item is among the first ten of more than 20 queries, whatever the hubs were.
#[test]
fn relaxed_matching_clips_hubs() {
    let mut sample = Sample::new(8, &[]);
    let noise = random(&mut sample, 60, 60, 256);
    let s = Matrix::from_fn(60, 60, |q, i| noise.at(q, i) + if i < 5 { 1.0 } else { 0.0 });
    let largest = |rows: Vec<Vec<usize>>| occurrences(rows.iter().map(Vec::as_slice), 60, 10).into_iter().max();
    let limits = RelaxedGreedy { lambda: 2.0, capacity: Capacity::Scaled }.limits(10, 60, 60);
    assert!(largest(s.rankings()) > Some(40));
    assert_eq!(largest(relaxed_greedy(&s, limits)), Some(20));
}

/// −0 and 0 are equal, so the lower index comes first.
#[test]
fn zeros_of_either_sign_are_equal() {
    let s = Matrix { queries: 2, items: 2, values: vec![-0.0, 0.0, 0.0, -0.0] };
    assert_eq!(s.rankings(), [[0, 1], [0, 1]]);
    let limits = Limits { query: 1, item: 1, pairs: 2 };
    assert_eq!(relaxed_greedy(&s, limits), [[0], [1]]);
    let mut matching = Matching::new(limits, 2, lists(&s, 2));
    assert!(matching.advance().is_empty());
    assert_eq!(taken(&matching), [[0], [1]]);
}
