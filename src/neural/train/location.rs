//! Locations of images: shard and row of every image that has a caption.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use pairloom_base::error::{Error, Result};
use pairloom_model::family::input_spec::{ImageInput, ImageShape};
use pairloom_stage::StageContext;
use pairloom_storage::table_shards::TableShards;
use pairloom_tables::vector_limits::check_image_vector;

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
            return Err(Error::data(format!("images with {}, wanted numbers above 0", found.shape)));
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
        ImageInput::Features => format!("image {image} has two features, wanted one"),
        ImageInput::Regions => format!("image {image} has two rows of regions, wanted one"),
    })
}
