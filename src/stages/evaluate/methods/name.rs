//! How tables name a method, and what is wrong with its settings.

use super::plan::{Learns, Plan};
use super::settings::{Distribution, Method};
use crate::kernels::hubness::distance::Distance;
use crate::stage::Problem;
use crate::stages::evaluate::label::Label;

/// What a method finds in the settings around it.
#[derive(Debug, Clone, Copy)]
pub(in crate::stages::evaluate) struct Given {
    /// Whether there is a bank.
    pub(in crate::stages::evaluate) bank: bool,
    /// Whether there is a validation split.
    pub(in crate::stages::evaluate) validation: bool,
    /// Whether scores are order similarities.
    pub(in crate::stages::evaluate) order: bool,
}

impl Method {
    /// The name in tables: that of the setting.
    pub(in crate::stages::evaluate) fn name(&self) -> &'static str {
        match self {
            Self::Nns {} => "nns",
            Self::InvertedSoftmax { .. } => "inverted_softmax",
            Self::Csls { .. } => "csls",
            Self::Nnn { .. } => "nnn",
            Self::DistributionNormalisation { .. } => "distribution_normalisation",
            Self::QbNorm { .. } => "qb_norm",
            Self::DbNorm { .. } => "db_norm",
            Self::DualSoftmax { .. } => "dual_softmax",
            Self::Sinkhorn { .. } => "sinkhorn",
            Self::DualBankSinkhorn { .. } => "dual_bank_sinkhorn",
            Self::MutualProximity { .. } => "mutual_proximity",
            Self::LocalScaling { .. } => "local_scaling",
            Self::Nicdm { .. } => "nicdm",
            Self::DisSimLocal { .. } => "dis_sim_local",
            Self::RelaxedGreedy { .. } => "relaxed_greedy",
            Self::Assignment {} => "assignment",
            Self::KBestAssignment { .. } => "k_best_assignment",
            Self::BestOf { .. } => "best_of",
        }
    }

    /// Its free numbers: `beta = 30`.
    fn parameters(&self) -> Vec<String> {
        let one = |name: &str, value: &dyn std::fmt::Display| format!("{name} = {value}");
        match self {
            Self::Nns {} | Self::Assignment {} | Self::BestOf { .. } => vec![],
            Self::MutualProximity { distribution, .. } => match distribution {
                Distribution::Normal => vec![],
                Distribution::Empirical => vec!["empirical".to_owned()],
            },
            Self::InvertedSoftmax { beta, .. } | Self::DualSoftmax { beta } => vec![one("beta", beta)],
            Self::Csls { k, .. }
            | Self::LocalScaling { k, .. }
            | Self::Nicdm { k, .. }
            | Self::DisSimLocal { k }
            | Self::KBestAssignment { k } => vec![one("k", k)],
            Self::Nnn { alpha, k } => vec![one("alpha", alpha), one("k", k)],
            Self::DistributionNormalisation { lambda } => vec![one("lambda", lambda)],
            Self::QbNorm { beta, k } => vec![one("beta", beta), one("k", k)],
            Self::DbNorm { beta_queries, beta_items, k, dynamic } => {
                let mut all = vec![one("beta_queries", beta_queries), one("beta_items", beta_items)];
                if *dynamic {
                    all.extend([one("k", k), "dynamic".to_owned()]);
                }
                all
            }
            Self::Sinkhorn { tau, iterations, .. } | Self::DualBankSinkhorn { tau, iterations } => {
                vec![one("tau", tau), one("iterations", iterations)]
            }
            Self::RelaxedGreedy { lambda, strict, over } => {
                let mut all = vec![one("lambda", lambda)];
                all.extend(strict.then(|| "strict".to_owned()));
                if **over != (Self::Nns {}) {
                    all.push(format!("over {}", over.name()));
                    all.extend(over.parameters());
                }
                all
            }
        }
    }

    /// What tables say of its results; `bank` is how the stage's bank is called, `chosen` where its numbers were chosen.
    pub(in crate::stages::evaluate) fn label(&self, bank: Option<&str>, chosen: Option<&str>) -> Label {
        let learns = self.plan().learns();
        let bank = bank.filter(|_| learns == Learns::Bank || self.over_a_bank());
        let mut parameters = self.parameters();
        parameters.extend(bank.map(|bank| format!("bank {bank}")));
        parameters.extend(chosen.map(|split| format!("chosen on {split}")));
        Label {
            method: self.name().to_owned(),
            parameters: (!parameters.is_empty()).then(|| parameters.join(", ")),
            bank: bank.map(str::to_owned),
            transductive: learns == Learns::Test,
        }
    }

    /// What it is made of; distances matter to results alone.
    fn plan(&self) -> Plan {
        Plan::of(self, Distance::Cosine)
    }

    fn over_a_bank(&self) -> bool {
        matches!(self, Self::RelaxedGreedy { over, .. } if over.plan().learns() == Learns::Bank)
    }

    /// Why it cannot correct order similarities, if it cannot.
    fn not_of_orders(&self) -> Option<&'static str> {
        match self {
            Self::DbNorm { .. } | Self::DisSimLocal { .. } => {
                Some("compares items with items, and order similarities compare images with captions only")
            }
            Self::DualSoftmax { .. } => {
                Some("multiplies scores by shares, and order similarities, never above 0, would change places")
            }
            _ => None,
        }
    }

    /// What is wrong with it, at a place of the settings, beside the others.
    pub(in crate::stages::evaluate) fn problems(&self, at: &str, given: Given) -> Vec<Problem> {
        let Given { bank, validation, order } = given;
        let mut problems: Vec<Problem> = self
            .plan()
            .problems()
            .into_iter()
            .map(|(name, message)| Problem::new(format!("{at}.{}.{name}", self.name()), message))
            .collect();
        let at = format!("{at}.{}", self.name());
        if self.plan().learns() == Learns::Bank && !bank {
            problems.push(
                Problem::new(&at, "learns from a bank of queries, and there is none")
                    .hint("set `bank = { images = …, captions = …, split = \"train\" }`"),
            );
        }
        if let Some(why) = self.not_of_orders().filter(|_| order) {
            problems.push(Problem::new(&at, why).hint("leave it out where `similarity` is `order`"));
        }
        match self {
            Self::RelaxedGreedy { over, .. } => {
                let comparable = ["nns", "inverted_softmax", "csls", "nnn", "sinkhorn", "dual_bank_sinkhorn"];
                if !comparable.contains(&over.name()) {
                    let message = format!("got `{}`, whose scores of different queries do not compare", over.name());
                    let hint = format!("one of {}", comparable.join(", "));
                    problems.push(Problem::new(format!("{at}.over"), message).hint(hint));
                }
                problems.extend(over.problems(&format!("{at}.over"), given));
            }
            Self::BestOf { methods } => {
                if !validation {
                    let message = "is chosen on a validation split, and there is none";
                    problems.push(Problem::new(&at, message).hint("set `validation = \"val\"`"));
                }
                if methods.is_empty() {
                    problems.push(Problem::new(format!("{at}.methods"), "got none"));
                }
                for (number, method) in methods.iter().enumerate() {
                    let at = format!("{at}.methods.{number}");
                    if matches!(method, Self::BestOf { .. }) {
                        problems.push(Problem::new(at, "got `best_of` in a `best_of`"));
                    } else {
                        problems.extend(method.problems(&at, given));
                    }
                }
            }
            _ => {}
        }
        problems
    }
}
