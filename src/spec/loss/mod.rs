//! Settings of the loss functions: formulas and papers, settings as in pipeline files, and their checks.
//!
//! Each loss is one file. The macro `losses` lists them. `model::loss` computes their values.
//!
//! Scores are finite. Among equal scores the lower index ranks first. The derivative of \[x\]₊ at 0 is 0. A
//! batch of one pair has no negatives.

mod contract;
mod objective;
pub mod sum;
pub mod max;
pub mod knn_margin;
pub mod local_scaling;
pub mod hal;
pub mod info_nce;
pub mod sigmoid;
pub mod memory_bank;
pub mod semantic_margin;
#[cfg(test)]
mod tests;

pub use contract::{BatchSpec, FormulaVariant, LearnedScalar, LossSettings};
pub use hal::HalLoss;
pub use info_nce::InfoNceLoss;
pub use knn_margin::KnnMarginLoss;
pub use local_scaling::{BaseLoss, DensityGradient, LocalScalingLoss};
pub use max::MaxLoss;
pub use memory_bank::{MemoryBankMask, MemoryBankWeights};
pub use objective::Objective;
pub use semantic_margin::{NegativeSampler, SemanticMargin};
pub use sigmoid::SigmoidLoss;
pub use sum::SumLoss;

use crate::setting_problems::SettingProblems;

/// Declares the enum [`Loss`] from lines `Variant(module::Settings)`. In pipeline files a loss has the
/// name of its module and the documentation of `Settings`.
macro_rules! losses {
    ($($variant:ident($module:ident::$settings:ident)),+ $(,)?) => {
        /// Loss function that a training minimises.
        #[derive(Debug, Clone, PartialEq, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "the settings of each are documented")]
        pub enum Loss {
            $($variant($module::$settings)),+
        }

        impl Loss {
            /// Name in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => stringify!($module)),+
                }
            }

            /// Settings of the loss.
            fn settings(&self) -> &dyn LossSettings {
                match self {
                    $(Self::$variant(loss) => loss),+
                }
            }
        }
    };
}

losses! {
    Sum(sum::SumLoss),
    Max(max::MaxLoss),
    KnnMargin(knn_margin::KnnMarginLoss),
    LocalScaling(local_scaling::LocalScalingLoss),
    Hal(hal::HalLoss),
    InfoNce(info_nce::InfoNceLoss),
    Sigmoid(sigmoid::SigmoidLoss),
}

impl Default for Loss {
    /// MAX, the loss of VSE++.
    fn default() -> Self {
        Self::Max(MaxLoss::default())
    }
}

impl LossSettings for Loss {
    fn problems(&self, batches: BatchSpec) -> SettingProblems {
        self.settings().problems(batches)
    }

    fn implausible(&self) -> SettingProblems {
        self.settings().implausible()
    }

    fn collapse_value(&self, pairs: usize) -> Option<f64> {
        self.settings().collapse_value(pairs)
    }

    fn is_triplet_loss(&self) -> bool {
        self.settings().is_triplet_loss()
    }

    fn uses_memory_bank(&self) -> bool {
        self.settings().uses_memory_bank()
    }

    fn learned_scalars(&self) -> Vec<LearnedScalar> {
        self.settings().learned_scalars()
    }
}
