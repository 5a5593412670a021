//! Images of a data set: shards of features or regions, or encoded images for fine-tuning, and the shard and row of each
//! image that has a caption.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use pairloom_base::error::{Error, Result};
use pairloom_loader::{AugmentedImages, LoaderImages, PixelFormat};
use pairloom_spec::input_spec::{ImageInput, ImageShape};
use pairloom_spec::stages::train::Train;
use pairloom_stage::StageContext;
use pairloom_storage::table_shards::TableShards;
use pairloom_tables as tables;
use pairloom_tables::halves::check_image_vector;

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
                        return Err(Error::data(format!("image {image} appears twice in `{name}`, expected once")));
                    }
                    Entry::Vacant(entry) => entry.insert(RowLocation { shard, row }),
                };
            }
        }
        let network = settings.network.architecture();
        let format = PixelFormat {
            side: settings.crop(),
            resize: settings.resize(),
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

/// Shard and row of a table row. The order is that of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowLocation {
    pub shard: usize,
    pub row: usize,
}

/// Images of a table.
#[derive(Debug, Default)]
pub(super) struct ImageLocations {
    /// Location of each needed image.
    pub of_images: HashMap<i64, RowLocation>,
    /// Shape of an image.
    pub shape: ImageShape,
    /// Images that are not needed and have no region, so that no model can score them.
    pub without_region: Vec<i64>,
}

/// Finds the features or regions of the images in `needed`.
///
/// Reads and checks every needed image. Only one shard is open at a time, so a table larger than the cache can be
/// read.
///
/// # Errors
/// Two rows of one image, vectors of width 0, values that are not finite or too large, or an image without a region.
pub(super) fn image_locations(
    shards: &TableShards,
    input: ImageInput,
    needed: &BTreeSet<i64>,
    cx: &StageContext<'_>,
) -> Result<ImageLocations> {
    let mut found = ImageLocations { shape: ImageShape::feature(0), ..ImageLocations::default() };
    for shard in 0..shards.len() {
        cx.check_cancelled()?;
        if shards.rows(shard) == 0 {
            continue;
        }
        shards.prefetch(shard + 1..shards.len().min(shard + 3));
        let open = shards.open(shard)?;
        let (images, features) = (open.ids("image_id")?, open.vectors(input.column())?);
        found.shape = match *features.shape() {
            [width] => ImageShape::feature(width),
            [regions, width] => ImageShape { regions: Some(regions), width },
            _ => return Err(Error::internal("vectors of another number of dimensions")),
        };
        if found.shape.values() == 0 {
            return Err(Error::data(format!("images with {}, expected numbers above 0", found.shape)));
        }
        for row in 0..open.rows() {
            let image = images.value(row)?;
            let values = features.row(row)?;
            let has_no_region = input == ImageInput::Regions && values.iter().all(|value| *value == 0.0);
            if !needed.contains(&image) {
                found.without_region.extend(has_no_region.then_some(image));
                continue;
            }
            if has_no_region {
                return Err(Error::data(format!("image {image} has no region: all its values are 0")));
            }
            check_image_vector(image, values)?;
            match found.of_images.entry(image) {
                Entry::Occupied(_) => return Err(two_rows(image, input)),
                Entry::Vacant(entry) => entry.insert(RowLocation { shard, row }),
            };
        }
        shards.release(shard);
    }
    Ok(found)
}

fn two_rows(image: i64, input: ImageInput) -> Error {
    Error::data(match input {
        ImageInput::Features => format!("image {image} has two features, expected one"),
        ImageInput::Regions => format!("image {image} has two rows of regions, expected one"),
    })
}
