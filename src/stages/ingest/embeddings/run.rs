//! Reading of embedding files: all rows are checked before the first one is written.

use std::path::Path;

use super::PrecomputedEmbeddings;
use super::embedding_pass::{EmbeddingPass, EmbeddingRow};
use super::npy_files::NpyFiles;
use super::table_files::TableFiles;
use pairloom_base::error::{Error, Result};
use pairloom_formats::npy::is_npy;
use pairloom_formats::table_file::TableFile;
use pairloom_stage::StageContext;

/// Reads the files twice: first to find all mistakes, then to write. So nothing is published of files with mistakes.
///
/// - Rows keep the order of their file. The identifiers of npy files are row numbers, from 0, or those of a list.
/// - A caption has the split of its image.
/// - Vectors are converted to f32, and scaled to unit length if `normalize` is set; the length is computed in f64.
///
/// Memory: 4,096 rows, and all identifiers.
pub(in super::super) fn run(settings: &PrecomputedEmbeddings, cx: &mut StageContext<'_>) -> Result<()> {
    let (images, captions) = (cx.source("embeddings.images")?, cx.source("embeddings.captions")?);
    let files = EmbeddingFiles::open(settings, &images, &captions, cx)?;
    for write in [false, true] {
        let mut pass = EmbeddingPass::new(&images, None, settings.normalize, write);
        files.images(|row| pass.push(cx, row))?;
        let known = pass.finish(cx)?;
        let mut pass = EmbeddingPass::new(&captions, Some(&known), settings.normalize, write);
        files.captions(|row| pass.push(cx, row))?;
        pass.finish(cx)?;
    }
    Ok(())
}

/// Embedding files of either format.
enum EmbeddingFiles<'s> {
    Arrays(NpyFiles<'s>),
    Tables(TableFiles<'s>),
}

impl<'s> EmbeddingFiles<'s> {
    fn open(
        settings: &'s PrecomputedEmbeddings,
        images: &Path,
        captions: &Path,
        cx: &StageContext<'_>,
    ) -> Result<Self> {
        match (is_npy(images)?, is_npy(captions)?) {
            (true, true) if settings.columns.is_some() => Err(Error::usage(format!(
                "`embeddings.columns` names columns, and `{}` is an npy file, which has none",
                images.display()
            ))),
            (true, true) => Ok(Self::Arrays(NpyFiles::open(settings, images, captions, cx)?)),
            (false, false) => {
                let is_named_npy = |path: &&Path| path.extension().is_some_and(|extension| extension == "npy");
                if let Some(path) = [images, captions].into_iter().find(is_named_npy) {
                    let message = format!("`{}` is not an npy file: it does not begin as one", path.display());
                    return Err(Error::data(message).hint("`numpy.save` writes npy files"));
                }
                let tables = TableFiles::open(settings, images, captions, cx.cancel().clone())?;
                if let Some(setting) = settings.npy_settings().next() {
                    let message = format!(
                        "`embeddings.{setting}` is for npy files, and `{}` is not one: it has columns for identifiers",
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

    fn images(&self, visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.images(visit),
            Self::Tables(files) => files.images(visit),
        }
    }

    fn captions(&self, visit: impl FnMut(EmbeddingRow<'_>) -> Result<()>) -> Result<()> {
        match self {
            Self::Arrays(files) => files.captions(visit),
            Self::Tables(files) => files.captions(visit),
        }
    }
}

fn mixed(array: &Path, other: &Path) -> Error {
    // A file of no known format, such as an empty one, is the mistake itself.
    let Err(error) = TableFile::open(other) else {
        let (array, other) = (array.display(), other.display());
        return Error::data(format!(
            "`{array}` is an npy file and `{other}` is not, wanted two files of the same format"
        ));
    };
    error
}
