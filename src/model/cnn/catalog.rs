//! List of the CNNs, by torchvision's names.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::architecture::Architecture;
use super::{resnet18, resnet34, resnet50, resnet101, resnet152, squeezenet1_0};

/// CNN of torchvision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "the names are torchvision's")]
pub enum Network {
    #[serde(rename = "squeezenet1_0")]
    SqueezeNet1_0,
    ResNet18,
    ResNet34,
    ResNet50,
    ResNet101,
    ResNet152,
}

impl Network {
    /// Architecture of the CNN.
    #[must_use]
    pub fn architecture(self) -> Architecture {
        match self {
            Self::SqueezeNet1_0 => squeezenet1_0(),
            Self::ResNet18 => resnet18(),
            Self::ResNet34 => resnet34(),
            Self::ResNet50 => resnet50(),
            Self::ResNet101 => resnet101(),
            Self::ResNet152 => resnet152(),
        }
    }

    /// Architecture without the head: images to feature maps.
    #[must_use]
    pub fn backbone(self) -> Architecture {
        Architecture { head: Vec::new(), classes: 0, ..self.architecture() }
    }
}
