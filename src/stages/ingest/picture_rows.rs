//! Images whose bytes are in a data set, with their captions: what `webdataset` and `hugging_face` share.

use std::collections::{BTreeSet, HashSet};

use super::OnMissing;
use super::image_folder::ImageSplit;
use super::listed_images::{UnknownSplits, check_name_length};
use super::writer::{DataSetWriter, ImageRow, clean_caption};
use pairloom_base::error::{Error, Result, SkippedItems};
use pairloom_stage::StageContext;
use pairloom_storage::image_names::shown_name;

/// Maximum number of captions of an image. A small compressed file can have millions.
const MAX_CAPTIONS: usize = 10_000;

/// Number of samples that an error lists.
const LISTED: usize = 20;

/// Sample: an image with its captions.
pub(super) struct PictureSample<'a> {
    /// Name, for messages and for a random split.
    pub name: &'a str,
    pub file_name: &'a str,
    /// Field of the split, if the data set has one.
    pub split: Option<&'a str>,
    /// Bytes of the image; `None` if the sample has none.
    pub picture: Option<&'a [u8]>,
    /// Captions; `None` for a null.
    pub texts: Vec<Option<&'a str>>,
    /// What was expected of a sample without an image or captions, after the message; empty if there is nothing to say.
    pub expected: &'a str,
    /// Identifier of the image, if it has one, and of each caption.
    pub image_id: Option<i64>,
    pub caption_ids: Option<Vec<i64>>,
}

/// Writer of samples.
pub(super) struct PictureRows<'s> {
    split: &'s ImageSplit,
    on_missing: OnMissing,
    max_skipped: f64,
    rows: DataSetWriter,
    skipped: SkippedItems,
    skipped_captions: SkippedItems,
    /// Identifiers that samples have of their own.
    image_ids: HashSet<i64>,
    caption_ids: HashSet<i64>,
    next_caption: i64,
    splits: BTreeSet<&'static str>,
    /// Key of the last sample whose picture was refused.
    without_picture: Option<String>,
    /// Fields that are no splits.
    pub unknown_splits: UnknownSplits,
}

impl<'s> PictureRows<'s> {
    /// No samples yet. Of those without an image or captions at most the share `max_skipped` is left out, and of the captions
    /// of the others too.
    pub fn new(split: &'s ImageSplit, on_missing: OnMissing, max_skipped: f64) -> Self {
        Self {
            split,
            on_missing,
            max_skipped,
            rows: DataSetWriter::default(),
            skipped: SkippedItems { skipped: 0, total: 0, first: Vec::new() },
            skipped_captions: SkippedItems { skipped: 0, total: 0, first: Vec::new() },
            image_ids: HashSet::new(),
            caption_ids: HashSet::new(),
            next_caption: 0,
            splits: BTreeSet::new(),
            without_picture: None,
            unknown_splits: UnknownSplits::default(),
        }
    }

    /// Number of samples so far, with those that were left out.
    pub fn count(&self) -> u64 {
        self.skipped.total
    }

    /// Writes a sample. The inner error says what is wrong with it.
    pub fn push(&mut self, sample: PictureSample<'_>, cx: &mut StageContext<'_>) -> Result<Result<(), String>> {
        if sample.picture.is_none() && self.without_picture.as_deref() == Some(sample.name) {
            // It was counted with its picture.
            return Ok(Ok(()));
        }
        self.skipped.total += 1;
        let Some(picture) = sample.picture else {
            return Ok(self.leave_out(sample.name, &format!("it has no image{}", sample.expected), cx));
        };
        if sample.texts.is_empty() {
            return Ok(self.leave_out(sample.name, &format!("it has no captions{}", sample.expected), cx));
        }
        if sample.texts.iter().all(|&text| is_absent(text)) {
            let message = if sample.texts.len() == 1 { "its caption is empty" } else { "its captions are empty" };
            return Ok(self.leave_out(sample.name, message, cx));
        }
        if sample.texts.len() > MAX_CAPTIONS {
            return Ok(Err(format!("has {} captions, expected at most {MAX_CAPTIONS}", sample.texts.len())));
        }
        if let Err(problem) = check_name_length(sample.file_name) {
            return Ok(Err(format!("its file name {problem}")));
        }
        let (all, mut own_ids) = (sample.texts.len(), sample.caption_ids);
        if let Some(ids) = own_ids.as_ref().filter(|ids| ids.len() != all) {
            return Ok(Err(format!("has {all} captions and {} identifiers of captions", ids.len())));
        }
        let mut texts = Vec::with_capacity(all);
        for (place, text) in sample.texts.into_iter().enumerate() {
            let kept = match text.filter(|_| !is_absent(text)) {
                Some(text) => clean_caption(text).map(|text| texts.push(text)),
                None => {
                    // Those before it that were left out have no identifier any more.
                    own_ids.as_mut().map(|ids| ids.remove(texts.len()));
                    self.leave_out_caption(sample.name, place, all, cx)
                }
            };
            if let Err(message) = kept {
                return Ok(Err(message));
            }
        }
        self.skipped_captions.total += all as u64;
        let split = match self.split.of(sample.name, sample.split) {
            Ok(split) => split,
            Err(problem) => return Ok(self.unknown_splits.add(sample.split.unwrap_or_default(), problem)),
        };
        let (id, ids) = match self.ids(sample.image_id, own_ids, texts.len()) {
            Ok(known) => known,
            Err(message) => return Ok(Err(message)),
        };
        self.splits.insert(split);
        let image = ImageRow { id, split, file_name: sample.file_name, path: None, bytes: Some(picture) };
        self.rows.push(cx, &image, ids.into_iter().zip(texts))?;
        Ok(Ok(()))
    }

    /// Leaves out a sample that cannot be read, with a warning, or refuses it.
    pub fn refuse(&mut self, name: &str, reason: &str, cx: &mut StageContext<'_>) -> Result<(), String> {
        self.skipped.total += 1;
        self.leave_out(name, reason, cx)
    }

    /// Leaves out a file of an archive, with a warning, or refuses it. The picture of the sample `picture_of` counts as a
    /// sample that is left out.
    pub fn refuse_file(
        &mut self,
        path: &str,
        picture_of: Option<String>,
        reason: String,
        cx: &mut StageContext<'_>,
    ) -> Result<(), String> {
        if self.on_missing == OnMissing::Fail {
            return Err(reason);
        }
        cx.warn(shown_name(path), format!("file left out: {reason}"));
        if picture_of.is_some() {
            self.skipped.total += 1;
            count_skipped(&mut self.skipped, path, &reason);
            self.without_picture = picture_of;
        }
        Ok(())
    }

    /// Leaves a sample out, with a warning, or refuses it.
    fn leave_out(&mut self, name: &str, reason: &str, cx: &mut StageContext<'_>) -> Result<(), String> {
        if self.on_missing == OnMissing::Fail {
            return Err(format!("{reason}: `on_missing = \"skip\"` leaves such samples out"));
        }
        cx.warn(shown_name(name), format!("sample left out: {reason}"));
        count_skipped(&mut self.skipped, name, reason);
        Ok(())
    }

    /// Leaves a caption of a sample that has others out, with a warning, or refuses it.
    fn leave_out_caption(
        &mut self,
        name: &str,
        place: usize,
        count: usize,
        cx: &mut StageContext<'_>,
    ) -> Result<(), String> {
        let reason = format!("caption {} of {count} is empty", place + 1);
        if self.on_missing == OnMissing::Fail {
            return Err(format!("{reason}: `on_missing = \"skip\"` leaves such captions out"));
        }
        cx.warn(shown_name(name), format!("left out: {reason}"));
        count_skipped(&mut self.skipped_captions, name, &reason);
        Ok(())
    }

    /// Identifiers of the next image and its captions: its own ones, or numbers.
    fn ids(&mut self, image: Option<i64>, captions: Option<Vec<i64>>, count: usize) -> Result<(i64, Vec<i64>), String> {
        if let Some(image) = image.filter(|image| !self.image_ids.insert(*image)) {
            return Err(format!("the image id {image} is also that of an earlier sample"));
        }
        if let Some(id) = captions.iter().flatten().find(|id| !self.caption_ids.insert(**id)) {
            return Err(format!("the caption id {id} is also that of an earlier caption"));
        }
        let image = image.unwrap_or_else(|| i64::try_from(self.rows.count).unwrap_or_default());
        let captions = captions.unwrap_or_else(|| (self.next_caption..).take(count).collect());
        self.next_caption += i64::try_from(count).unwrap_or_default();
        Ok((image, captions))
    }

    /// Writes the rest, and checks that there are samples, and enough of them.
    pub fn finish(self, cx: &mut StageContext<'_>) -> Result<()> {
        self.skipped.check("samples", self.max_skipped, "check the settings of the images and captions")?;
        self.skipped_captions.check("captions", self.max_skipped, "check the settings of the captions")?;
        if self.rows.count == 0 {
            return Err(Error::data("there are no samples"));
        }
        self.split.check_sizes(self.rows.count, &self.splits)?;
        self.rows.finish(cx)
    }
}

/// True for a caption that says nothing: a null, or white space.
pub(super) fn is_absent(text: Option<&str>) -> bool {
    text.is_none_or(|text| text.trim().is_empty())
}

fn count_skipped(items: &mut SkippedItems, name: &str, reason: &str) {
    items.skipped += 1;
    if items.first.len() < LISTED {
        items.first.push(format!("`{}`: {reason}", shown_name(name)));
    }
}
