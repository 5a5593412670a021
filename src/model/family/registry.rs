//! List of the model families that can be computed, one line each, and creation of their models.

use serde::{Deserialize, Serialize};
use tch::{Device, Tensor};

use super::autograd::AutogradConfig;
use super::model::{Family, Model, PublishedCheckpoint};
use super::parameters::{ParameterSpec, Parameters};
use super::vse;
use crate::safetensors_file::NamedTensors;
use pairloom_base::error::Result;
use pairloom_spec::input_spec::InputSpec;

use pairloom_spec::family::{self as spec, ModelSettings, PublishedModel};

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
    Vse(vse::VseConfig) = "vse", "vse++";
    Scan(AutogradConfig<spec::scan::ScanSettings>) = "scan", "scan";
    Vsrn(AutogradConfig<spec::vsrn::VsrnSettings>) = "vsrn", "vsrn";
    Sgraf(AutogradConfig<spec::sgraf::SgrafSettings>) = "sgraf", "sgraf";
    Cvse(AutogradConfig<spec::cvse::CvseSettings>) = "cvse", "cvse";
    VseInfinity(AutogradConfig<spec::vse_infinity::VseInfinitySettings>) = "vse_infinity", "vse_infinity";
    Late(AutogradConfig<spec::late::LateInteractionSettings>) = "late", "late";
}

impl ModelConfig {
    /// Creates a model with random parameters, which depend on `self` and `seed` only.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn create(&self, seed: u64, device: Device) -> Result<Box<dyn Model>> {
        self.build(Parameters::random(self.parameter_specs()?, self.input_spec(), seed, device)?)
    }

    /// Builds the model with these parameters: its own, in the order of their specifications, then those of its CNN.
    ///
    /// # Errors
    /// A wrong number of parameters, or shapes that do not fit.
    pub fn with_parameters(&self, parameters: Vec<Tensor>) -> Result<Box<dyn Model>> {
        self.build(Parameters::new(self.parameter_specs()?, self.input_spec(), parameters)?)
    }

    /// Builds the model with the parameters of `named`, whose names begin with `prefix`.
    ///
    /// # Errors
    /// As [`ModelConfig::with_parameters`], or a parameter is missing.
    pub fn load(&self, named: &mut NamedTensors, prefix: &str, device: Device) -> Result<Box<dyn Model>> {
        self.build(Parameters::from_named_tensors(self.parameter_specs()?, self.input_spec(), named, prefix, device)?)
    }

    /// Returns the description with a vocabulary of `words` words.
    #[must_use]
    pub fn with_vocabulary_size(mut self, words: usize) -> Self {
        self.input_spec_mut().words = words;
        self
    }

    /// Returns the description of the same model on the features of its CNN in place of raw images. Unchanged without a
    /// CNN.
    #[must_use]
    pub fn without_network(mut self) -> Self {
        self.input_spec_mut().pictures = None;
        self
    }
}
