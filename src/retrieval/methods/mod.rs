//! The methods to rank with: a file for each, and a line of the list.
//!
//! A file has the settings of its method, as pipeline files give them, and what it does with them. A method that needs no
//! more than statistics of scores is a file of [`kernels::hubness`](crate::kernels::hubness), and `statistical.rs` ranks with
//! all of these; any other is a file here, with an implementation of `RankingMethod`.

mod method;
mod statistical;
mod text;
mod assignments;
#[cfg(test)]
mod defined;
#[cfg(test)]
mod samples;
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

pub use self::method::{Given, ScoreKind};
use self::method::{Learns, Listed, RankingMethod};
use super::corrections::Corrections;
use super::label::Label;
use super::ranking::{Ranker, Rankings, Wanted};
use crate::error::{Problem, Result};
use crate::kernels::hubness;
use crate::search::Progress;

/// Declares [`Method`]: a name, and the file that has it, here or in `kernels/hubness/`, whose name is that of the setting.
macro_rules! methods {
    ($($name:ident in $folder:ident::$file:ident $(of $inner:ident)?;)*) => {
        $(pub use $folder::$file::$name;)*

        /// How items are ranked. What is said of queries holds for items where captions and images change sides.
        ///
        /// Methods that learn from queries take those of the test (`bank = false`, transductive: a query's result depends on
        /// the others) or those of the stage's `bank` (inductive); some know banks only.
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

            /// The same method with the settings that it has where none are given.
            fn default_of(&self) -> Self {
                match self {
                    $(Self::$name(_) => Self::$name(Default::default()),)*
                }
            }
        }

        impl Listed for Method {
            fn all() -> Vec<Self> {
                vec![$(Self::$name(Default::default())),*]
            }

            fn name(&self) -> &'static str {
                match self {
                    $(Self::$name(_) => stringify!($file),)*
                }
            }

            fn problems_at(&self, at: &str, given: Given) -> Vec<Problem> {
                self.problems(at, given)
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
    /// The name in tables: that of the setting.
    #[must_use]
    pub fn name(&self) -> &'static str {
        Listed::name(self)
    }

    /// Label of its results in tables; `bank` is the name of the bank, `chosen` the split on which its numbers were chosen.
    #[must_use]
    pub fn label(&self, bank: Option<&str>, chosen: Option<&str>) -> Label {
        let method = self.get();
        let bank = bank.filter(|_| method.uses_bank());
        let mut parameters = text::parameters(self, &self.default_of(), method.unused());
        parameters.extend(bank.map(|bank| format!("bank {bank}")));
        parameters.extend(chosen.map(|split| format!("chosen on {split}")));
        Label {
            method: self.name().to_owned(),
            parameters: (!parameters.is_empty()).then(|| parameters.join(", ")),
            bank: bank.map(str::to_owned),
            transductive: method.learns() == Learns::Test,
        }
    }

    /// Problems of its settings, which stand at `at`, beside the others.
    #[must_use]
    pub fn problems(&self, at: &str, given: Given) -> Vec<Problem> {
        let (method, at) = (self.get(), format!("{at}.{}", self.name()));
        let own = method.problems().into_iter();
        let mut problems: Vec<Problem> =
            own.map(|(name, message)| Problem::new(format!("{at}.{name}"), message)).collect();
        if method.learns() == Learns::Bank && !given.bank {
            let hint = match given.scores {
                ScoreKind::Model => "leave it out, or rank embeddings: scores of a model have no bank",
                _ => "set `bank = { images = …, captions = …, split = \"train\" }`",
            };
            problems.push(Problem::new(&at, "learns from a bank of queries, and there is none").hint(hint));
        }
        if let Some(why) = method.refusal(given.scores) {
            let hint = "leave it out where `similarity` is `order`, or where a model gives the scores";
            problems.push(Problem::new(&at, why).hint(hint));
        }
        problems.extend(method.inner_problems(&at, given));
        problems
    }

    /// Rankings of images and of captions.
    ///
    /// # Errors
    /// The method does not go with the scores, or the first error of `progress`.
    pub(in crate::retrieval) fn rank(
        &self,
        ranker: &Ranker<'_>,
        wanted: &Wanted<'_>,
        progress: &mut dyn Progress,
    ) -> Result<[Rankings; 2]> {
        self.get().rank(ranker, wanted, progress).map_err(|error| error.context(format!("method `{}`", self.name())))
    }

    /// The methods that one is chosen of, if that is what this is.
    pub(in crate::retrieval) fn choice(&self) -> Option<&[Self]> {
        match self {
            Self::BestOf(of) => Some(&of.methods),
            _ => None,
        }
    }
}

impl RankingMethod for Method {
    fn learns(&self) -> Learns {
        self.get().learns()
    }

    fn corrections(&self, ranker: &Ranker<'_>, across: bool, progress: &mut dyn Progress) -> Result<Corrections> {
        self.get().corrections(ranker, across, progress)
    }

    fn rank(&self, ranker: &Ranker<'_>, wanted: &Wanted<'_>, progress: &mut dyn Progress) -> Result<[Rankings; 2]> {
        self.get().rank(ranker, wanted, progress)
    }

    fn problems(&self) -> hubness::problems::Problems {
        self.get().problems()
    }

    fn inner_problems(&self, at: &str, given: Given) -> Vec<Problem> {
        self.get().inner_problems(at, given)
    }

    fn unused(&self) -> &'static [&'static str] {
        self.get().unused()
    }

    fn refusal(&self, scores: ScoreKind) -> Option<&'static str> {
        self.get().refusal(scores)
    }

    fn compares_queries(&self) -> bool {
        self.get().compares_queries()
    }

    fn uses_bank(&self) -> bool {
        self.get().uses_bank()
    }

    #[cfg(test)]
    fn defined(&self, sides: &defined::Sides<'_>) -> Option<hubness::matrix::Matrix> {
        self.get().defined(sides)
    }
}
