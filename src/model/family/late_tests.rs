//! The toy family through the code of all: gradients, ranks, sets of vectors.

use tch::{Device, Kind, Tensor};

use super::encode;
use super::late::{Config, Settings};
use super::list;
use super::model::Model;
use crate::error;
use crate::kernels::epoch::share;
use crate::kernels::sample::Sample;
use crate::model::bank::Member;
use crate::model::collective::Group;
use crate::model::collective::tests::on_ranks;
use crate::model::loss::Loss;
use crate::model::loss::info_nce::InfoNce;
use crate::model::scores::ModelScores;
use crate::model::step::{Gradients, Pairs, Recipe, gradients};
use crate::runtime::Cancel;
use crate::search::{Answer, Ask, Positives, ScoreMatrix, Side};

const CAPTIONS: [&[i32]; 5] = [&[1, 2], &[1, 5, 6, 2], &[3], &[1, 7, 2], &[8, 8]];

fn config() -> Config {
    use super::contract::Family;
    use super::data::Data;
    Config::of(&Settings { width: 4, ..Settings::default() }, Data::features(3, 9))
}

fn images() -> Vec<f32> {
    let mut sample = Sample::new(2, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    (0..15).map(|_| sample.unit() as f32 - 0.5).collect()
}

/// The parameters of a new model in f64, each moved by this much along a direction of its own.
fn moved(by: f64) -> Box<dyn Model> {
    let config = list::Config::Late(config());
    let drawn = config.create(7, Device::Cpu).expect("a model");
    let direction = |tensor: &Tensor| {
        let count = i64::try_from(tensor.numel()).expect("a few");
        (Tensor::arange(count, (Kind::Double, Device::Cpu)) * 1.7).sin().view(tensor.size().as_slice())
    };
    let tensors = drawn.parameters().tensors().iter();
    config.with(tensors.map(|tensor| tensor.to_kind(Kind::Double) + direction(tensor) * by).collect()).expect("a model")
}

fn of_batch(model: &dyn Model, group: &Group) -> Gradients {
    let own = share(5, group.rank(), group.ranks());
    let (images, members) = (images(), Member::strangers(5));
    let (images, captions) = (&images[3 * own.start..3 * own.end], &CAPTIONS[own]);
    let pairs = Pairs { images, captions, members: &members, relevance: None };
    let recipe = Recipe::from(Loss::InfoNce(InfoNce { temperature: 0.1 }));
    gradients(model, &pairs, &recipe, None, 0, group).expect("gradients")
}

/// Central differences in f64, of the objective and both auxiliary losses.
#[test]
fn gradients_are_the_slope_of_objective_and_losses() {
    let value = |by: f64| {
        let Gradients { loss, auxiliary, .. } = of_batch(&*moved(by), &Group::alone());
        assert_eq!(auxiliary.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["word_norm", "image_spread"]);
        loss + auxiliary.iter().map(|(_, value)| value).sum::<f64>()
    };
    let wanted = (value(1e-5) - value(-1e-5)) / 2e-5;
    let (model, other) = (moved(0.0), moved(1.0));
    let slope: f64 = of_batch(&*model, &Group::alone())
        .parameters
        .iter()
        .zip(model.parameters().tensors().iter().zip(other.parameters().tensors()))
        .map(|(gradient, (from, to))| (gradient * (to - from)).sum(Kind::Double).double_value(&[]))
        .sum();
    assert!((slope - wanted).abs() < 1e-7 * wanted.abs().max(1.0), "{slope}, by differences {wanted}");
}

/// Sets of words are gathered; three ranks, of which one has more pairs, learn what one learns.
#[test]
fn ranks_with_sets_of_vectors_learn_what_one_learns() {
    let numbers = |found: &Gradients| -> Vec<f64> {
        let losses = std::iter::once(found.loss).chain(found.auxiliary.iter().map(|(_, value)| *value));
        let parameters =
            found.parameters.iter().flat_map(|gradient| Vec::<f64>::try_from(gradient.view(-1)).expect("f64"));
        losses.chain(parameters).collect()
    };
    let alone = numbers(&of_batch(&*moved(0.0), &Group::alone()));
    for ranks in [2, 3, 6] {
        for found in on_ranks(ranks, |group| numbers(&of_batch(&*moved(0.0), &group))) {
            assert_eq!(found.len(), alone.len());
            assert!(found.iter().zip(&alone).all(|(got, wanted)| (got - wanted).abs() < 1e-12), "{ranks} ranks");
        }
    }
}

/// Ranks of a search in the model's scores are those of all scores computed at once in f64, in either direction, on any
/// number of threads, with images or captions as rows.
#[test]
fn searches_rank_by_the_scores_of_the_model() {
    let config = list::Config::Late(config());
    let model = config.create(7, Device::Cpu).expect("a model");
    let mut sample = Sample::new(4, &[]);
    #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
    let features: Vec<f32> = (0..3 * 70).map(|_| sample.unit() as f32 - 0.5).collect();
    let captions: Vec<Vec<i32>> = (0..90i32).map(|i| (0..=i % 5).map(|t| (i * 7 + t * t) % 9).collect()).collect();
    let captions: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let sides = || {
        [encode::images(&*model, &features).expect("images"), encode::captions(&*model, &captions).expect("captions")]
    };

    let double = config.with(model.parameters().tensors().iter().map(|tensor| tensor.to_kind(Kind::Double)).collect());
    let double = double.expect("a model");
    let [images, texts] = sides();
    let all = [images, texts].map(|side| side.with(side.vectors.to_kind(Kind::Double)));
    let all: Vec<f64> = Vec::try_from(double.scores(&all[0], &all[1]).expect("scores").view(-1)).expect("f64");
    let score = |image: usize, caption: usize| all[image * 90 + caption];
    // f32 is within 1e-6 of f64, and so no rank is farther off than the scores that are as near to that of the query's own item.
    let places = |own: f64, others: &dyn Fn(usize) -> f64, count: usize| {
        let above = |least: f64| (0..count).filter(|&other| others(other) > least).count();
        above(own + 1e-6)..above(own - 1e-6)
    };
    let of_image: Vec<Vec<usize>> = (0..70).map(|image| vec![image]).collect();
    let of_caption: Vec<Vec<usize>> = (0..90).map(|caption| vec![caption * 3 % 70]).collect();
    let ids: Vec<i64> = (0..90).collect();
    let ids = [&ids[..70], &ids];
    let mut found = Vec::new();
    for threads in [1, 3] {
        let scores = ModelScores::new(&config, &*model, sides(), ids, threads, &Cancel::new()).expect("scores");
        let [i2t, t2i] = [&of_image, &of_caption].map(|of| Ask { positives: Positives::Lists(of), ..Ask::default() });
        let columns =
            scores.search(Side::Columns).expect("a search").find(&i2t, &t2i, &mut |_, _| Ok(())).expect("ranks");
        let rows = scores.search(Side::Rows).expect("a search").find(&t2i, &i2t, &mut |_, _| Ok(())).expect("ranks");
        let ranks = |of: &Answer| of.ranks.iter().flatten().map(|rank| rank.rank).collect::<Vec<_>>();
        for (query, (rank, again)) in ranks(&columns[0]).into_iter().zip(ranks(&rows[1])).enumerate() {
            let wanted = places(score(query, query), &|caption| score(query, caption), 90);
            assert!(
                rank == again && wanted.contains(&rank),
                "image {query}, {threads} threads: {rank} {again} {wanted:?}"
            );
        }
        for (query, (rank, again)) in ranks(&columns[1]).into_iter().zip(ranks(&rows[0])).enumerate() {
            let wanted = places(score(of_caption[query][0], query), &|image| score(image, query), 70);
            assert!(
                rank == again && wanted.contains(&rank),
                "caption {query}, {threads} threads: {rank} {again} {wanted:?}"
            );
        }
        found.push((ranks(&columns[0]), ranks(&columns[1])));
    }
    assert_eq!(found[0], found[1], "on any number of threads");
}

/// Captions of any length come back in their order, with a vector a word.
#[test]
fn many_captions_are_encoded_in_their_order() {
    let model = moved(0.0);
    let captions: Vec<Vec<i32>> = (0..600i32).map(|i| (0..=i % 7).map(|t| (i + t) % 9).collect()).collect();
    let all: Vec<&[i32]> = captions.iter().map(Vec::as_slice).collect();
    let together = encode::captions(&*model, &all).expect("captions");
    assert_eq!(together.len(), 600);
    for at in [0, 1, 255, 256, 599] {
        let alone = model.encode_captions(&[all[at]]).expect("a caption");
        let part = together.part(at..at + 1);
        assert_eq!((alone.lengths, alone.vectors), (part.lengths, part.vectors), "caption {at}");
    }
    assert!(encode::vectors(&together).is_err());
}

/// A score that cannot be ranked is named by its image and caption, and nothing is scored once the run is cancelled.
#[test]
fn scores_that_are_not_finite_are_named_and_a_cancelled_run_ends() {
    let config = list::Config::Late(config());
    let model = config.create(7, Device::Cpu).expect("a model");
    let tensors = |value: f64| {
        let all = model.parameters().tensors().iter();
        all.map(|tensor| if tensor.numel() == 1 { tensor.full_like(value) } else { tensor.copy() }).collect::<Vec<_>>()
    };
    let sides =
        || [encode::images(&*model, &images()), encode::captions(&*model, &CAPTIONS)].map(|side| side.expect("five"));
    let ids: [&[i64]; 2] = [&[10, 11, 12, 13, 14], &[100, 101, 102, 103, 104]];
    let scores = |value: f64, cancel: &Cancel| {
        let model = config.with(tensors(value)).expect("a model");
        ModelScores::new(&config, &*model, sides(), ids, 2, cancel)
    };
    scores(1.0, &Cancel::new()).expect("scores");
    let error = scores(f64::NAN, &Cancel::new()).expect_err("no number").to_string();
    assert_eq!(error, "the model gives image_id 10 and caption_id 100 the score NaN");
    let cancel = Cancel::new();
    cancel.cancel();
    assert_eq!(scores(1.0, &cancel).expect_err("cancelled").kind(), error::Kind::Interrupted);
}
