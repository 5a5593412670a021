//! Image networks as plain data, with the names, shapes and order of torchvision, timm and `open_clip`.
//!
//! [`Network`] lists them. An [`Architecture`] is the layers of one; the specifications of its parameters and the input
//! that it takes follow from it. `model` computes it.

mod architecture;
mod clip;
mod inception_resnet_v2;
mod mobilenet_v2;
mod resnet;
mod squeezenet;
mod vgg;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use architecture::{
    Architecture, Convolution, FilePart, Layer, LayerOutput, NetworkInit, NetworkInput, NetworkParameterSpec,
    TextTower, parameter_name,
};
pub use clip::ClipSizes;

/// Declares the networks: variant, name in pipeline files, and the function that returns the architecture.
macro_rules! networks {
    ($($variant:ident = $name:literal => $architecture:expr,)*) => {
        /// Image network of torchvision, timm or `open_clip`.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
        #[expect(missing_docs, reason = "the names are those of the published code")]
        pub enum Network {
            $(#[serde(rename = $name)] $variant,)*
        }

        impl Network {
            /// All networks, each with its name in pipeline files.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$variant, $name),)*];

            /// Architecture of the network.
            #[must_use]
            pub fn architecture(self) -> Architecture {
                match self {
                    $(Self::$variant => $architecture(),)*
                }
            }
        }
    };
}

networks! {
    SqueezeNet1_0 = "squeezenet1_0" => squeezenet::squeezenet1_0,
    SqueezeNet1_1 = "squeezenet1_1" => squeezenet::squeezenet1_1,
    MobileNetV2 = "mobilenet_v2" => mobilenet_v2::mobilenet_v2,
    Vgg16 = "vgg16" => vgg::vgg16,
    Vgg19 = "vgg19" => vgg::vgg19,
    ResNet18 = "resnet18" => resnet::resnet18,
    ResNet34 = "resnet34" => resnet::resnet34,
    ResNet50 = "resnet50" => resnet::resnet50,
    ResNet101 = "resnet101" => resnet::resnet101,
    ResNet152 = "resnet152" => resnet::resnet152,
    ResNeXt50Of4 = "resnext50_32x4d" => resnet::resnext50_32x4d,
    ResNeXt101Of8 = "resnext101_32x8d" => resnet::resnext101_32x8d,
    ResNeXt101Of16 = "resnext101_32x16d" => resnet::resnext101_32x16d,
    ResNeXt101Of32 = "resnext101_32x32d" => resnet::resnext101_32x32d,
    ResNeXt101Of48 = "resnext101_32x48d" => resnet::resnext101_32x48d,
    InceptionResNetV2 = "inception_resnet_v2" => inception_resnet_v2::inception_resnet_v2,
    ClipViTB32 = "ViT-B-32" => clip::vit_b_32,
    ClipViTB32Quick = "ViT-B-32-quickgelu" => clip::vit_b_32_quickgelu,
    ClipViTB16 = "ViT-B-16" => clip::vit_b_16,
    ClipViTB16Quick = "ViT-B-16-quickgelu" => clip::vit_b_16_quickgelu,
    ClipViTL14 = "ViT-L-14" => clip::vit_l_14,
    ClipViTL14Quick = "ViT-L-14-quickgelu" => clip::vit_l_14_quickgelu,
}

impl Network {
    /// Name in pipeline files.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(network, _)| *network == self).map_or("", |(_, name)| name)
    }

    /// Name of the network that has exactly these parameters, given as names with shapes, beside those that it does not
    /// need; `None` if there is no such network. Of networks with the same parameters, the first.
    #[must_use]
    pub fn recognize(parameters: &BTreeMap<String, Vec<usize>>) -> Option<&'static str> {
        let matches = |network: Self| {
            let architecture = network.architecture();
            let expected = architecture.parameters();
            let needed = parameters.keys().filter(|name| !architecture.file_part.is_unneeded(name));
            expected.len() == needed.count()
                && expected.iter().all(|expected| parameters.get(&expected.name) == Some(&expected.shape))
        };
        Self::ALL.iter().find(|(network, _)| matches(*network)).map(|(_, name)| *name)
    }

    /// Architecture without the head: images to features.
    #[must_use]
    pub fn backbone(self) -> Architecture {
        self.architecture().without_head()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_recognized_by_its_parameters_alone() {
        for &(network, name) in Network::ALL {
            assert_eq!(serde_json::to_value(network).unwrap(), name);
            let parameters = network.architecture().parameters().into_iter();
            let mut parameters: BTreeMap<_, _> = parameters.map(|one| (one.name, one.shape)).collect();
            // The activation has no parameters.
            assert_eq!(Network::recognize(&parameters), Some(name.trim_end_matches("-quickgelu")));
            let (first, _) = parameters.pop_first().unwrap();
            assert_eq!(Network::recognize(&parameters), None);
            parameters.insert(first, vec![1]);
            assert_eq!(Network::recognize(&parameters), None);
        }
    }

    #[test]
    fn a_network_ends_at_a_named_layer() {
        let whole = Network::Vgg16.architecture();
        let fc6 = whole.up_to("classifier.1").expect("a layer");
        assert_eq!((fc6.embedding_width, fc6.head.len(), fc6.backbone == whole.backbone), (4096, 0, true));
        let maps = whole.up_to("features.9").expect("a layer");
        assert_eq!((maps.width, maps.embedding_width, maps.embedding.len()), (128, 128, 0));
        assert_eq!(whole.up_to("features.8"), None);
        for &(network, name) in Network::ALL {
            let architecture = network.architecture();
            assert!(architecture.named_layers().len() > 3 || !architecture.has_maps(), "{name}");
        }
    }
}
