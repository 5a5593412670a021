//! Runs pictures through the network.

use std::path::Path;
use std::sync::Mutex;

use arrow::array::{Int64Array, RecordBatch, StringArray};

use super::preprocess;
use super::settings::{Extract, OnUndecodable, PART_ROWS, Pooling, Weights};
use crate::error::{Error, Kind, Result, TruncatedList};
use crate::io::bounded;
use crate::io::image::Pictures;
use crate::model::cnn::{Cnn, Output};
use crate::model::family::data;
use crate::model::trained::{DESCRIPTION, Description, PARAMETERS};
use crate::model::{device, threads};
use crate::stage::{Cx, Mapped, Over, Run, Warning};
use crate::tables::{self, Vectors};

/// Bytes above which a file of weights is not read: several times those of the largest network.
const MAX_WEIGHTS: u64 = 1 << 30;

impl Run for Extract {
    /// Memory: once the weights; per thread one decoded picture, the part, and `batch` pictures as the network sees them
    /// with their feature maps (about 10 MB each at 224 pixels), as [`Extract`] says.
    fn run(&self, cx: &mut Cx<'_>) -> Result<()> {
        let network = self.network(cx)?;
        let root = cx.path("images")?;
        // Every thread of `map` takes its pictures from file to feature by itself. Tensors are not `Sync`, so each gets
        // its own handles on the weights.
        let network = Mutex::new(network);
        cx.map(Over::Rows("images"), "features", PART_ROWS, &|block| {
            let broken = |_| Error::internal("another thread broke off while it copied the network's handles");
            let network = network.lock().map_err(broken)?.share();
            threads::stay_in_this_thread();
            self.part(&block.rows, root.as_deref(), &network)
        })
    }
}

impl Extract {
    fn network(&self, cx: &mut Cx<'_>) -> Result<Cnn> {
        let device = device::to_tch(cx.device())?;
        let architecture = self.network.architecture();
        match &self.weights {
            Weights::Random => Cnn::random(architecture, self.seed, device),
            Weights::Model(_) => {
                let in_model = |error: Error| error.context("weights.model");
                let config = Description::read(&cx.file("weights.model", DESCRIPTION)?).map_err(in_model)?.config;
                let own = (self.resize as usize, self.crop as usize);
                if let Some(data::Pictures { side, resize, .. }) = config.data().pictures
                    && (resize, side) != own
                {
                    let (own_resize, crop) = own;
                    let message = format!(
                        "the model was trained on squares of {side} pixels of pictures of {resize}, and `crop` is {crop} \
                         of a `resize` of {own_resize}"
                    );
                    return Err(in_model(Error::data(message)).hint("the same sides as in its training"));
                }
                let parameters = cx.file("weights.model", PARAMETERS)?;
                Cnn::from_model(self.network.body(), &parameters, device).map_err(in_model)
            }
            Weights::File(_) => {
                let path = cx.source("weights.file")?;
                let bytes = bounded::read(&path, MAX_WEIGHTS)?;
                Cnn::from_file(architecture, &bytes, device)
                    .map_err(|error| error.context(format!("weights `{}`", path.display())))
            }
        }
    }

    /// The features of a block of images.
    fn part(&self, batch: &RecordBatch, root: Option<&Path>, network: &Cnn) -> Result<Mapped> {
        let ids = tables::ids(batch, "image_id")?;
        let splits = tables::texts(batch, "split")?;
        let pictures = Pictures::new(batch, root)?;
        let width = self.width();
        let (resize, crop) = (self.resize as usize, self.crop as usize);

        let mut features = Vec::with_capacity(batch.num_rows() * width);
        let mut kept = Vec::with_capacity(batch.num_rows());
        let mut undecodable = Vec::new();
        let mut rows = 0..batch.num_rows();
        while !rows.is_empty() {
            let mut pixels = Vec::with_capacity(self.batch * 3 * crop * crop);
            let before = kept.len();
            for row in rows.by_ref().take(self.batch) {
                match pictures.decode(row) {
                    Ok(picture) => {
                        preprocess::append(&picture, resize, crop, &mut pixels);
                        kept.push(row);
                    }
                    Err(error) if error.kind() == Kind::Data => undecodable.push((pictures.name(row), error)),
                    Err(error) => return Err(error.context(format!("picture `{}`", pictures.name(row)))),
                }
            }
            // After a fatal picture the rest is decoded only to name every other one as well.
            if self.on_undecodable == OnUndecodable::Skip || undecodable.is_empty() {
                let names = kept[before..].iter().map(|&row| pictures.name(row));
                features.extend(self.compute(&pixels, names, network)?);
            }
        }
        if self.on_undecodable == OnUndecodable::Fail && !undecodable.is_empty() {
            return Err(fatal(&undecodable));
        }

        let features = tables::features::Columns {
            image_id: Int64Array::from_iter_values(kept.iter().map(|&row| ids.value(row))),
            split: StringArray::from_iter_values(kept.iter().map(|&row| splits.value(row))),
            feature: Vectors::new(features, width)?,
        };
        let warnings = undecodable
            .into_iter()
            .map(|(name, error)| Warning { subject: name.to_owned(), message: format!("picture left out: {error}") })
            .collect();
        Ok(Mapped { batch: features.into_batch()?, warnings })
    }

    /// The features of pictures that go through the network together; `names` are theirs.
    fn compute<'n>(&self, pixels: &[f32], names: impl Iterator<Item = &'n str>, network: &Cnn) -> Result<Vec<f32>> {
        let output = match self.pooling {
            Pooling::Average => Output::Average,
            Pooling::Logits => Output::Scores,
        };
        let mut features = network.compute(pixels, self.crop as usize, output)?;
        for (feature, name) in features.chunks_exact_mut(self.width()).zip(names) {
            if !feature.iter().all(|value| value.is_finite()) {
                return Err(Error::stage(format!("the feature of `{name}` holds a NaN or an infinity"))
                    .hint("the weights are too large for the network"));
            }
            if self.normalize {
                normalize(feature);
            }
        }
        Ok(features)
    }
}

/// Divides by the L2 norm; zeros stay.
fn normalize(feature: &mut [f32]) {
    let norm = feature.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if norm > 0.0 {
        for value in feature {
            #[expect(clippy::cast_possible_truncation, reason = "features are f32")]
            let quotient = (f64::from(*value) / norm) as f32;
            *value = quotient;
        }
    }
}

/// The error of a block whose pictures `undecodable` are fatal.
fn fatal(undecodable: &[(&str, Error)]) -> Error {
    let listed: TruncatedList = undecodable.iter().map(|(name, error)| format!("picture `{name}`: {error}")).collect();
    let error = Error::data(listed.join("; "));
    match undecodable.iter().find_map(|(_, error)| error.hint_text()) {
        Some(hint) => error.hint(hint),
        None => error.hint(
            "set `on_undecodable = \"skip\"` to leave such pictures out with a warning; the stage then starts over",
        ),
    }
}
