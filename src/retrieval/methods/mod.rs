//! Ranking methods: a file for each, and a line in the list `methods!`.
//!
//! A file has a struct with the settings of its method in pipeline files, and the implementation of the method. A
//! method that needs only statistics of scores is a file of [`kernels::hubness`](pairloom_kernels::hubness);
//! `statistical.rs` ranks with all of these. Any other method is a file here, with an implementation of
//! `RankingMethod`.

mod method;
// Tests of other modules use it too.
#[doc(hidden)]
pub mod testing;
#[cfg(test)]
mod reference_scores;
#[cfg(test)]
mod tests;

mod nns;
mod qb_norm;
mod db_norm;
mod sinkhorn;
mod dual_bank_sinkhorn;
mod mutual_proximity;
mod dis_sim_local;
mod localized_centering;
mod relaxed_greedy;
mod assignment;
mod k_best_assignment;
mod best_of;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::method::{LearnsFrom, ListedMethod, RankingMethod};
pub use self::method::{MethodContext, ScoreKind};
use super::ranking::{DirectionCorrections, MethodLabel, Ranker, RankingRequest, Rankings};
use pairloom_base::error::{Problem, Result};
use pairloom_kernels::hubness;
use pairloom_search::SearchProgress;

/// Declares [`Method`] from the type and the file of each method. The file is here or in `kernels/hubness/`; its name
/// is that of the setting.
macro_rules! methods {
    ($($name:ident in $folder:ident::$file:ident $(of $inner:ident)?;)*) => {
        $(pub use $folder::$file::$name;)*

        /// Ranking method. Each direction of retrieval is ranked separately, with images or captions as the queries.
        ///
        /// Methods that learn from queries use the test queries (`query_bank = false`, transductive: the result of a
        /// query depends on the others) or those of the stage's `query_bank` (inductive). Some support only a query
        /// bank.
        #[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
        #[serde(rename_all = "snake_case", deny_unknown_fields)]
        #[expect(missing_docs, reason = "each has the documentation of its settings")]
        pub enum Method {
            $($name($name $(<$inner>)?),)*
        }

        $(impl From<$name $(<$inner>)?> for Method {
            fn from(method: $name $(<$inner>)?) -> Self {
                Self::$name(method)
            }
        })*

        impl Method {
            fn get(&self) -> &dyn RankingMethod {
                match self {
                    $(Self::$name(method) => method,)*
                }
            }

            /// The same method with its default settings.
            fn default_of(&self) -> Self {
                match self {
                    $(Self::$name(_) => Self::$name(Default::default()),)*
                }
            }
        }

        impl ListedMethod for Method {
            fn all() -> Vec<Self> {
                vec![$(Self::$name(Default::default())),*]
            }

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($file),)*
                }
            }

            fn problems_at(&self, at: &str, context: MethodContext) -> Vec<Problem> {
                self.problems(at, context)
            }
        }
    };
}

methods! {
    Nns in self::nns;
    InvertedSoftmax in hubness::inverted_softmax;
    Csls in hubness::csls;
    Nnn in hubness::nnn;
    DistributionNormalisation in hubness::distribution_normalisation;
    QbNorm in self::qb_norm;
    DbNorm in self::db_norm;
    DualSoftmax in hubness::dual_softmax;
    Sinkhorn in self::sinkhorn;
    DualBankSinkhorn in self::dual_bank_sinkhorn;
    MutualProximity in self::mutual_proximity;
    LocalScaling in hubness::local_scaling;
    Nicdm in hubness::nicdm;
    DisSimLocal in self::dis_sim_local;
    LocalizedCentering in self::localized_centering;
    RelaxedGreedy in self::relaxed_greedy of Method;
    Assignment in self::assignment;
    KBestAssignment in self::k_best_assignment;
    BestOf in self::best_of of Method;
}

pub use self::mutual_proximity::Distribution;

impl Default for Method {
    fn default() -> Self {
        Self::Nns(Nns {})
    }
}

impl Method {
    /// Name of the method in pipeline files and in tables.
    #[must_use]
    pub fn name(&self) -> &'static str {
        ListedMethod::name(self)
    }

    /// True if it scales distances: stored scores have distances 1 − s, and so must not be above 1.
    #[must_use]
    pub fn scales_distances(&self) -> bool {
        self.get().needs_distances()
    }

    /// Label of its results in tables. `bank` is the name of the query bank, `chosen_on` the split on which its
    /// parameters were chosen.
    #[must_use]
    pub fn label(&self, bank: Option<&str>, chosen_on: Option<&str>) -> MethodLabel {
        let method = self.get();
        let bank = bank.filter(|_| method.uses_query_bank());
        let mut parameters = method::parameters(self, &self.default_of(), method.unused_settings());
        parameters.extend(bank.map(|bank| format!("query bank {bank}")));
        parameters.extend(chosen_on.map(|split| format!("chosen on {split}")));
        MethodLabel {
            method: self.name().to_owned(),
            parameters: (!parameters.is_empty()).then(|| parameters.join(", ")),
            bank: bank.map(str::to_owned),
            transductive: method.learns_from() == LearnsFrom::TestQueries,
        }
    }

    /// Problems of the settings of this method. Its path in the pipeline file is `at`, `context` the settings around
    /// it.
    #[must_use]
    pub fn problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        let (method, at) = (self.get(), format!("{at}.{}", self.name()));
        let own = method.problems().into_iter();
        let mut problems: Vec<Problem> =
            own.map(|(name, message)| Problem::new(format!("{at}.{name}"), message)).collect();
        let refusal = method.refusal(context.score_kind);
        // Each use of a method that subtracts shifts is a pass over the scores, image by image.
        let streams = method.compares_queries() || self.candidates().is_some();
        if context.score_kind == ScoreKind::Streamed && !(streams && method.learns_from() != LearnsFrom::QueryBank) {
            let message =
                "needs all scores of a caption at a time, or a query bank, and the scores of `model` are not kept";
            let hint = "keep them with `score_pairs`, and evaluate that table by `scores`";
            problems.push(Problem::new(&at, message).hint(hint));
            return problems;
        }
        // A bank does not help a method that cannot use the scores.
        if method.learns_from() == LearnsFrom::QueryBank && !context.query_bank && refusal.is_none() {
            let hint = match context.score_kind {
                ScoreKind::Model => {
                    "set `query_bank = { image_scores = { scores = …, captions = … }, caption_scores = { … }, split = \
                     \"train\" }`"
                }
                _ => "set `query_bank = { images = …, captions = …, split = \"train\" }`",
            };
            problems.push(Problem::new(&at, "learns from a query bank, and there is none").hint(hint));
        }
        if let Some(why) = refusal {
            let hint = "leave it out if `similarity` is `order`, or if there are stored scores";
            problems.push(Problem::new(&at, why).hint(hint));
        }
        problems.extend(method.nested_problems(&at, context));
        problems
    }

    /// Ranks both directions.
    ///
    /// # Errors
    /// The method does not support the scores, or the first error of `progress`.
    pub(crate) fn rank(
        &self,
        ranker: &Ranker<'_>,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        self.get().rank(ranker, request, progress).map_err(|error| error.context(format!("method `{}`", self.name())))
    }

    /// The methods that `best_of` selects from; `None` for other methods.
    pub(crate) fn candidates(&self) -> Option<&[Self]> {
        match self {
            Self::BestOf(best_of) => Some(&best_of.methods),
            _ => None,
        }
    }
}

impl RankingMethod for Method {
    fn learns_from(&self) -> LearnsFrom {
        self.get().learns_from()
    }

    fn corrections(
        &self,
        ranker: &Ranker<'_>,
        comparable: bool,
        progress: &mut dyn SearchProgress,
    ) -> Result<DirectionCorrections> {
        self.get().corrections(ranker, comparable, progress)
    }

    fn rank(
        &self,
        ranker: &Ranker<'_>,
        request: &RankingRequest<'_>,
        progress: &mut dyn SearchProgress,
    ) -> Result<[Rankings; 2]> {
        self.get().rank(ranker, request, progress)
    }

    fn problems(&self) -> hubness::method::ParameterProblems {
        self.get().problems()
    }

    fn nested_problems(&self, at: &str, context: MethodContext) -> Vec<Problem> {
        self.get().nested_problems(at, context)
    }

    fn unused_settings(&self) -> &'static [&'static str] {
        self.get().unused_settings()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        self.get().refusal(scores)
    }

    fn needs_distances(&self) -> bool {
        self.get().needs_distances()
    }

    fn compares_queries(&self) -> bool {
        self.get().compares_queries()
    }

    fn uses_query_bank(&self) -> bool {
        self.get().uses_query_bank()
    }

    #[cfg(test)]
    fn reference_scores(
        &self,
        reference: &reference_scores::ReferenceScores<'_>,
    ) -> Option<hubness::method::DenseScores> {
        self.get().reference_scores(reference)
    }
}
