//! What a data set has of its images: features as shards, or pictures.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use super::Train;
use super::place::{Place, places};
use crate::error::{Error, Result};
use crate::io::shards::Shards;
use crate::loader::{AugmentedPictures, Images};
use crate::stage::Cx;
use crate::tables;

/// The images of a data set.
pub(super) enum Source {
    /// Feature vectors.
    Features(Shards),
    /// Pictures, where they lie, and how many values the network makes of one.
    Pictures(AugmentedPictures, HashMap<i64, Place>, usize),
}

impl Source {
    /// The images of the input `name`; `first` where it is that of the first data set.
    ///
    /// # Errors
    /// The input cannot be read; a picture twice.
    pub fn open(stage: &Train, name: &str, first: bool, cx: &mut Cx<'_>) -> Result<Self> {
        let Some(settings) = stage.pictures.as_ref().filter(|_| first) else {
            return Ok(Self::Features(cx.shards(name)?));
        };
        let root = cx.path(name)?;
        let batches = cx.read_all(name)?;
        let mut places = HashMap::new();
        for (shard, batch) in batches.iter().enumerate() {
            for (row, &image) in tables::ids(batch, "image_id")?.values().iter().enumerate() {
                match places.entry(image) {
                    Entry::Occupied(_) => {
                        return Err(Error::data(format!("image {image} has two pictures in `{name}`, wanted one")));
                    }
                    Entry::Vacant(entry) => entry.insert(Place { shard, row }),
                };
            }
        }
        let pictures = AugmentedPictures::new(batches, root, settings.side)?;
        Ok(Self::Pictures(pictures, places, settings.network.architecture().width))
    }

    /// The places of the images in `needed`, and the width of their features.
    ///
    /// # Errors
    /// As [`places`].
    pub fn places(&self, needed: &BTreeSet<i64>, cx: &Cx<'_>) -> Result<(HashMap<i64, Place>, usize)> {
        match self {
            Self::Features(shards) => places(shards, needed, cx),
            Self::Pictures(_, all, width) => {
                let found = all.iter().filter(|(image, _)| needed.contains(image));
                Ok((found.map(|(&image, &place)| (image, place)).collect(), *width))
            }
        }
    }

    /// For a loader.
    pub fn images(self) -> Images {
        match self {
            Self::Features(shards) => Images::Vectors { shards, column: "feature".to_owned() },
            Self::Pictures(pictures, ..) => Images::Pictures(pictures),
        }
    }
}
