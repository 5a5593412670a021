//! Identities of corrections: different corrections have different identities.

use std::sync::Arc;

use super::distance::Distance;
use super::distance_scaling::{DistanceForm, DistanceScaling};
use super::dual_softmax::DualSoftmax;
use super::empirical_proximity::{EmpiricalMutualProximity, SortedScores};
use super::method::{Correction, ScoreStatistics, StatisticalMethod};
use super::mutual_proximity::GaussianMutualProximity;
use super::per_query::PerQueryCorrection;
use super::shift::ShiftCorrection;
use crate::identity::IdentityWriter;

fn identity(correction: &dyn Correction) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut sink = |piece: &[u8]| bytes.extend_from_slice(piece);
    correction.identity(&mut IdentityWriter::new(&mut sink));
    bytes
}

#[test]
fn corrections_that_differ_in_one_number_have_different_identities() {
    let shift = |items: &[f64], queries: &[f64]| ShiftCorrection::new(items.to_vec(), queries.to_vec());
    let shifted = |items: &[f64], queries: &[f64]| Box::new(shift(items, queries)) as Box<dyn Correction>;
    let dynamic = |of_query: &[usize]| {
        let choices = vec![shift(&[1.0, 2.0], &[]), shift(&[], &[])];
        Box::new(PerQueryCorrection::new(choices, of_query.to_vec())) as Box<dyn Correction>
    };
    let scaled = |distance, measured, items: &[f64], queries: &[f64]| {
        Box::new(DistanceScaling::new(distance, measured, [items.to_vec(), queries.to_vec()])) as Box<dyn Correction>
    };
    let lists = |lists: &[&[f32]]| Arc::new(SortedScores::new(lists.iter().map(|list| list.to_vec()).collect()));
    let proximity = |items: &[&[f32]], queries: &[&[f32]]| {
        Box::new(EmpiricalMutualProximity::new(lists(items), lists(queries))) as Box<dyn Correction>
    };
    let of = |items: &[Vec<f64>], queries: &[Vec<f64>]| ScoreStatistics {
        items: items.to_vec(),
        queries: queries.to_vec(),
        distance: Distance::Cosine,
    };
    let softmax = |beta: f64, sums: &[f64]| DualSoftmax { beta }.correction(&of(&[sums.to_vec()], &[]));
    let gaussians = |items: [f64; 2], queries: [f64; 2]| {
        let both = |numbers: [f64; 2]| numbers.map(|number| vec![number]);
        GaussianMutualProximity { query_bank: false }.correction(&of(&both(items), &both(queries)))
    };
    let all = [
        shifted(&[1.0, 2.0], &[]),
        shifted(&[], &[1.0, 2.0]),
        shifted(&[1.0], &[2.0]),
        shifted(&[1.0, 2.0], &[0.0]),
        shifted(&[1.0, 2.0], &[-0.0]),
        shifted(&[1.0, 2.0f64.next_up()], &[]),
        dynamic(&[0, 1]),
        dynamic(&[1, 0]),
        dynamic(&[]),
        scaled(Distance::Cosine, DistanceForm::Squared, &[1.0, 2.0], &[]),
        scaled(Distance::Cosine, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Squared, &[1.0, 2.0], &[]),
        scaled(Distance::Order, DistanceForm::Squared, &[1.0], &[2.0]),
        scaled(Distance::OneMinusScore, DistanceForm::Affine, &[1.0, 2.0], &[]),
        scaled(Distance::OneMinusScore, DistanceForm::Squared, &[1.0, 2.0], &[]),
        softmax(1.0, &[2.0]),
        softmax(2.0, &[1.0]),
        gaussians([1.0, 2.0], [3.0, 4.0]),
        gaussians([2.0, 1.0], [3.0, 4.0]),
        gaussians([3.0, 4.0], [1.0, 2.0]),
        proximity(&[&[1.0, 2.0]], &[&[3.0]]),
        proximity(&[&[1.0], &[2.0]], &[&[3.0]]),
        proximity(&[&[3.0]], &[&[1.0, 2.0]]),
        proximity(&[&[-0.0]], &[&[1.0, 2.0]]),
        proximity(&[&[0.0]], &[&[1.0, 2.0]]),
    ];
    let identities: Vec<Vec<u8>> = all.iter().map(|correction| identity(correction.as_ref())).collect();
    for (number, one) in identities.iter().enumerate() {
        assert!(!identities[..number].contains(one), "{:?}", all[number]);
    }
    assert_eq!(identity(&shift(&[1.0, 2.0], &[])), identities[0]);
}
