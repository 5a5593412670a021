//! Comparison of the GPU path with the CPU: every method with scores of libtorch, and the stage with `--device`.

use super::tests::{host, stage};
use crate::testing::RunOnHost as _;
use pairloom_base::error::{ErrorCategory, Result};
use pairloom_base::runtime::Device;
use pairloom_kernels::random::Rng;
use pairloom_model::device::to_tch;
use pairloom_model::device_search::DeviceSearchFactory;
use pairloom_retrieval::methods::{
    Assignment, Csls, DbNorm, DisSimLocal, Distribution, DualBankSinkhorn, DualSoftmax, InvertedSoftmax,
    MutualProximity, Nnn, Nns, QbNorm, RelaxedGreedy, Sinkhorn,
};
use pairloom_retrieval::{
    Callbacks, Collection, Evaluation, ImageCaptionVectors, Matches, Method, MethodLabel, Protocol, Rankings,
    VectorSource, evaluate,
};
use pairloom_spec::similarity::{EmbeddingSimilarity, OrderPenalty};

const WIDTH: usize = 9;

/// Unit vectors around a common direction without negative values, so that both similarities can score them.
#[expect(clippy::cast_possible_truncation, reason = "embeddings are f32")]
fn vectors(seed: u64, count: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed, &[]);
    let mut vector = || -> Vec<f32> {
        let drawn: Vec<f64> = (0..WIDTH).map(|_| 0.1 + rng.uniform()).collect();
        let norm = drawn.iter().map(|x| x * x).sum::<f64>().sqrt();
        drawn.iter().map(|x| (x / norm) as f32).collect()
    };
    (0..count).flat_map(|_| vector()).collect()
}

fn methods(similarity: EmbeddingSimilarity) -> Vec<Method> {
    let (k, iterations) = (3, 5);
    let mut all =
        vec![Method::Nns(Nns {}), Method::Nnn(Nnn { alpha: 0.75, k }), Method::DualSoftmax(DualSoftmax { beta: 20.0 })];
    all.extend([
        Method::QbNorm(QbNorm { beta: 20.0, k: 1 }),
        Method::DualBankSinkhorn(DualBankSinkhorn { tau: 0.1, iterations }),
    ]);
    if similarity == EmbeddingSimilarity::Cosine {
        all.push(Method::DisSimLocal(DisSimLocal { k }));
        all.push(Method::DbNorm(DbNorm { beta_queries: 8.0, beta_items: 3.0, k: 1, dynamic: true }));
    }
    for bank in [false, true] {
        all.extend([
            Method::InvertedSoftmax(InvertedSoftmax { beta: 30.0, query_bank: bank }),
            Method::Csls(Csls { k, query_bank: bank, ..Csls::default() }),
            Method::Sinkhorn(Sinkhorn { tau: 0.1, iterations, query_bank: bank }),
            Method::MutualProximity(MutualProximity { query_bank: bank, distribution: Distribution::Normal }),
        ]);
    }
    let over =
        |over| Method::RelaxedGreedy(RelaxedGreedy { lambda: 1.5, over: Box::new(over), ..RelaxedGreedy::default() });
    all.extend([
        over(Method::Nns(Nns {})),
        over(Method::Csls(Csls { k, ..Csls::default() })),
        Method::Assignment(Assignment {}),
    ]);
    all
}

/// Top-k items, and their scores separately: corrected scores depend on sums, which libtorch rounds differently.
fn lists(found: &Rankings) -> (Vec<Vec<usize>>, Vec<f32>) {
    let items = found.top.iter().map(|top| top.iter().map(|best| best.item).collect()).collect();
    (items, found.top.iter().flatten().map(|best| best.score).collect())
}

/// Callback that stores the last rankings.
#[derive(Default)]
struct LastRankings(Option<[Rankings; 2]>);

impl Callbacks for LastRankings {
    fn add_pool(&mut self, _: &MethodLabel, rankings: &[Rankings; 2]) -> Result<()> {
        self.0 = Some(rankings.clone());
        Ok(())
    }
}

#[test]
fn methods_have_the_same_results_with_libtorch_and_on_the_cpu() {
    let (n, each) = (70, 3);
    let [images, captions, bank_images, bank_captions] =
        [(1, n), (2, n * each), (3, 50), (4, 80)].map(|(seed, count)| vectors(seed, count));
    let bank = ImageCaptionVectors::new(&bank_images, &bank_captions, WIDTH, " of the bank").expect("good vectors");
    let ids: Vec<i64> = (0..70 * 3).collect();
    let first: Vec<usize> = (0..=n).map(|image| image * each).collect();
    for similarity in [
        EmbeddingSimilarity::Cosine,
        EmbeddingSimilarity::Order { form: OrderPenalty::Norm },
        EmbeddingSimilarity::Order { form: OrderPenalty::Squared },
    ] {
        let here = DeviceSearchFactory::new(Device::Cpu, similarity, 2).expect("a processor");
        let there = DeviceSearchFactory::with_libtorch(similarity, 2);
        let [here, there] = [&here, &there].map(|factory| VectorSource {
            images: &images,
            captions: &captions,
            width: WIDTH,
            bank: Some(&bank),
            factory,
        });
        for method in methods(similarity) {
            let rank = |scores: &VectorSource<'_>| {
                let matches = Matches::Grouped(&first);
                let collection = Collection { image_ids: &ids[..n], caption_ids: &ids, matches, scores };
                let methods = std::slice::from_ref(&method);
                let mut last = LastRankings::default();
                evaluate(&Evaluation { methods, ..Evaluation::of(collection) }, &mut last).expect("a method");
                last.0.expect("one pool")
            };
            for (here, there) in rank(&here).iter().zip(&rank(&there)) {
                let case = format!("{} {similarity:?}", method.name());
                assert_eq!((&here.ranks, &here.sets), (&there.ranks, &there.sets), "{case}");
                let ((items, scores), (libtorch_items, scores_of_libtorch)) = (lists(here), lists(there));
                assert_eq!(items, libtorch_items, "{case}");
                let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-4 * a.abs().max(1.0);
                assert!(scores.iter().zip(&scores_of_libtorch).all(near), "{case}");
                if method == (Method::Nns(Nns {})) {
                    assert_eq!(scores, scores_of_libtorch, "{case}");
                }
            }
        }
    }
}

/// Runs the stage on a GPU. On a machine without one, asserts the error.
#[test]
fn the_stage_computes_on_the_device_of_the_run() {
    let vector = |seed| vectors(seed, 1);
    let images = (0i64..20).map(|id| (id, "test", vector(100 + id.unsigned_abs()))).collect();
    let captions = (0i64..60).map(|id| (id, id / 3, "test", vector(200 + id.unsigned_abs()))).collect();
    let evaluate = stage(&[Protocol::All]);
    let mut here = host(&images, &captions);
    here.run_stage(&evaluate).expect("the processor is there");
    let mut there = host(&images, &captions);
    there.resources.0.device = Device::Cuda(0);
    let result = there.run_stage(&evaluate);
    if to_tch(Device::Cuda(0)).is_ok() {
        result.expect("the GPU is there");
        for table in ["rankings", "hubs", "metrics"] {
            assert_eq!(here.output(table), there.output(table), "{table}");
        }
    } else {
        let error = result.expect_err("no GPU");
        assert_eq!(error.category(), ErrorCategory::Usage);
        assert!(error.to_string().starts_with("device `cuda:0` does not exist"), "{error}");
    }
}
