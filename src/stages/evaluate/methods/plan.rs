//! What a method is made of: kernels, and where their statistics come from.

use super::settings::{Distribution, Method};
use crate::kernels::hubness::csls::Csls;
use crate::kernels::hubness::db_norm::DbNorm;
use crate::kernels::hubness::dis_sim_local::DisSimLocal;
use crate::kernels::hubness::distance::Distance;
use crate::kernels::hubness::distribution_normalisation::DistributionNormalisation;
use crate::kernels::hubness::dual_softmax::DualSoftmax;
use crate::kernels::hubness::greedy::{Capacity, RelaxedGreedy};
use crate::kernels::hubness::inverted_softmax::InvertedSoftmax;
use crate::kernels::hubness::local_scaling::LocalScaling;
use crate::kernels::hubness::method::Method as Kernel;
use crate::kernels::hubness::mutual_proximity::MutualProximity;
use crate::kernels::hubness::nicdm::Nicdm;
use crate::kernels::hubness::nnn::Nnn;
use crate::kernels::hubness::problems::{Problems, none};
use crate::kernels::hubness::qb_norm::QbNorm;
use crate::kernels::hubness::sinkhorn::Sinkhorn;

/// Assignments of which the best are wanted: more take hours, and hardly differ.
const MOST_ASSIGNMENTS: usize = 1_000;

/// Whom a method learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::stages::evaluate) enum Learns {
    /// Nobody but the query and the items.
    Nobody,
    /// The bank.
    Bank,
    /// The queries of the test, all of them.
    Test,
}

impl Learns {
    fn from_bank(bank: bool) -> Self {
        if bank { Self::Bank } else { Self::Test }
    }
}

/// What a method is made of.
pub(in crate::stages::evaluate) enum Plan {
    /// Scores as they are.
    Nearest,
    /// Statistics of scores correct them.
    Statistics(Box<dyn Kernel>, Learns),
    /// A bank's softmax for some queries.
    QbNorm(QbNorm),
    /// Softmaxes over both banks; for some queries where `true`.
    DbNorm(DbNorm, bool),
    /// Potentials of iterations.
    Sinkhorn(Sinkhorn, Learns),
    /// The same over items and a bank of items.
    DualBankSinkhorn(Sinkhorn),
    /// All scores of both sides.
    EmpiricalProximity(Learns),
    /// Centres of neighbourhoods of items.
    DisSimLocal(DisSimLocal),
    /// A greedy matching over corrected scores.
    Greedy(RelaxedGreedy, Box<Plan>),
    /// The best assignment, or so many of the best.
    Assignment(Option<usize>),
    /// One of several.
    BestOf,
}

impl Plan {
    /// That of a method, with the distances of these scores.
    pub(in crate::stages::evaluate) fn of(method: &Method, distance: Distance) -> Self {
        let statistics = |kernel: Box<dyn Kernel>, bank: bool| Self::Statistics(kernel, Learns::from_bank(bank));
        match *method {
            Method::Nns {} => Self::Nearest,
            Method::InvertedSoftmax { beta, bank } => statistics(Box::new(InvertedSoftmax { beta }), bank),
            Method::Csls { k, bank } => statistics(Box::new(Csls { k }), bank),
            Method::Nnn { alpha, k } => statistics(Box::new(Nnn { alpha, k }), true),
            Method::DistributionNormalisation { lambda } => {
                statistics(Box::new(DistributionNormalisation { lambda }), true)
            }
            Method::QbNorm { beta, k } => Self::QbNorm(QbNorm { beta, k }),
            Method::DbNorm { beta_queries, beta_items, k, dynamic } => {
                Self::DbNorm(DbNorm { beta_queries, beta_items, k }, dynamic)
            }
            Method::DualSoftmax { beta } => statistics(Box::new(DualSoftmax { beta }), false),
            Method::Sinkhorn { tau, iterations, bank } => {
                Self::Sinkhorn(Sinkhorn { tau, iterations }, Learns::from_bank(bank))
            }
            Method::DualBankSinkhorn { tau, iterations } => Self::DualBankSinkhorn(Sinkhorn { tau, iterations }),
            Method::MutualProximity { distribution: Distribution::Normal, bank } => {
                statistics(Box::new(MutualProximity), bank)
            }
            Method::MutualProximity { distribution: Distribution::Empirical, bank } => {
                Self::EmpiricalProximity(Learns::from_bank(bank))
            }
            Method::LocalScaling { k, bank } => statistics(Box::new(LocalScaling { k, distance }), bank),
            Method::Nicdm { k, bank } => statistics(Box::new(Nicdm { k, distance }), bank),
            Method::DisSimLocal { k } => Self::DisSimLocal(DisSimLocal { k }),
            Method::RelaxedGreedy { lambda, strict, ref over } => {
                let capacity = if strict { Capacity::Strict } else { Capacity::Scaled };
                Self::Greedy(RelaxedGreedy { lambda, capacity }, Box::new(Self::of(over, distance)))
            }
            Method::Assignment {} => Self::Assignment(None),
            Method::KBestAssignment { k } => Self::Assignment(Some(k)),
            Method::BestOf { .. } => Self::BestOf,
        }
    }

    /// Whom it learns from.
    pub(in crate::stages::evaluate) fn learns(&self) -> Learns {
        match self {
            Self::Nearest | Self::DisSimLocal(_) | Self::BestOf => Learns::Nobody,
            Self::Statistics(_, from) | Self::Sinkhorn(_, from) | Self::EmpiricalProximity(from) => *from,
            Self::QbNorm(_) | Self::DbNorm(..) | Self::DualBankSinkhorn(_) => Learns::Bank,
            Self::Greedy(..) | Self::Assignment(_) => Learns::Test,
        }
    }

    /// What is wrong with its free numbers.
    pub(super) fn problems(&self) -> Problems {
        match self {
            Self::Nearest | Self::EmpiricalProximity(_) | Self::Assignment(None) | Self::BestOf => Problems::new(),
            Self::Assignment(Some(k)) if *k > MOST_ASSIGNMENTS => {
                vec![("k", format!("got {k}, wanted at most {MOST_ASSIGNMENTS}"))]
            }
            Self::Assignment(Some(k)) => none("k", *k).into_iter().collect(),
            Self::Statistics(kernel, _) => kernel.problems(),
            Self::QbNorm(kernel) => kernel.problems(),
            Self::DbNorm(kernel, _) => kernel.problems(),
            Self::Sinkhorn(kernel, _) | Self::DualBankSinkhorn(kernel) => kernel.problems(),
            Self::DisSimLocal(kernel) => kernel.problems(),
            Self::Greedy(kernel, _) => kernel.problems(),
        }
    }
}
