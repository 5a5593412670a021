//! What a GPU computes is what the processor computes: every method with scores of libtorch, and the stage with `--device`.

use std::ops::Range;

use super::ranking::{Found, Ranker, Sides, Wanted};
use super::tests::{stage, world};
use super::{Distribution, Method};
use crate::error::Kind;
use crate::kernels::sample::Sample;
use crate::model::device::to_tch;
use crate::model::search::Searcher;
use crate::model::similarity::{Form, Similarity};
use crate::stage::Device;
use crate::stages::evaluate::Protocol;

const WIDTH: usize = 9;

/// Unit vectors around a common direction, without a negative number, so that either similarity may score them.
#[expect(clippy::cast_possible_truncation, reason = "f32 is what embeddings are")]
fn vectors(seed: u64, count: usize) -> Vec<f32> {
    let mut sample = Sample::new(seed, &[]);
    let mut vector = || -> Vec<f32> {
        let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.1 + sample.unit()).collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        drawn.iter().map(|x| (x / norm) as f32).collect()
    };
    (0..count).flat_map(|_| vector()).collect()
}

fn methods(similarity: Similarity) -> Vec<Method> {
    let (k, iterations) = (3, 5);
    let mut all = vec![Method::Nns {}, Method::Nnn { alpha: 0.75, k }, Method::DualSoftmax { beta: 20.0 }];
    all.extend([Method::QbNorm { beta: 20.0, k: 1 }, Method::DualBankSinkhorn { tau: 0.1, iterations }]);
    if similarity == Similarity::Cosine {
        all.push(Method::DisSimLocal { k });
        all.push(Method::DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: true });
    }
    for bank in [false, true] {
        all.extend([
            Method::InvertedSoftmax { beta: 30.0, bank },
            Method::Csls { k, bank },
            Method::Sinkhorn { tau: 0.1, iterations, bank },
            Method::MutualProximity { bank, distribution: Distribution::Normal },
        ]);
    }
    let over = |over| Method::RelaxedGreedy { lambda: 1.5, strict: false, over: Box::new(over) };
    all.extend([over(Method::Nns {}), over(Method::Csls { k, bank: false }), Method::Assignment {}]);
    all
}

/// The items that are found, and their scores apart from them: methods make those of sums, which are rounded in other places.
fn lists(found: &Found) -> (Vec<Vec<usize>>, Vec<f32>) {
    let items = found.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
    (items, found.top.iter().flatten().map(|best| best.score).collect())
}

#[test]
fn methods_find_by_libtorch_what_they_find_on_the_processor() {
    let (n, each) = (70, 3);
    let [images, captions, bank_images, bank_captions] =
        [(1, n), (2, n * each), (3, 50), (4, 80)].map(|(seed, count)| vectors(seed, count));
    let sides = Sides::new(&images, &captions, WIDTH).expect("good vectors");
    let bank = Sides::new(&bank_images, &bank_captions, WIDTH).expect("good vectors");
    let captions_of: Vec<Range<usize>> = (0..n).map(|image| image * each..(image + 1) * each).collect();
    let image_of: Vec<Range<usize>> = (0..n * each).map(|caption| caption / each..caption / each + 1).collect();
    let wanted = Wanted { matches: [&captions_of, &image_of], keep: [10, 10] };
    for similarity in
        [Similarity::Cosine, Similarity::Order { form: Form::Norm }, Similarity::Order { form: Form::Squared }]
    {
        let here = Searcher::new(Device::Cpu, similarity, 2).expect("a processor");
        let here = Ranker::new(&sides, Some(&bank), here).expect("of one width");
        let there = Ranker::new(&sides, Some(&bank), Searcher::by_libtorch(similarity, 2)).expect("of one width");
        for method in methods(similarity) {
            let rank = |ranker: &Ranker<'_>| ranker.rank(&method, &wanted, &mut |_, _| Ok(())).expect("a method");
            for (here, there) in rank(&here).iter().zip(&rank(&there)) {
                let case = format!("{} {similarity:?}", method.name());
                assert_eq!((&here.ranks, &here.sets), (&there.ranks, &there.sets), "{case}");
                let ((items, scores), (of_libtorch, scores_of_libtorch)) = (lists(here), lists(there));
                assert_eq!(items, of_libtorch, "{case}");
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
                assert!(scores.iter().zip(&scores_of_libtorch).all(near), "{case}");
                if method == (Method::Nns {}) {
                    assert_eq!(scores, scores_of_libtorch, "{case}");
                }
            }
        }
    }
}

/// Through the stage, on the GPU of this machine; without one it is asked for and missed.
#[test]
fn the_stage_computes_where_it_is_told_to() {
    let vector = |seed| vectors(seed, 1);
    let images = (0i64..20).map(|id| (id, "test", vector(100 + id.unsigned_abs()))).collect();
    let captions = (0i64..60).map(|id| (id, id / 3, "test", vector(200 + id.unsigned_abs()))).collect();
    let evaluate = stage(&[Protocol::All]);
    let mut here = world(&images, &captions);
    here.run(&evaluate).expect("the processor is there");
    let mut there = world(&images, &captions);
    there.device = Device::Cuda(0);
    let result = there.run(&evaluate);
    if to_tch(Device::Cuda(0)).is_ok() {
        result.expect("the GPU is there");
        for table in ["rankings", "hubs", "metrics"] {
            assert_eq!(here.output(table), there.output(table), "{table}");
        }
    } else {
        let error = result.expect_err("no GPU");
        assert_eq!(error.kind(), Kind::Usage);
        assert!(error.to_string().starts_with("device `cuda:0` was asked for"), "{error}");
    }
}
