//! The settings of the methods that `evaluate` can rank with.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::kernels::hubness::db_norm::DbNorm;
use crate::kernels::hubness::dis_sim_local::DisSimLocal;
use crate::kernels::hubness::distribution_normalisation::DistributionNormalisation;
use crate::kernels::hubness::dual_softmax::DualSoftmax;
use crate::kernels::hubness::inverted_softmax::InvertedSoftmax;
use crate::kernels::hubness::nnn::Nnn;
use crate::kernels::hubness::qb_norm::QbNorm;
use crate::kernels::hubness::sinkhorn::Sinkhorn;

/// How items are ranked. What is said of queries holds for items where captions and images change sides.
///
/// Methods that learn from queries take those of the test (`bank = false`, transductive: a query's result depends on the
/// others) or those of the stage's `bank` (inductive); some know banks only.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Method {
    /// The nearest neighbour.
    Nns {},
    /// A softmax over queries in place of items (Smith et al., ICLR 2017; Liu, Ye, 2019). Whether the query itself is among
    /// those that it is normalised over (as in MUSE's code) or not (as in the papers) changes no ranking and no matching: with p
    /// its share of all, it has p / (1 − p) of the others. So there is no setting for it. (Where β times the lead of a query over
    /// all others is above 16 for several items, their shares are 1 up to rounding, which then decides among them.)
    InvertedSoftmax {
        /// Inverse temperature, β. The papers take 30, for cosines that span all of [−1, 1].
        #[serde(default = "inverted_softmax")]
        beta: f64,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// Cross-domain similarity local scaling (Conneau et al., ICLR 2018).
    Csls {
        /// Neighbours whose mean score is taken off.
        #[serde(default = "ten")]
        k: usize,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// The mean of an item's nearest queries of the bank is taken off (Chowdhury et al., EMNLP 2024).
    Nnn {
        /// Weight of the mean, α.
        #[serde(default = "nnn_alpha")]
        alpha: f64,
        /// Queries that count.
        #[serde(default = "nnn_k")]
        k: usize,
    },
    /// The means of the bank's queries and items are taken off both vectors (Zhou et al., 2023).
    DistributionNormalisation {
        /// Part of the means that is taken off, λ.
        #[serde(default = "distribution_normalisation")]
        lambda: f64,
    },
    /// Inverted softmax over the bank, for queries that would find a hub (Bogolin et al., CVPR 2022).
    QbNorm {
        /// Inverse temperature, β.
        #[serde(default = "qb_beta")]
        beta: f64,
        /// First items of a query of the bank that count as hubs.
        #[serde(default = "one")]
        k: usize,
    },
    /// Inverted softmax over queries and over items of the bank (Wang et al., EMNLP 2023).
    DbNorm {
        /// Inverse temperature over queries, β₁.
        #[serde(default = "db_queries")]
        beta_queries: f64,
        /// Inverse temperature over items, β₂.
        #[serde(default = "db_items")]
        beta_items: f64,
        /// First items of a member of the bank that count as hubs; with `dynamic`.
        #[serde(default = "one")]
        k: usize,
        /// Whether only queries that would find a hub are corrected (`DualDIS`), or all (`DualIS`).
        #[serde(default)]
        dynamic: bool,
    },
    /// Scores above 0 times their softmax over the test queries (Cheng et al., 2021).
    DualSoftmax {
        /// Inverse temperature, β.
        #[serde(default = "dual_softmax")]
        beta: f64,
    },
    /// Every item is found by as much of the queries as every other: potentials of Sinkhorn's iterations.
    Sinkhorn {
        /// Temperature, τ.
        #[serde(default = "tau")]
        tau: f64,
        /// Iterations.
        #[serde(default = "ten")]
        iterations: usize,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// Sinkhorn's potentials of the items among those of the bank, from queries of the bank (2025).
    DualBankSinkhorn {
        /// Temperature, τ.
        #[serde(default = "tau")]
        tau: f64,
        /// Iterations.
        #[serde(default = "ten")]
        iterations: usize,
    },
    /// How probable it is that both are nearer to each other than to others (Schnitzer et al., 2012).
    MutualProximity {
        /// How distances of others are known.
        #[serde(default)]
        distribution: Distribution,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// Distances over those of the k-th neighbours (Zelnik-Manor, Perona, 2005).
    LocalScaling {
        /// Which neighbour.
        #[serde(default = "ten")]
        k: usize,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// Distances over the mean distance of neighbours (Jégou et al., 2007).
    Nicdm {
        /// Neighbours.
        #[serde(default = "ten")]
        k: usize,
        /// Whether queries are those of the bank.
        #[serde(default)]
        bank: bool,
    },
    /// Squared distances less those to the centre of neighbours (Hara et al., 2016).
    DisSimLocal {
        /// Neighbours.
        #[serde(default = "dis_sim_local")]
        k: usize,
    },
    /// Greedy matching, each item for at most λ times its share of the queries (Liu, Ye, 2019); λ = 1 is greedy matching.
    RelaxedGreedy {
        /// Relaxation, λ, at least 1.
        #[serde(default = "lambda")]
        lambda: f64,
        /// Whether capacities are those of the printed pseudo-code, which with five captions an image answers a fifth of them.
        #[serde(default)]
        strict: bool,
        /// What makes the scores: `nns`, `inverted_softmax`, `csls`, `nnn`, `sinkhorn`, `dual_bank_sinkhorn`.
        #[serde(default)]
        over: Box<Method>,
    },
    /// The assignment with the largest sum of scores, by the Hungarian method, then that of what is left, and so on: an upper
    /// bound for matchings, for at most 5,000 queries and 5,000 places (an item has as many as it takes for all queries).
    Assignment {},
    /// The k assignments with the largest sums (Murty, 1968): R@K asks for the first K different items that a query has in
    /// them, the best assignment first. Assignments that are nearly as good as the best differ in few pairs, so most queries have
    /// one item, and R@5 is little more than R@1. Sizes as for `assignment`.
    KBestAssignment {
        /// Assignments.
        #[serde(default = "ten")]
        k: usize,
    },
    /// That of several which has the largest rsum on the split `validation`.
    BestOf {
        /// The methods.
        methods: Vec<Method>,
    },
}

/// How mutual proximity knows the distances of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// By their mean and deviation, as those of a normal distribution: two numbers an item.
    #[default]
    Normal,
    /// One by one: all scores of both sides, sorted, 4 bytes each. An error where that is more than 2 GiB; 5,000 images and
    /// 25,000 captions that learn from each other have 0.9 GiB.
    Empirical,
}

fn inverted_softmax() -> f64 {
    InvertedSoftmax::default().beta
}

fn nnn_alpha() -> f64 {
    Nnn::default().alpha
}

fn nnn_k() -> usize {
    Nnn::default().k
}

fn distribution_normalisation() -> f64 {
    DistributionNormalisation::default().lambda
}

fn qb_beta() -> f64 {
    QbNorm::default().beta
}

fn db_queries() -> f64 {
    DbNorm::default().beta_queries
}

fn db_items() -> f64 {
    DbNorm::default().beta_items
}

fn dual_softmax() -> f64 {
    DualSoftmax::default().beta
}

fn tau() -> f64 {
    Sinkhorn::default().tau
}

fn dis_sim_local() -> usize {
    DisSimLocal::default().k
}

fn lambda() -> f64 {
    3.0
}

fn one() -> usize {
    1
}

fn ten() -> usize {
    10
}

impl Default for Method {
    fn default() -> Self {
        Self::Nns {}
    }
}
