//! List of the CNNs, by torchvision's names.

use std::collections::BTreeMap;

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
    /// All CNNs, each with its name in pipeline files.
    pub const ALL: [(Self, &str); 6] = [
        (Self::SqueezeNet1_0, "squeezenet1_0"),
        (Self::ResNet18, "resnet18"),
        (Self::ResNet34, "resnet34"),
        (Self::ResNet50, "resnet50"),
        (Self::ResNet101, "resnet101"),
        (Self::ResNet152, "resnet152"),
    ];

    /// Name of the CNN that has exactly these parameters, given as names with shapes; `None` if there is no such CNN.
    #[must_use]
    pub fn recognize(parameters: &BTreeMap<String, Vec<usize>>) -> Option<&'static str> {
        let matches = |network: Self| {
            let wanted = network.architecture().parameters();
            wanted.len() == parameters.len()
                && wanted.iter().all(|wanted| parameters.get(&wanted.name) == Some(&wanted.shape))
        };
        Self::ALL.into_iter().find(|(network, _)| matches(*network)).map(|(_, name)| name)
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cnn_is_recognized_by_its_parameters_alone() {
        for (network, name) in Network::ALL {
            assert_eq!(serde_json::to_value(network).unwrap(), name);
            let parameters = network.architecture().parameters().into_iter();
            let mut parameters: BTreeMap<_, _> = parameters.map(|one| (one.name, one.shape)).collect();
            assert_eq!(Network::recognize(&parameters), Some(name));
            let (first, _) = parameters.pop_first().unwrap();
            assert_eq!(Network::recognize(&parameters), None);
            parameters.insert(first, vec![1]);
            assert_eq!(Network::recognize(&parameters), None);
        }
    }
}
