//! Feature extraction: runs images through the network; of a grid also the boxes of its cells.

use std::borrow::Cow;
use std::ops::Range;
use std::path::Path;

use arrow::array::{Int64Array, RecordBatch, StringArray};

use super::batches::{BatchComputation, FeatureNetwork};
use super::captions::embed_captions;
use super::earlier::{BlockRows, EarlierImages, KeptRows};
use super::shared_decoding::{self, SharingMember};
use pairloom_base::error::{Error, ErrorCategory, Result, SkippedItems, TruncatedList};
use pairloom_base::runtime::CancelToken;
use pairloom_formats::torchscript_archive;
use pairloom_images::image::EncodedImages;
use pairloom_kernels::resize::cropped_square;
use pairloom_model::device;
use pairloom_model::malloc::{keep_freed_memory, return_freed_memory};
use pairloom_model::networks::{ImageNetwork, ModuleOutput, NetworkOutput, TorchScriptModule};
use pairloom_model::trained_model::{DESCRIPTION_FILE, ModelDescription, PARAMETERS_FILE};
use pairloom_spec::input_spec;
use pairloom_spec::networks::Network;
use pairloom_spec::stages::extract::{BOXES, Extract, FeaturePooling, OnUndecodable, PART_ROWS, WeightSource};
use pairloom_stage::{MapBlock, MapInput, MapOutput, MappedRows, StageContext, Warning};
use pairloom_storage::bounded;
use pairloom_tables::regions::RegionColumn;
use pairloom_tables::{self as tables, VectorColumn, region_boxes};

/// Number of images that an error shows.
const SHOWN: usize = 5;
/// Beginning of the warning about an image that was left out.
const LEFT_OUT: &str = "image left out: ";

/// Maximum size of a file of weights, in bytes: ResNeXt-101 32×48d has 3.3 GB.
pub(super) const MAX_WEIGHTS: u64 = 4 << 30;

/// Memory: the weights, once; per thread one decoded image, a part of features, and the inputs and feature maps of
/// `batch_size` images (about 10 MB each at 224 pixels), see [`Extract`].
pub fn run(stage: &Extract, cx: &mut StageContext<'_>) -> Result<()> {
    let ranks = cx.process_group(stage.ranks)?;
    let cancel = cx.cancel().clone();
    let root = cx.path("images")?;
    // Joined before the network is loaded, so that stages with small ones do not begin alone.
    let group = || format!("{} in {}", stage.images, root.as_deref().unwrap_or(Path::new("")).display());
    let sharing = stage.share_decoding.then(|| shared_decoding::of_process().join(group()));
    let network = load_network(stage, cx, ranks.local_rank, &cancel)?;
    keep_freed_memory();
    let files = cx.file_keys("images")?;
    let earlier = EarlierImages::open(stage.output_name(), &files, cx)?;
    let batches = BatchComputation::new(stage, network, cx.threads(), cancel.clone())?;
    let summary = cx.map(MapInput::Table("images"), stage.output_name(), PART_ROWS, &|block| {
        compute_part(stage, block, root.as_deref(), &batches, &earlier, sharing.as_ref())
    })?;
    drop((sharing, batches));
    // The stages that follow have no use for the memory of a batch.
    return_freed_memory();
    let first = summary
        .warnings
        .iter()
        .filter_map(|Warning { subject, message }| Some(format!("`{subject}`: {}", message.strip_prefix(LEFT_OUT)?)));
    let total = count_images(stage, summary.inputs, cx)?;
    let skipped = SkippedItems { skipped: total.saturating_sub(summary.rows), total, first: first.collect() };
    skipped.check("images", stage.max_skipped, "check the folder of the images, and their format: JPEG or PNG")?;
    if let Some(captions) = &stage.captions {
        return embed_captions(stage, captions, ranks.local_rank, cx);
    }
    let Some(side) = stage.grid_side() else { return Ok(()) };
    // A second pass, over the headers: a resumed run has no sizes of the images whose features it finds.
    let earlier = EarlierImages::open(BOXES, &files, cx)?;
    cx.map(MapInput::Table("images"), BOXES, PART_ROWS, &|block| {
        cancel.check()?;
        let rows = stage.rows_of_splits(&block.rows)?;
        let images = EncodedImages::new(&rows, root.as_deref())?;
        let keys = earlier.keys(&rows, &images, &cancel)?;
        match earlier.part(&keys)? {
            Some(part) => Ok(part),
            None => grid_boxes(stage, &rows, &images, earlier.rows(keys, side * side * 4)?, side),
        }
    })?;
    Ok(())
}

/// Reads the network up to the layer whose output is used, or the module of the user's.
fn load_network(
    stage: &Extract,
    cx: &mut StageContext<'_>,
    local_rank: usize,
    cancel: &CancelToken,
) -> Result<FeatureNetwork> {
    if stage.torchscript.is_some() {
        return Ok(FeatureNetwork::Module(load_module(stage, cx, local_rank)?));
    }
    let whole = load_whole_network(stage, cx, local_rank)?;
    let network = stage.layer.iter().try_fold(whole, |network, layer| network.up_to(layer))?;
    let network = network.prepare(stage.is_mixed())?.with_cancel(cancel.clone());
    Ok(FeatureNetwork::Published { network: Box::new(network), output: output(stage)? })
}

fn load_module(stage: &Extract, cx: &mut StageContext<'_>, local_rank: usize) -> Result<TorchScriptModule> {
    let device = device::device_of_rank(cx.device(), local_rank)?;
    let path = cx.source("torchscript.file")?;
    torchscript_archive::check(&path)?;
    let output = match stage.effective_pooling() {
        FeaturePooling::Average => ModuleOutput::MeanOfMaps,
        FeaturePooling::Grid(side) => ModuleOutput::Grid(side),
        FeaturePooling::Regions(count) => ModuleOutput::Regions(count),
        FeaturePooling::Embedding | FeaturePooling::Logits => ModuleOutput::Vector,
    };
    TorchScriptModule::load(&path, output, (stage.full_batch() * stage.crops(), stage.input().crop), device)
        .map_err(|error| error.context(format!("module `{}`", path.display())))
}

/// Number of images of the chosen splits, of `all` in the table.
fn count_images(stage: &Extract, all: u64, cx: &mut StageContext<'_>) -> Result<u64> {
    if stage.splits.is_empty() {
        return Ok(all);
    }
    let mut count = 0;
    while let Some(batch) = cx.read_next("images")? {
        count += stage.rows_of_splits(&batch)?.num_rows() as u64;
    }
    if count == 0 {
        let splits = stage.splits.join("`, `");
        return Err(Error::data(format!("no image of split `{splits}` in `{}`", stage.images)));
    }
    Ok(count)
}

fn load_whole_network(stage: &Extract, cx: &mut StageContext<'_>, local_rank: usize) -> Result<ImageNetwork> {
    let device = device::device_of_rank(cx.device(), local_rank)?;
    let published = published_network(stage)?;
    let architecture = published.architecture();
    match &stage.weights {
        None => Err(Error::internal("a network without weights")),
        Some(WeightSource::Random) => ImageNetwork::random(architecture, stage.seed, device),
        Some(WeightSource::Model(_)) => {
            let in_model = |error: Error| error.context("weights.model");
            let config = ModelDescription::read(&cx.file("weights.model", DESCRIPTION_FILE)?).map_err(in_model)?.config;
            let input = stage.input();
            let own = (input.resize, input.crop);
            if let Some(input_spec::FinetunedCnn { side, resize, .. }) = config.input_spec().pictures
                && (resize, side) != own
            {
                let (own_resize, crop) = own;
                let message = format!(
                    "the model was trained on crops of {side} pixels from images resized to {resize}, got `crop` = \
                     {crop} and `resize` = {own_resize}"
                );
                return Err(in_model(Error::data(message)).hint("set `crop` and `resize` as in the training"));
            }
            let parameters = cx.file("weights.model", PARAMETERS_FILE)?;
            ImageNetwork::from_model(published.backbone(), &parameters, device).map_err(in_model)
        }
        Some(WeightSource::File(_)) => {
            let path = cx.source("weights.file")?;
            let bytes = bounded::read(&path, MAX_WEIGHTS)?;
            ImageNetwork::from_file(architecture, &bytes, device)
                .map_err(|error| error.context(format!("weights `{}`", path.display())))
        }
    }
}

/// Published network of the stage.
pub(super) fn published_network(stage: &Extract) -> Result<Network> {
    stage.network.ok_or_else(|| Error::internal("a stage without a network"))
}

/// Output of the network that becomes the features.
fn output(stage: &Extract) -> Result<NetworkOutput> {
    Ok(match stage.effective_pooling() {
        FeaturePooling::Average => NetworkOutput::PooledFeatures,
        FeaturePooling::Embedding => NetworkOutput::Embedding,
        FeaturePooling::Logits => NetworkOutput::ClassScores,
        FeaturePooling::Grid(side) => NetworkOutput::Grid(side),
        FeaturePooling::Regions(_) => return Err(Error::internal("a published network returns no regions")),
    })
}

/// Computes the features of a block of images.
fn compute_part(
    stage: &Extract,
    block: &MapBlock,
    root: Option<&Path>,
    batches: &BatchComputation<'_>,
    earlier: &EarlierImages<'_>,
    sharing: Option<&SharingMember<'_>>,
) -> Result<MapOutput> {
    let cancel = &batches.cancel;
    let shared = sharing.map(|sharing| sharing.begin(block.range.clone(), cancel)).transpose()?;
    let batch = &stage.rows_of_splits(&block.rows)?;
    let ids = tables::int_column(batch, "image_id")?;
    let splits = tables::text_column(batch, "split")?;
    let images = EncodedImages::new(batch, root)?;
    let width = batches.width;

    let keys = earlier.keys(batch, &images, cancel)?;
    if let Some(part) = earlier.part(&keys)? {
        return Ok(part);
    }
    let mut rows = earlier.rows(keys, batches.row_width)?;
    let (copied, new, mut undecodable) = (rows.count_known(), std::mem::take(&mut rows.new), Vec::new());
    for batch in batches.compute(&new, &images, &rows, shared.as_ref())? {
        for (&row, feature) in batch.rows.iter().zip(batch.features.chunks_exact(batches.row_width)) {
            rows.set(row, feature);
        }
        undecodable.extend(batch.undecodable);
    }
    // A row without values was not decoded, or not computed since another one ends the stage.
    let is_undecodable = |row| undecodable.iter().any(|(other, _)| *other == row);
    let copies = rows.repeat().into_iter().filter(|(_, first)| is_undecodable(*first)).map(|(row, first)| {
        let message = format!("it has the bytes of `{}`, which cannot be decoded", images.shown_name(first));
        (row, Error::data(message))
    });
    let copies: Vec<_> = copies.collect();
    let undecodable = undecodable.into_iter().chain(copies).map(|(row, error)| (images.shown_name(row), error));
    let undecodable: Vec<_> = undecodable.collect();
    if stage.on_undecodable == OnUndecodable::Fail && !undecodable.is_empty() {
        return Err(undecodable_error(&undecodable, &block.range));
    }

    let mut warnings = std::mem::take(&mut rows.warnings);
    let KeptRows { kept, values: features, row_keys, part_key } = rows.finish();
    let image_id = Int64Array::from_iter_values(kept.iter().map(|&row| ids.value(row)));
    let split = StringArray::from_iter_values(kept.iter().map(|&row| splits.value(row)));
    let batch = match stage.regions() {
        Some(places) => {
            let regions = RegionColumn::new(features, places, width)?;
            tables::regions::TableColumns { image_id, split, regions }.into_batch()?
        }
        None if stage.captions.is_some() => {
            let embedding = VectorColumn::new(features, width)?;
            tables::image_embeddings::TableColumns { image_id, split, embedding }.into_batch()?
        }
        None => {
            let feature = VectorColumn::new(features, width)?;
            tables::features::TableColumns { image_id, split, feature }.into_batch()?
        }
    };
    warnings.extend(
        undecodable
            .into_iter()
            .map(|(name, error)| Warning { subject: name.into_owned(), message: format!("{LEFT_OUT}{error}") }),
    );
    let rows = MappedRows::New(stage.stored(batch)?);
    Ok(MapOutput { rows, warnings, row_keys, part_key, copied })
}

/// Returns the error of a block with undecodable images. `rows` are the numbers of its rows.
fn undecodable_error(undecodable: &[(Cow<'_, str>, Error)], rows: &Range<usize>) -> Error {
    let mut listed = TruncatedList::new(SHOWN);
    listed.extend(undecodable.iter().map(|(name, error)| format!("image `{name}`: {error}")));
    let error = Error::data(match undecodable.len() {
        1 => listed.join(""),
        count => format!(
            "{count} of the images {} to {} (from 0) cannot be decoded:\n  {}",
            rows.start,
            rows.end.saturating_sub(1),
            listed.join("\n  ")
        ),
    });
    match undecodable.iter().find_map(|(_, error)| error.hint_text()) {
        Some(hint) => error.hint(hint),
        None => error.hint(
            "set `on_undecodable = \"skip\"` to leave such images out with a warning; the stage then starts over",
        ),
    }
}

/// Computes the rows of `region_boxes` for the images of `batch`, from the sizes in their headers. An image whose
/// header cannot be read has none.
///
/// # Errors
/// An image cannot be read for another reason than its content.
fn grid_boxes(
    stage: &Extract,
    batch: &RecordBatch,
    images: &EncodedImages<'_>,
    mut rows: BlockRows,
    side: usize,
) -> Result<MapOutput> {
    let ids = tables::int_column(batch, "image_id")?;
    let splits = tables::text_column(batch, "split")?;
    let input = stage.input();
    let copied = rows.count_known();
    for row in std::mem::take(&mut rows.new) {
        match images.size(row) {
            Ok((width, height)) => {
                let square = cropped_square(width, height, input.resize, input.crop);
                rows.set(row, &cells(square, side).collect::<Vec<_>>());
            }
            Err(error) if error.category() == ErrorCategory::Data => {}
            Err(error) => return Err(error.context(format!("image `{}`", images.shown_name(row)))),
        }
    }
    rows.repeat();
    let warnings = std::mem::take(&mut rows.warnings);
    let KeptRows { kept, values: boxes, row_keys, part_key } = rows.finish();
    let columns = region_boxes::TableColumns {
        image_id: Int64Array::from_iter_values(kept.iter().map(|&row| ids.value(row))),
        split: StringArray::from_iter_values(kept.iter().map(|&row| splits.value(row))),
        boxes: RegionColumn::new(boxes, side * side, 4)?,
    };
    Ok(MapOutput { rows: MappedRows::New(columns.into_batch()?), warnings, row_keys, part_key, copied })
}

/// Divides a rectangle into `side` × `side` cells: left, top, right and bottom of each, row by row.
fn cells(within: [f64; 4], side: usize) -> impl Iterator<Item = f32> {
    let [left, top, right, bottom] = within;
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "boxes are f32, sides small")]
    let edge = move |from: f64, to: f64, place: usize| (from + (to - from) * (place as f64 / side as f64)) as f32;
    (0..side * side).flat_map(move |cell| {
        let (row, column) = (cell / side, cell % side);
        let horizontal = [column, column + 1].map(|place| edge(left, right, place));
        let vertical = [row, row + 1].map(|place| edge(top, bottom, place));
        [horizontal[0], vertical[0], horizontal[1], vertical[1]]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_in_rows_from_the_top_left() {
        let boxes: Vec<f32> = cells([0.0, 0.25, 1.0, 0.75], 2).collect();
        let expected = [[0.0, 0.25, 0.5, 0.5], [0.5, 0.25, 1.0, 0.5], [0.0, 0.5, 0.5, 0.75], [0.5, 0.5, 1.0, 0.75]];
        assert_eq!(boxes, expected.concat());
    }
}
