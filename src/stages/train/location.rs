//! Locations of features: shard and row of every image that has a caption.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::io::table_shards::TableShards;
use crate::stage::StageContext;

/// Shard and row of a table row. The order is that of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RowLocation {
    pub shard: usize,
    pub row: usize,
}

/// Finds the features of the images in `needed`. Returns the location of each, and the width of the features.
///
/// Reads and checks every needed feature. Only one shard is open at a time, so a table larger than the cache can be
/// read.
///
/// # Errors
/// Two features of one image, features of width 0, or values that are not finite.
pub(super) fn feature_locations(
    shards: &TableShards,
    needed: &BTreeSet<i64>,
    cx: &StageContext<'_>,
) -> Result<(HashMap<i64, RowLocation>, usize)> {
    let mut locations = HashMap::new();
    let mut width = 0;
    for shard in 0..shards.len() {
        cx.check_cancelled()?;
        if shards.rows(shard) == 0 {
            continue;
        }
        shards.prefetch(shard + 1..shards.len().min(shard + 3));
        let open = shards.open(shard)?;
        let (images, features) = (open.ids("image_id")?, open.vectors("feature")?);
        width = features.width();
        if width == 0 {
            return Err(Error::data("feature vectors of width 0, wanted a width above 0"));
        }
        for row in 0..open.rows() {
            let image = images.value(row)?;
            if !needed.contains(&image) {
                continue;
            }
            if features.row(row)?.iter().any(|value| !value.is_finite()) {
                return Err(Error::data(format!("the feature of image {image} holds a value that is not finite")));
            }
            match locations.entry(image) {
                Entry::Occupied(_) => return Err(Error::data(format!("image {image} has two features, wanted one"))),
                Entry::Vacant(entry) => entry.insert(RowLocation { shard, row }),
            };
        }
        shards.release(shard);
    }
    Ok((locations, width))
}
