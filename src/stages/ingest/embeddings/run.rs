//! The work of `embeddings`: every row is looked at before the first one is written.

use std::path::Path;

use super::Embeddings;
use super::arrays::Arrays;
use super::rows::{Pass, Row};
use super::table_files::TableFiles;
use crate::error::{Error, Result};
use crate::io::npy::is_npy;
use crate::stage::Cx;

/// Reads the files twice: to find all mistakes, so that nothing is published of files that have any, and to write.
///
/// - Rows keep the order of their file. In npy files identifiers are rows, counted from 0.
/// - A caption is of the split of its image.
/// - Vectors become f32, and unit vectors where `normalize` says so; the length is computed in f64.
///
/// Memory: 4,096 rows and the identifiers.
pub(in super::super) fn run(set: &Embeddings, cx: &mut Cx<'_>) -> Result<()> {
    let (images, captions) = (cx.source("embeddings.images")?, cx.source("embeddings.captions")?);
    let image_of = set.image_of.is_some().then(|| cx.source("embeddings.image_of")).transpose()?;
    let files = Files::open(set, &images, &captions, image_of.as_deref())?;
    for write in [false, true] {
        let mut pass = Pass::new(&images, None, set.normalize, write);
        files.images(|row| pass.push(cx, row))?;
        let known = pass.finish(cx)?;
        let mut pass = Pass::new(&captions, Some(&known), set.normalize, write);
        files.captions(|row| pass.push(cx, row))?;
        pass.finish(cx)?;
    }
    Ok(())
}

/// The files of either form.
enum Files<'s> {
    Arrays(Arrays<'s>),
    Tables(TableFiles<'s>),
}

impl<'s> Files<'s> {
    fn open(set: &'s Embeddings, images: &Path, captions: &Path, image_of: Option<&Path>) -> Result<Self> {
        match (is_npy(images)?, is_npy(captions)?) {
            (true, true) if set.columns.is_some() => Err(Error::usage(format!(
                "`embeddings.columns` names columns, and `{}` is an npy file, which has none",
                images.display()
            ))),
            (true, true) => Ok(Self::Arrays(Arrays::open(set, images, captions, image_of)?)),
            (false, false) => {
                let tables = TableFiles::open(set, images, captions)?;
                let setting = if set.image_of.is_some() { "image_of" } else { "captions_per_image" };
                if set.image_of.is_some() || set.captions_per_image.is_some() {
                    let message = format!(
                        "`embeddings.{setting}` is for npy files, and `{}` is none: its rows say which image they describe",
                        captions.display()
                    );
                    return Err(Error::usage(message).hint(format!("leave out `{setting}`")));
                }
                Ok(Self::Tables(tables))
            }
            (true, false) => Err(mixed(images, captions)),
            (false, true) => Err(mixed(captions, images)),
        }
    }

    fn images(&self, act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.images(act),
            Self::Tables(files) => files.images(act),
        }
    }

    fn captions(&self, act: impl FnMut(Row<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.captions(act),
            Self::Tables(files) => files.captions(act),
        }
    }
}

fn mixed(array: &Path, other: &Path) -> Error {
    let (array, other) = (array.display(), other.display());
    Error::data(format!("`{array}` is an npy file and `{other}` is none, wanted two of one form"))
}
