//! Tests of evaluations that are cancelled during a search and run again.

use std::sync::Arc;

use super::run::run_with_checkpoints;
use super::tests::{host, random, stage};
use pairloom_base::error::ErrorCategory;
use pairloom_retrieval::methods::{Csls, Distribution, InvertedSoftmax, MutualProximity, Nns, Sinkhorn};
use pairloom_retrieval::{Method, Protocol};
use pairloom_search::MINIMUM_COST;
use pairloom_spec::stages::evaluate::Evaluate;
use pairloom_stage_testing::InMemoryHost;
use pairloom_storage::shard::Shard;

const TABLES: [&str; 4] = ["rankings", "hubs", "metrics", "summary"];

#[test]
fn a_resumed_evaluation_computes_only_what_has_no_checkpoint() {
    let (images, captions) = random(250, 8, 3);
    let methods = vec![
        Method::Nns(Nns {}),
        Method::InvertedSoftmax(InvertedSoftmax { beta: 30.0, query_bank: false }),
        Method::MutualProximity(MutualProximity { query_bank: false, distribution: Distribution::Normal }),
        Method::Sinkhorn(Sinkhorn { tau: 0.05, iterations: 2, query_bank: false }),
    ];
    let stage = Evaluate { methods, ..stage(&[Protocol::All]) };
    let fresh = || host(&images, &captions);
    let same = |got: &InMemoryHost, expected: &InMemoryHost, case: &str| {
        for table in TABLES {
            assert!(got.output(table) == expected.output(table), "{table}, {case}");
        }
        assert_eq!(got.warnings, expected.warnings, "{case}");
    };
    // Small searches have no checkpoints.
    let mut plain = fresh();
    run_with_checkpoints(&stage, &mut plain, MINIMUM_COST).expect("good input");
    assert_eq!(plain.n_cached, 0);
    let mut whole = fresh();
    run_with_checkpoints(&stage, &mut whole, 1).expect("good input");
    same(&whole, &plain, "in sections");
    // Sections of 250 rows: two, each in two parts; of 500 rows that are corrected: three; potentials: three times.
    // Scores, softmaxes and what they correct, moments and what they correct both ways, potentials and what they
    // correct.
    assert_eq!(whole.n_cached, 4 + (4 + 4) + (4 + 2 + 3) + (3 + 4));

    for cut in (1..whole.n_cached).step_by(3) {
        let mut first = fresh();
        first.cancel_after_cache = Some(cut);
        let error = run_with_checkpoints(&stage, &mut first, 1).expect_err("cancelled");
        assert_eq!((error.category(), first.n_cached), (ErrorCategory::Interrupted, cut));
        let mut second = fresh();
        second.cached = first.cached;
        run_with_checkpoints(&stage, &mut second, 1).expect("good input");
        same(&second, &plain, &format!("cut {cut}"));
        // A run that was interrupted between the two parts of a section computes that section again.
        let left = whole.n_cached - cut;
        assert!((left..=left + 1).contains(&second.n_cached), "cut {cut}: {} of {}", second.n_cached, whole.n_cached);
    }

    // An additional method computes only its own searches.
    let more = Evaluate {
        methods: [stage.methods.clone(), vec![Method::Csls(Csls { k: 3, ..Csls::default() })]].concat(),
        ..stage
    };
    let mut again = fresh();
    again.cached = whole.cached.clone();
    run_with_checkpoints(&more, &mut again, 1).expect("good input");
    assert_eq!(again.n_cached, 4 + 4);

    // Checkpoints of another form are computed again.
    let mut foreign = fresh();
    let other =
        Arc::new(Shard::from_batch(&fresh().input_tables["images"][0]).expect("a batch of ids, texts and vectors"));
    foreign.cached = whole.cached.keys().map(|key| (key.clone(), Arc::clone(&other))).collect();
    run_with_checkpoints(&more, &mut foreign, 1).expect("good input");
    assert_eq!(foreign.n_cached, whole.n_cached + again.n_cached);
    same(&foreign, &again, "foreign");
}
