//! The families there are: one line each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::contract::{Capabilities, Checkpoint, Family, Problems};
use super::data::Data;
use super::model::Model;
use super::parameters::{Parameter, Parameters};
use super::vse;
use crate::error::Result;

macro_rules! families {
    ($($(#[doc = $about:literal])* $(#[cfg($when:meta)])? $name:ident($family:ty) = $setting:literal, $file:literal);* $(;)?) => {
        /// The family of a model and its settings.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "Model")]
        pub enum Settings {
            $($(#[doc = $about])* $(#[cfg($when)] #[schemars(skip)])? #[serde(rename = $setting)]
            $name(<$family as Family>::Settings)),*
        }

        /// The family of a published checkpoint, and what the checkpoint does not say itself.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "PublishedModel")]
        pub enum Published {
            $($(#[doc = $about])* $(#[cfg($when)] #[schemars(skip)])? #[serde(rename = $setting)]
            $name(<$family as Family>::Published)),*
        }

        /// Description of a model, as it stands in `model.json`.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "form")]
        pub enum Config {
            $($(#[doc = $about])* $(#[cfg($when)])? #[serde(rename = $file)] $name($family)),*
        }

        impl Settings {
            /// Its name in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $($(#[cfg($when)])? Self::$name(_) => $setting),* }
            }

            /// Capabilities of models with these settings.
            #[must_use]
            pub fn capabilities(&self) -> Capabilities {
                match self { $($(#[cfg($when)])? Self::$name(settings) => <$family>::capabilities(settings)),* }
            }

            /// Problems of the settings, under the name of the family.
            #[must_use]
            pub fn problems(&self) -> Problems {
                let found = match self { $($(#[cfg($when)])? Self::$name(settings) => <$family>::problems(settings)),* };
                found.into_iter().map(|(setting, message)| (format!("{}.{setting}", self.name()), message)).collect()
            }

            /// The model of these settings for this data.
            #[must_use]
            pub fn config(&self, data: Data) -> Config {
                match self { $($(#[cfg($when)])? Self::$name(settings) => Config::$name(<$family>::of(settings, data))),* }
            }
        }

        impl Config {
            /// The data that the model is for.
            #[must_use]
            pub fn data(&self) -> &Data {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.data()),* }
            }

            pub(super) fn data_mut(&mut self) -> &mut Data {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.data_mut()),* }
            }

            pub(super) fn parameters(&self) -> Result<Vec<Parameter>> {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.parameters()),* }
            }

            pub(super) fn model(&self, parameters: Parameters) -> Result<Box<dyn Model>> {
                match self { $($(#[cfg($when)])? Self::$name(family) => family.model(parameters)),* }
            }
        }

        impl Published {
            /// The model in a published checkpoint, whose vocabulary has `words` words.
            ///
            /// # Errors
            /// Bytes that are no such checkpoint, with all that is wrong in one message.
            pub fn read(&self, checkpoint: &[u8], words: usize) -> Result<Checkpoint<Config>> {
                match self { $($(#[cfg($when)])? Self::$name(settings) => {
                    let Checkpoint { config, parameters, warning } = <$family>::published(settings, checkpoint, words)?;
                    Ok(Checkpoint { config: Config::$name(config), parameters, warning })
                }),* }
            }
        }
    };
}

families! {
    /// VSE++ and its relatives: a linear layer for images, words and a GRU for captions, one vector each (Faghri et al.,
    /// BMVC 2018).
    Vse(vse::config::Config) = "vse", "vse++";
    /// A family for tests.
    #[cfg(test)]
    Late(super::late::Config) = "late", "late";
}

impl Default for Settings {
    fn default() -> Self {
        Self::Vse(vse::settings::Settings::default())
    }
}

impl Default for Published {
    fn default() -> Self {
        Self::Vse(vse::published::PublishedSettings::default())
    }
}
