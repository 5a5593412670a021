//! Tests of every method of the list: rankings against the definitions on dense matrices in f64, labels, golden cases.

#![expect(clippy::cast_precision_loss, reason = "test values are small")]

use test_data::hubness::golden;

use super::method::{ListedMethod, MethodContext, RankingMethod, ScoreKind};
use super::reference_scores::{CAPTIONS_PER_IMAGE, ReferenceScores, SyntheticPool};
use super::{
    Csls, DbNorm, DisSimLocal, Distribution, DualBankSinkhorn, InvertedSoftmax, KBestAssignment, Method,
    MutualProximity, QbNorm, RelaxedGreedy, Sinkhorn,
};
use crate::Rankings;
use pairloom_kernels::hubness::inverted_softmax::{NormalisationSet, inverted_softmax};
use pairloom_kernels::hubness::k_best_assignment::{CapacitatedAssignment, k_best_assignments};
use pairloom_kernels::hubness::method::DenseScores;
use pairloom_kernels::hubness::relaxed_greedy::{CapacityRule, GreedyRelaxation, relaxed_greedy};
use pairloom_kernels::hubness::sinkhorn::sinkhorn;
use pairloom_tables::DEFAULT_CUTOFFS;

fn items(rankings: &Rankings) -> Vec<Vec<usize>> {
    rankings.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect()
}

/// Returns true if a query and an item of a direction match.
fn is_match(direction: usize, query: usize, item: usize) -> bool {
    if direction == 0 { item / CAPTIONS_PER_IMAGE == query } else { query / CAPTIONS_PER_IMAGE == item }
}

fn recall(direction: usize, sets: &[Vec<usize>]) -> f64 {
    let is_hit = |(query, items): &(usize, &Vec<usize>)| items.iter().any(|&item| is_match(direction, *query, item));
    100.0 * sets.iter().enumerate().filter(is_hit).count() as f64 / sets.len() as f64
}

#[test]
fn rankings_equal_those_of_the_definitions() {
    let data = SyntheticPool::new();
    let references = ReferenceScores::both_directions(&data);
    for method in Method::samples() {
        let evaluated = data.evaluate(std::slice::from_ref(&method), &DEFAULT_CUTOFFS).expect("a method");
        for (rankings, side) in evaluated.rankings[0].iter().zip(&references) {
            let Some(defined) = method.reference_scores(side) else { continue };
            let expected: Vec<Vec<usize>> =
                defined.rankings().into_iter().map(|items| items[..rankings.top[0].len()].to_vec()).collect();
            assert_eq!(items(rankings), expected, "{method:?}");
        }
        let label = method.label(Some("train"), None);
        assert_eq!(evaluated.results.summary[0].transductive, label.transductive, "{method:?}");
    }
    let corrects = Method::samples().iter().filter(|method| method.reference_scores(&references[0]).is_some()).count();
    assert!(corrects >= Method::all().len() - 4, "only matchings and a choice give no scores");
}

/// Both are beyond all items.
#[test]
fn a_cut_off_of_any_size_is_one_of_all_items() {
    let data = SyntheticPool::new();
    for method in Method::samples() {
        let evaluated = data.evaluate(std::slice::from_ref(&method), &[1, 10_000, 1 << 62]).expect("a method");
        let summary = &evaluated.results.summary[0];
        for recalls in [&summary.i2t.recalls, &summary.t2i.recalls] {
            assert_eq!(recalls[1], recalls[2], "{method:?}");
        }
    }
}

/// Every method but those that compare items with items ranks stored scores, with a query bank of scores.
#[test]
fn rankings_of_stored_scores_equal_those_of_the_definitions() {
    let data = SyntheticPool::new();
    let references = ReferenceScores::both_directions(&data).map(ReferenceScores::stored);
    let context = MethodContext::complete(ScoreKind::Model);
    let mut refused = Vec::new();
    for method in Method::samples() {
        let evaluated = data.evaluate_stored(std::slice::from_ref(&method), &DEFAULT_CUTOFFS);
        if !method.problems("methods.0", context).is_empty() {
            evaluated.err().expect("it is refused by the check, so it fails");
            refused.push(method.name());
            continue;
        }
        let evaluated = evaluated.expect("a method");
        for (rankings, side) in evaluated.rankings[0].iter().zip(&references) {
            let Some(defined) = method.reference_scores(side) else { continue };
            let expected: Vec<Vec<usize>> =
                defined.rankings().into_iter().map(|items| items[..rankings.top[0].len()].to_vec()).collect();
            assert_eq!(items(rankings), expected, "{method:?}");
        }
    }
    refused.sort_unstable();
    refused.dedup();
    assert_eq!(refused, ["db_norm", "dis_sim_local", "localized_centering", "relaxed_greedy"]);
    // A matching is refused over a refused method only.
    let over = |method: Method| Method::from(RelaxedGreedy { over: Box::new(method), ..RelaxedGreedy::default() });
    assert_eq!(over(DualBankSinkhorn::default().into()).problems("methods.0", context), []);
    // Without scores of the bank's own pairs, one method is refused more.
    let alone = MethodContext { bank_pairs: false, ..context };
    let problems = Method::from(DualBankSinkhorn::default()).problems("methods.0", alone);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(Method::from(QbNorm::default()).problems("methods.0", alone).is_empty());
    // Without items of the bank, those that read them.
    let proximity = |query_bank| MutualProximity { query_bank, distribution: Distribution::Empirical };
    let query_context = MethodContext { bank_items: false, ..MethodContext::complete(ScoreKind::Cosine) };
    for (method, is_refused) in [
        (Method::from(DbNorm::default()), true),
        (proximity(true).into(), true),
        (proximity(false).into(), false),
        (MutualProximity { query_bank: true, ..MutualProximity::default() }.into(), false),
        (QbNorm::default().into(), false),
    ] {
        assert_eq!(method.problems("methods.0", query_context).len(), usize::from(is_refused), "{method:?}");
    }
    // The bank may be scored with the test split only.
    let chosen = |method: Method, bank_of_validation: bool| {
        let context = MethodContext { bank_of_validation, ..context };
        Method::from(super::BestOf { methods: vec![method] }).problems("methods.0", context)
    };
    assert_eq!(chosen(Csls::default().into(), false), []);
    assert_eq!(chosen(QbNorm::default().into(), false).len(), 1);
    assert_eq!(chosen(QbNorm::default().into(), true), []);
    // A method that cannot use the scores does not ask for a bank.
    let without = MethodContext { query_bank: false, ..context };
    let problems = Method::from(DbNorm::default()).problems("methods.0", without);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(problems[0].message.starts_with("compares items with items"), "{problems:?}");
    let problems = Method::from(QbNorm::default()).problems("methods.0", without);
    assert!(problems.len() == 1 && problems[0].message.starts_with("learns from a query bank"), "{problems:?}");
}

#[test]
fn two_methods_and_choices_among_them_scale_distances() {
    let all = Method::all();
    let scaling: Vec<&str> = all.iter().filter(|method| method.scales_distances()).map(Method::name).collect();
    assert_eq!(scaling, ["local_scaling", "nicdm"]);
    let chosen = |methods: Vec<Method>| Method::from(super::BestOf { methods }).scales_distances();
    assert!(chosen(vec![Csls::default().into(), super::Nicdm::default().into()]));
    assert!(!chosen(vec![Csls::default().into()]));
}

/// Sets of a greedy matching by the definition. In slices, each caption of an image is matched in a matrix of its own.
fn greedy_sets(scores: &DenseScores, greedy: GreedyRelaxation, direction: usize, k: usize) -> Vec<Vec<usize>> {
    if direction == 0 || greedy.capacity != CapacityRule::Slices {
        return relaxed_greedy(scores, greedy.limits(k, scores.queries, scores.items));
    }
    let images = scores.queries / CAPTIONS_PER_IMAGE;
    let mut sets = vec![Vec::new(); scores.queries];
    for slice in 0..CAPTIONS_PER_IMAGE {
        let query = |image: usize| image * CAPTIONS_PER_IMAGE + slice;
        let greedy_slice = DenseScores::from_fn(images, scores.items, |image, item| scores.at(query(image), item));
        let greedy_slice = relaxed_greedy(&greedy_slice, greedy.limits(k, images, scores.items));
        greedy_slice.into_iter().enumerate().for_each(|(image, items)| sets[query(image)] = items);
    }
    sets
}

#[test]
fn matchings_equal_those_of_the_definition() {
    let data = SyntheticPool::new();
    let references = ReferenceScores::both_directions(&data);
    for over in Method::samples().into_iter().filter(RankingMethod::compares_queries) {
        for (lambda, capacity) in [
            (1.0, CapacityRule::Scaled),
            (2.0, CapacityRule::Scaled),
            (1.0, CapacityRule::Strict),
            (1.6, CapacityRule::Strict),
            (1.0, CapacityRule::Slices),
            (1.6, CapacityRule::Slices),
        ] {
            let method = Method::from(RelaxedGreedy { lambda, capacity, over: Box::new(over.clone()) });
            assert!(method.label(None, None).transductive);
            let evaluated = data.evaluate(std::slice::from_ref(&method), &DEFAULT_CUTOFFS).expect("a method");
            let greedy = GreedyRelaxation { lambda, capacity };
            let summary = &evaluated.results.summary[0];
            for (direction, (rankings, side)) in evaluated.rankings[0].iter().zip(&references).enumerate() {
                let scores = over.reference_scores(side).expect("it gives scores");
                let sets = |k| greedy_sets(&scores, greedy, direction, k);
                assert_eq!(items(rankings), sets(10), "{method:?}");
                let reported = [&summary.i2t, &summary.t2i][direction];
                for (&k, reported) in DEFAULT_CUTOFFS.iter().zip(&reported.recalls) {
                    assert!((reported - recall(direction, &sets(k))).abs() < 1e-9, "{method:?} {k}: {reported}");
                }
                assert_eq!((reported.medr, reported.meanr), (None, None));
            }
        }
    }
}

/// Liu and Ye exclude the query itself from the normalisation of its scores, MUSE includes it. Rankings and matchings
/// are the same, so there is no setting for it.
#[test]
fn inverted_softmax_does_not_depend_on_the_query_itself() {
    let data = SyntheticPool::new();
    for beta in [1.0, 10.0, 30.0] {
        let method = Method::from(InvertedSoftmax { beta, query_bank: false });
        let matching = RelaxedGreedy { lambda: 1.0, over: Box::new(method.clone()), ..RelaxedGreedy::default() };
        let evaluated = data.evaluate(&[method, matching.into()], &DEFAULT_CUTOFFS).expect("two methods");
        for (direction, side) in ReferenceScores::both_directions(&data).iter().enumerate() {
            let definitions = [NormalisationSet::OtherQueries, NormalisationSet::AllQueries]
                .map(|over| inverted_softmax(&side.test, None, beta, over));
            assert_ne!(definitions[0].values, definitions[1].values);
            for scores in definitions {
                let [ranked, matched] = [0, 1].map(|method: usize| &evaluated.rankings[method][direction]);
                let best = |items: Vec<usize>| items[..ranked.top[0].len()].to_vec();
                assert_eq!(items(ranked), scores.rankings().into_iter().map(best).collect::<Vec<_>>());
                let greedy = GreedyRelaxation { lambda: 1.0, capacity: CapacityRule::Scaled };
                let sets = |k| relaxed_greedy(&scores, greedy.limits(k, scores.queries, scores.items));
                assert_eq!(matched.sets, Some(DEFAULT_CUTOFFS.map(sets).to_vec()));
            }
        }
    }
}

/// The ranking of a query is its different items in the k best assignments, in their order.
#[test]
fn the_k_best_assignments_equal_those_of_the_definition() {
    let data = SyntheticPool::new();
    let evaluated = data.evaluate(&[KBestAssignment { k: 6 }.into()], &DEFAULT_CUTOFFS).expect("a method");
    for (rankings, side) in evaluated.rankings[0].iter().zip(&ReferenceScores::both_directions(&data)) {
        let (queries, count) = (side.test.queries, side.test.items);
        let score = |query: usize, item: usize| side.test.at(query, item);
        let places =
            CapacitatedAssignment { queries, items: count, item_capacity: queries.div_ceil(count), score: &score };
        let best = k_best_assignments(&places, 6, || true);
        assert_eq!(best.len(), 6);
        for (query, got) in items(rankings).into_iter().enumerate() {
            let mut expected: Vec<usize> = Vec::new();
            for item in best.iter().map(|assignment| assignment[query]) {
                if !expected.contains(&item) {
                    expected.push(item);
                }
            }
            assert_eq!(got, expected, "{query}");
        }
    }
}

#[test]
fn an_assignment_does_not_exceed_capacities() {
    let evaluated =
        SyntheticPool::new().evaluate(&[Method::Assignment(super::Assignment {})], &DEFAULT_CUTOFFS).expect("a method");
    let [i2t, t2i] = evaluated.rankings[0].each_ref().map(|rankings| -> Vec<usize> {
        let mut first: Vec<usize> = items(rankings).iter().map(|items| items[0]).collect();
        first.sort_unstable();
        first
    });
    assert!(i2t.windows(2).all(|pair| pair[0] < pair[1]), "{i2t:?}");
    // Every image is the first item of three captions: its capacity.
    assert_eq!(t2i, (0..36).map(|caption| caption / CAPTIONS_PER_IMAGE).collect::<Vec<_>>());
}

/// Sets and rankings fit any cut-offs; at a cut-off larger than the pool the recall is 100.
#[test]
fn recalls_are_measured_at_any_cut_offs() {
    let data = SyntheticPool::new();
    let references = ReferenceScores::both_directions(&data);
    let greedy = RelaxedGreedy { lambda: 1.0, ..RelaxedGreedy::default() };
    let methods = [Method::default(), greedy.into()];
    for cutoffs in [&[1, 3, 20][..], &[10], &[2, 100]] {
        let evaluated = data.evaluate(&methods, cutoffs).expect("any cut-offs");
        for (summary, rankings) in evaluated.results.summary.iter().zip(&evaluated.rankings) {
            let reported = [&summary.i2t, &summary.t2i];
            for (direction, reported) in reported.into_iter().enumerate() {
                let expected: Vec<f64> = cutoffs
                    .iter()
                    .enumerate()
                    .map(|(place, &k)| match &rankings[direction].sets {
                        Some(sets) => recall(direction, &sets[place]),
                        None => {
                            let cut = |items: Vec<usize>| items[..k.min(items.len())].to_vec();
                            let all = references[direction].test.rankings();
                            recall(direction, &all.into_iter().map(cut).collect::<Vec<_>>())
                        }
                    })
                    .collect();
                assert_eq!(reported.recalls, expected, "{cutoffs:?}");
            }
            let sum: f64 = reported.iter().map(|summary| summary.recalls.iter().sum::<f64>()).sum();
            assert_eq!(summary.rsum, sum);
        }
        let names = evaluated.results.summary().expect("rows");
        for k in cutoffs {
            assert!(names.column_by_name(&format!("t2i_r{k}")).is_some());
        }
        assert!(evaluated.results.summary[0].i2t.recalls.is_sorted());
    }
    assert_eq!(data.evaluate(&methods, &[100]).expect("above the pool").results.summary[0].rsum, 200.0);
    for wrong in [&[][..], &[0], &[5, 1], &[1, 1]] {
        assert!(data.evaluate(&methods, wrong).is_err(), "{wrong:?}");
    }
}

/// Parameters as in the labels of stored tables.
#[test]
fn labels_name_parameters_and_options_other_than_the_default() {
    let label = |method: &str| -> Option<String> {
        let method: Method = serde_json::from_str(method).expect("a method");
        method.label(None, None).parameters
    };
    for (method, expected) in [
        (r#"{"nns": {}}"#, None),
        (r#"{"inverted_softmax": {"query_bank": true}}"#, Some("beta = 30")),
        (r#"{"csls": {}}"#, Some("k = 10")),
        (r#"{"nnn": {"alpha": 0.5}}"#, Some("alpha = 0.5, k = 128")),
        (r#"{"qb_norm": {}}"#, Some("beta = 20, k = 1")),
        (r#"{"db_norm": {"beta_queries": 8.0}}"#, Some("beta_queries = 8, beta_items = 3")),
        (
            r#"{"db_norm": {"beta_queries": 8.0, "dynamic": true}}"#,
            Some("beta_queries = 8, beta_items = 3, k = 1, dynamic"),
        ),
        (r#"{"sinkhorn": {"tau": 0.05}}"#, Some("tau = 0.05, iterations = 10")),
        (r#"{"mutual_proximity": {}}"#, None),
        (r#"{"mutual_proximity": {"distribution": "empirical"}}"#, Some("empirical")),
        (r#"{"relaxed_greedy": {}}"#, Some("lambda = 3")),
        (
            r#"{"relaxed_greedy": {"capacity": "strict", "over": {"sinkhorn": {"tau": 0.1}}}}"#,
            Some("lambda = 3, strict, over sinkhorn, tau = 0.1, iterations = 10"),
        ),
        (r#"{"k_best_assignment": {}}"#, Some("k = 10")),
    ] {
        assert_eq!(label(method).as_deref(), expected, "{method}");
    }
    let infinite = Method::from(RelaxedGreedy { lambda: f64::INFINITY, ..RelaxedGreedy::default() });
    assert_eq!(infinite.label(None, None).parameters.as_deref(), Some("lambda = inf"));
    let csls = Method::from(Csls { k: 5, query_bank: true, ..Csls::default() });
    assert_eq!(
        csls.label(Some("train"), Some("val")).parameters.as_deref(),
        Some("k = 5, query bank train, chosen on val")
    );
    let over = Method::from(RelaxedGreedy { over: Box::new(csls), ..RelaxedGreedy::default() });
    assert_eq!(over.label(Some("train"), None).bank.as_deref(), Some("train"));
}

#[test]
fn every_method_has_the_name_of_its_setting_and_valid_sample_settings() {
    let context = MethodContext::complete(ScoreKind::Cosine);
    for method in Method::all() {
        let json = serde_json::to_value(&method).expect("settings");
        let names: Vec<&String> = json.as_object().expect("one name").keys().collect();
        assert_eq!(names, [method.name()]);
        if method.candidates().is_none() {
            assert_eq!(method.problems("methods.0", context), []);
            assert!(Method::samples().iter().any(|sample| sample.name() == method.name()), "{}", method.name());
        }
    }
    let tried = Method::samples().into_iter().chain(Method::extremes(1000));
    tried.for_each(|method| assert_eq!(method.problems("methods.0", context), [], "{method:?}"));
}

#[test]
fn parameters_are_checked() {
    let wrong =
        |method: &dyn RankingMethod| -> Vec<&str> { method.problems().into_iter().map(|(name, _)| name).collect() };
    assert_eq!(wrong(&QbNorm { beta: -1.0, k: 0 }), ["beta", "k"]);
    let db_norm = DbNorm { beta_queries: 0.0, beta_items: 1e9, k: 0, dynamic: true };
    assert_eq!(wrong(&db_norm), ["beta_queries", "beta_items", "k"]);
    assert_eq!(wrong(&DisSimLocal { k: 0 }), ["k"]);
    assert_eq!(wrong(&Sinkhorn { tau: 0.0, iterations: 0, query_bank: false }), ["tau", "iterations"]);
    assert_eq!(wrong(&DualBankSinkhorn { tau: 0.0, iterations: 0 }), ["tau", "iterations"]);
    // A statistical method.
    assert_eq!(wrong(&Csls { k: 0, query_bank: true, ..Csls::default() }), ["k"]);
}

/// Golden cases have the name of the method. The nearest neighbour corrects nothing, and `best_of` is one of the
/// others.
#[test]
fn every_method_has_golden_cases() {
    let golden = golden();
    let case = golden["cases"][0].as_object().expect("a case");
    let methods = case["methods"].as_object().expect("methods by name");
    for method in Method::all().iter().map(ListedMethod::name).filter(|name| !["nns", "best_of"].contains(name)) {
        let named = |name: &String| name.starts_with(method);
        assert!(methods.keys().chain(case.keys()).any(named), "tests/golden/hubness.py has no case of `{method}`");
    }
}

/// The query potentials of Sinkhorn only make scores comparable across queries.
#[test]
fn query_shifts_change_no_ranking() {
    let data = SyntheticPool::new();
    for side in &ReferenceScores::both_directions(&data) {
        let method = Sinkhorn { tau: 0.1, iterations: 5, query_bank: false };
        let comparable: DenseScores = method.reference_scores(side).expect("scores");
        let (h, _) = sinkhorn(&side.test, 0.1, 5);
        assert_eq!(comparable.rankings(), side.minus_item_shifts(&h).rankings());
    }
}
