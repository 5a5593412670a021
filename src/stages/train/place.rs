//! Where the images of a data set lie: the shard and the row of each that a caption needs.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use crate::error::{Error, Result};
use crate::io::shards::Shards;
use crate::stage::Cx;

/// A row of a shard. In the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub shard: usize,
    pub row: usize,
}

/// The places of the images in `needed`, and the width of the features. Every feature that is needed is looked at; shards
/// are opened one after the other, so that only those that the cache holds are held.
///
/// # Errors
/// Features twice of one image, of different widths or with values that are not finite.
pub(super) fn places(shards: &Shards, needed: &BTreeSet<i64>, cx: &Cx<'_>) -> Result<(HashMap<i64, Place>, usize)> {
    let mut places = HashMap::new();
    let mut width = 0;
    for shard in 0..shards.len() {
        cx.proceed()?;
        if shards.rows(shard) == 0 {
            continue;
        }
        shards.ahead(shard + 1..shards.len().min(shard + 3));
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
            match places.entry(image) {
                Entry::Occupied(_) => return Err(Error::data(format!("image {image} has two features, wanted one"))),
                Entry::Vacant(entry) => entry.insert(Place { shard, row }),
            };
        }
        shards.release(shard);
    }
    Ok((places, width))
}
