//! List of the model families: one line each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract::{Capabilities, Family, PublishedCheckpoint};
use super::differentiable::AutogradConfig;
use super::input_spec::InputSpec;
use super::model::Model;
use super::parameters::{ParameterSpec, Parameters};
use super::{cvse, scan, sgraf, vse, vse_infinity, vsrn};
use crate::error::Result;
use crate::model::setting_problems::SettingProblems;

macro_rules! families {
    ($($(#[doc = $about:literal])* $(#[cfg($when:meta)])? $name:ident($family:ty) = $setting:literal, $file:literal);* $(;)?) => {
        /// Family of a model and its settings.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "Model")]
        pub enum ModelSettings {
            $($(#[doc = $about])* $(#[cfg($when)] #[schemars(skip)])? #[serde(rename = $setting)]
            $name(<$family as Family>::Settings)),*
        }

        /// Family of a published checkpoint, and settings that the checkpoint does not contain.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "PublishedModel")]
        pub enum PublishedModel {
            $($(#[doc = $about])* $(#[cfg($when)] #[schemars(skip)])? #[serde(rename = $setting)]
            $name(<$family as Family>::Published)),*
        }

        /// Description of a model without its parameters, as in `model.json`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "form")]
        pub enum ModelConfig {
            $($(#[doc = $about])* $(#[cfg($when)])? #[serde(rename = $file)] $name($family)),*
        }

        impl ModelSettings {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($(#[cfg($when)])? Self::$name(_) => $setting),* }
            }

            /// Capabilities of models with these settings.
            #[must_use]
            pub fn capabilities(&self) -> Capabilities {
                match self { $($(#[cfg($when)])? Self::$name(settings) => <$family>::capabilities(settings)),* }
            }

            /// Checks the settings. Names of settings in the problems begin with the name of the family.
            #[must_use]
            pub fn problems(&self) -> SettingProblems {
                let found = match self { $($(#[cfg($when)])? Self::$name(settings) => <$family>::problems(settings)),* };
                found.into_iter().map(|(setting, message)| (format!("{}.{setting}", self.name()), message)).collect()
            }

            /// Description of the model with these settings, for this data.
            #[must_use]
            pub fn config(&self, input_spec: InputSpec) -> ModelConfig {
                match self {
                    $($(#[cfg($when)])? Self::$name(settings) => {
                        ModelConfig::$name(<$family>::from_settings(settings, input_spec))
                    }),*
                }
            }
        }

        impl ModelConfig {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($(#[cfg($when)])? Self::$name(_) => $setting),* }
            }

            /// Description of the data that the model is for.
            #[must_use]
            pub fn input_spec(&self) -> &InputSpec {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.input_spec()),* }
            }

            pub(super) fn input_spec_mut(&mut self) -> &mut InputSpec {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.input_spec_mut()),* }
            }

            pub(super) fn parameter_specs(&self) -> Result<Vec<ParameterSpec>> {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.parameter_specs()),* }
            }

            pub(super) fn build(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.build(parameters)),* }
            }
        }

        impl PublishedModel {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($(#[cfg($when)])? Self::$name(_) => $setting),* }
            }

            /// Capabilities of a model of the family with default settings.
            #[must_use]
            pub fn default_capabilities(&self) -> Capabilities {
                match self {
                    $($(#[cfg($when)])? Self::$name(_) => {
                        <$family>::capabilities(&<$family as Family>::Settings::default())
                    }),*
                }
            }

            /// Reads a published checkpoint, whose vocabulary has `words` words.
            ///
            /// # Errors
            /// Bytes that are not such a checkpoint, with all mistakes in one message.
            pub fn read(&self, checkpoint: &[u8], words: usize) -> Result<PublishedCheckpoint<ModelConfig>> {
                match self { $($(#[cfg($when)])? Self::$name(settings) => {
                    let PublishedCheckpoint { config, parameters, warning } = <$family>::read_published(settings, checkpoint, words)?;
                    Ok(PublishedCheckpoint { config: ModelConfig::$name(config), parameters, warning })
                }),* }
            }
        }
    };
}

families! {
    /// VSE++ and its relatives: a linear layer for images, words and a GRU for captions, one vector each (Faghri et
    /// al., BMVC 2018).
    Vse(vse::config::VseConfig) = "vse", "vse++";
    /// SCAN: cross attention between the regions of an image and the words of a caption (Lee et al., ECCV 2018).
    Scan(AutogradConfig<scan::settings::ScanSettings>) = "scan", "scan";
    /// VSRN: graph convolutions and a GRU over regions, one vector each (Li et al., ICCV 2019).
    Vsrn(AutogradConfig<vsrn::settings::VsrnSettings>) = "vsrn", "vsrn";
    /// SGR and SAF: a graph of alignments of words and regions, or their filtration (Diao et al., AAAI 2021).
    Sgraf(AutogradConfig<sgraf::settings::SgrafSettings>) = "sgraf", "sgraf";
    /// CVSE: concepts that captions have in common, as a graph; one vector each (Wang et al., ECCV 2020).
    Cvse(AutogradConfig<cvse::settings::CvseSettings>) = "cvse", "cvse";
    /// VSE∞: learned pooling of regions and of words, one vector each (Chen et al., CVPR 2021).
    VseInfinity(AutogradConfig<vse_infinity::settings::VseInfinitySettings>) = "vse_infinity", "vse_infinity";
    /// Late interaction, a family for tests.
    #[cfg(test)]
    Late(AutogradConfig<super::testing::LateInteractionSettings>) = "late", "late";
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self::Vse(vse::settings::VseSettings::default())
    }
}

impl Default for PublishedModel {
    fn default() -> Self {
        Self::Vse(vse::published::PublishedVseSettings::default())
    }
}
