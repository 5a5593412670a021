//! List of the model families that can be computed: one line each.

use serde::{Deserialize, Serialize};

use super::contract::{Family, PublishedCheckpoint};
use super::differentiable::AutogradConfig;
use super::model::Model;
use super::parameters::{ParameterSpec, Parameters};
use super::{cvse, scan, sgraf, vse, vse_infinity, vsrn};
use pairloom_base::error::Result;
pub use pairloom_spec::family::{ModelSettings, PublishedModel};
use pairloom_spec::input_spec::InputSpec;

/// Description of the model with settings from a pipeline file.
pub trait DescribeModel {
    /// Description of the model with these settings, for this data.
    #[must_use]
    fn config(&self, input_spec: InputSpec) -> ModelConfig;
}

/// Reading of a published checkpoint with settings from a pipeline file.
pub trait ReadPublished {
    /// Reads a published checkpoint, whose vocabulary has `words` words.
    ///
    /// # Errors
    /// Bytes that are not such a checkpoint, with all mistakes in one message.
    fn read(&self, checkpoint: &[u8], words: usize) -> Result<PublishedCheckpoint<ModelConfig>>;
}

macro_rules! families {
    ($($name:ident($family:ty) = $setting:literal, $file:literal);* $(;)?) => {
        /// Description of a model without its parameters, as in `model.json`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "form")]
        #[expect(missing_docs, reason = "the settings of each are documented")]
        pub enum ModelConfig {
            $(#[serde(rename = $file)] $name($family)),*
        }

        impl DescribeModel for ModelSettings {
            fn config(&self, input_spec: InputSpec) -> ModelConfig {
                match self {
                    $(Self::$name(settings) => {
                        ModelConfig::$name(<$family>::from_settings(settings, input_spec))
                    }),*
                }
            }
        }

        impl ModelConfig {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $setting),* }
            }

            /// Description of the data that the model is for.
            #[must_use]
            pub fn input_spec(&self) -> &InputSpec {
                match self { $(Self::$name(family) => family.input_spec()),* }
            }

            pub(super) fn input_spec_mut(&mut self) -> &mut InputSpec {
                match self { $(Self::$name(family) => family.input_spec_mut()),* }
            }

            pub(super) fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
                match self { $(Self::$name(family) => family.parameter_specs()),* }
            }

            pub(super) fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
                match self { $(Self::$name(family) => family.build(parameters)),* }
            }
        }

        impl ReadPublished for PublishedModel {
            fn read(&self, checkpoint: &[u8], words: usize) -> Result<PublishedCheckpoint<ModelConfig>> {
                match self { $(Self::$name(settings) => {
                    let PublishedCheckpoint { config, parameters, warning } = <$family>::read_published(settings, checkpoint, words)?;
                    Ok(PublishedCheckpoint { config: ModelConfig::$name(config), parameters, warning })
                }),* }
            }
        }
    };
}

families! {
    Vse(vse::config::VseConfig) = "vse", "vse++";
    Scan(AutogradConfig<scan::settings::ScanSettings>) = "scan", "scan";
    Vsrn(AutogradConfig<vsrn::settings::VsrnSettings>) = "vsrn", "vsrn";
    Sgraf(AutogradConfig<sgraf::settings::SgrafSettings>) = "sgraf", "sgraf";
    Cvse(AutogradConfig<cvse::settings::CvseSettings>) = "cvse", "cvse";
    VseInfinity(AutogradConfig<vse_infinity::settings::VseInfinitySettings>) = "vse_infinity", "vse_infinity";
    Late(AutogradConfig<super::late::LateInteractionSettings>) = "late", "late";
}
