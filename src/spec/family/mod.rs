//! Settings of the model families, one file each, and the list of the families: one line each.

mod contract;
pub mod vse;
pub mod scan;
pub mod vsrn;
pub mod sgraf;
pub mod vse_infinity;
pub mod cvse;
pub mod late;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use contract::{BatchNormStatistics, Capabilities, FamilySettings, ScoreRange, WORD_VECTORS};

use crate::setting_problems::SettingProblems;

macro_rules! families {
    ($($(#[doc = $about:literal])* $(#[schemars($skip:ident)])? $name:ident($settings:ty) = $setting:literal);* $(;)?) => {
        /// Family of a model and its settings.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "Model")]
        pub enum ModelSettings {
            $($(#[doc = $about])* $(#[schemars($skip)])? #[serde(rename = $setting)]
            $name($settings)),*
        }

        /// Family of a published checkpoint, and settings that the checkpoint does not contain.
        #[derive(Debug, Clone, Deserialize, Serialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        #[schemars(rename = "PublishedModel")]
        pub enum PublishedModel {
            $($(#[doc = $about])* $(#[schemars($skip)])? #[serde(rename = $setting)]
            $name(<$settings as FamilySettings>::Published)),*
        }

        impl ModelSettings {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $setting),* }
            }

            /// Capabilities of models with these settings.
            #[must_use]
            pub fn capabilities(&self) -> Capabilities {
                match self { $(Self::$name(settings) => settings.capabilities()),* }
            }

            /// Checks the settings. Names of settings in the problems begin with the name of the family.
            #[must_use]
            pub fn problems(&self) -> SettingProblems {
                let found = match self { $(Self::$name(settings) => settings.problems()),* };
                found.into_iter().map(|(setting, message)| (format!("{}.{setting}", self.name()), message)).collect()
            }
        }

        impl PublishedModel {
            /// Name of the family in pipeline files.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self { $(Self::$name(_) => $setting),* }
            }

            /// Capabilities of a model of the family with default settings.
            #[must_use]
            pub fn default_capabilities(&self) -> Capabilities {
                match self { $(Self::$name(_) => <$settings>::default().capabilities()),* }
            }
        }
    };
}

families! {
    /// VSE++ and its relatives: a linear layer for images, words and a GRU for captions, one vector each (Faghri et
    /// al., BMVC 2018).
    Vse(vse::VseSettings) = "vse";
    /// SCAN: cross attention between the regions of an image and the words of a caption (Lee et al., ECCV 2018).
    Scan(scan::ScanSettings) = "scan";
    /// VSRN: graph convolutions and a GRU over regions, one vector each (Li et al., ICCV 2019).
    Vsrn(vsrn::VsrnSettings) = "vsrn";
    /// SGR and SAF: a graph of alignments of words and regions, or their filtration (Diao et al., AAAI 2021).
    Sgraf(sgraf::SgrafSettings) = "sgraf";
    /// CVSE: concepts that captions have in common, as a graph; one vector each (Wang et al., ECCV 2020).
    Cvse(cvse::CvseSettings) = "cvse";
    /// VSE∞: learned pooling of regions and of words, one vector each (Chen et al., CVPR 2021).
    VseInfinity(vse_infinity::VseInfinitySettings) = "vse_infinity";
    /// Late interaction, a family for tests: no pipeline file can name it, since the schema lacks it.
    #[schemars(skip)]
    Late(late::LateInteractionSettings) = "late";
}

impl Default for ModelSettings {
    fn default() -> Self {
        Self::Vse(vse::VseSettings::default())
    }
}

impl Default for PublishedModel {
    fn default() -> Self {
        Self::Vse(vse::PublishedVseSettings::default())
    }
}
