//! Images of a data set: shards of features or regions, or encoded images for fine-tuning.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::location::{ImageLocations, RowLocation, image_locations};
use pairloom_base::error::{Error, Result};
use pairloom_loader::{AugmentedImages, LoaderImages, PixelFormat};
use pairloom_model::family::input_spec::{ImageInput, ImageShape};
use pairloom_spec::stages::train::Train;
use pairloom_stage::StageContext;
use pairloom_storage::table_shards::TableShards;
use pairloom_tables as tables;

/// Images of a data set.
pub(super) enum DataSetImages {
    /// Features or regions.
    Vectors(TableShards, ImageInput),
    /// Encoded images, the location of each by `image_id`, and the width of the network's features.
    Encoded(AugmentedImages, HashMap<i64, RowLocation>, usize),
}

impl DataSetImages {
    /// Opens the input `name`; `first` is true for the first data set, the only one that may be fine-tuned.
    ///
    /// # Errors
    /// The input cannot be read, or an image occurs twice.
    pub fn open(stage: &Train, name: &str, first: bool, cx: &mut StageContext<'_>) -> Result<Self> {
        let Some(settings) = stage.finetune.as_ref().filter(|_| first) else {
            return Ok(Self::Vectors(cx.shards(name)?, stage.image_input()));
        };
        let root = cx.path(name)?;
        let batches = cx.read_all(name)?;
        let mut locations = HashMap::new();
        for (shard, batch) in batches.iter().enumerate() {
            for (row, &image) in tables::int_column(batch, "image_id")?.values().iter().enumerate() {
                match locations.entry(image) {
                    Entry::Occupied(_) => {
                        return Err(Error::data(format!("image {image} appears twice in `{name}`, wanted once")));
                    }
                    Entry::Vacant(entry) => entry.insert(RowLocation { shard, row }),
                };
            }
        }
        let network = settings.network.architecture();
        let format = PixelFormat {
            side: settings.crop(),
            interpolation: network.input.interpolation,
            statistics: network.input.statistics,
        };
        let images = AugmentedImages::new(batches, root, format)?;
        Ok(Self::Encoded(images, locations, network.embedding_width))
    }

    /// Finds the images in `needed`.
    ///
    /// # Errors
    /// As [`image_locations`].
    pub fn locations(&self, needed: &BTreeSet<i64>, cx: &StageContext<'_>) -> Result<ImageLocations> {
        match self {
            Self::Vectors(shards, input) => image_locations(shards, *input, needed, cx),
            Self::Encoded(_, all, width) => {
                let found = all.iter().filter(|(image, _)| needed.contains(image));
                let of_images = found.map(|(&image, &place)| (image, place)).collect();
                Ok(ImageLocations { of_images, shape: ImageShape::feature(*width), without_region: Vec::new() })
            }
        }
    }

    /// Converts them to the images that a loader reads.
    pub fn into_loader_images(self) -> LoaderImages {
        match self {
            Self::Vectors(shards, input) => LoaderImages::Vectors { shards, column: input.column().to_owned() },
            Self::Encoded(images, ..) => LoaderImages::Pixels(images),
        }
    }
}
