//! Evaluations that are cancelled in the middle of a search and run again.

use std::sync::Arc;

use super::Evaluate;
use super::tests::{random, stage, world};
use crate::error::Kind;
use crate::io::shard::Shard;
use crate::retrieval::methods::{Csls, Distribution, InvertedSoftmax, MutualProximity, Nns, Sinkhorn};
use crate::retrieval::{Method, Protocol};
use crate::search::MINIMUM_COST;
use crate::stages::testing::MemoryWorld;

const TABLES: [&str; 4] = ["rankings", "hubs", "metrics", "summary"];

#[test]
fn an_evaluation_that_runs_again_computes_only_what_is_not_kept() {
    let (images, captions) = random(250, 8, 3);
    let methods = vec![
        Method::Nns(Nns {}),
        Method::InvertedSoftmax(InvertedSoftmax { beta: 30.0, bank: false }),
        Method::MutualProximity(MutualProximity { bank: false, distribution: Distribution::Normal }),
        Method::Sinkhorn(Sinkhorn { tau: 0.05, iterations: 2, bank: false }),
    ];
    let stage = Evaluate { methods, ..stage(&[Protocol::All]) };
    let fresh = || world(&images, &captions);
    let same = |got: &MemoryWorld, wanted: &MemoryWorld, case: &str| {
        for table in TABLES {
            assert!(got.output(table) == wanted.output(table), "{table}, {case}");
        }
        assert_eq!(got.warnings, wanted.warnings, "{case}");
    };
    // What is small is not kept.
    let mut plain = fresh();
    stage.evaluate(&mut plain, MINIMUM_COST).expect("good input");
    assert_eq!(plain.keeps, 0);
    let mut whole = fresh();
    stage.evaluate(&mut whole, 1).expect("good input");
    same(&whole, &plain, "in sections");
    // Sections of 250 rows: two, each in two parts; of 500 rows that are corrected: three; potentials: three times.
    // Scores, softmaxes and what they correct, moments and what they correct both ways, potentials and what they correct.
    assert_eq!(whole.keeps, 4 + (4 + 4) + (4 + 2 + 3) + (3 + 4));

    for cut in (1..whole.keeps).step_by(3) {
        let mut first = fresh();
        first.cancel_after_keep = Some(cut);
        let error = stage.evaluate(&mut first, 1).expect_err("cancelled");
        assert_eq!((error.kind(), first.keeps), (Kind::Interrupted, cut));
        let mut second = fresh();
        second.kept = first.kept;
        stage.evaluate(&mut second, 1).expect("good input");
        same(&second, &plain, &format!("cut {cut}"));
        // What was cut off between the two parts of a section computes that section.
        let left = whole.keeps - cut;
        assert!((left..=left + 1).contains(&second.keeps), "cut {cut}: {} of {}", second.keeps, whole.keeps);
    }

    // One method more computes its own searches.
    let more =
        Evaluate { methods: [stage.methods.clone(), vec![Method::Csls(Csls { k: 3, bank: false })]].concat(), ..stage };
    let mut again = fresh();
    again.kept = whole.kept.clone();
    more.evaluate(&mut again, 1).expect("good input");
    assert_eq!(again.keeps, 4 + 4);

    // What is of another form is computed again.
    let mut foreign = fresh();
    let other = Arc::new(Shard::of_batch(&fresh().tables["images"][0]).expect("a batch of ids, texts and vectors"));
    foreign.kept = whole.kept.keys().map(|key| (key.clone(), Arc::clone(&other))).collect();
    more.evaluate(&mut foreign, 1).expect("good input");
    assert_eq!(foreign.keeps, whole.keeps + again.keeps);
    same(&foreign, &again, "foreign");
}
