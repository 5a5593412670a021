//! Decoded pictures that stages share which run side by side in one process, such as several networks over one data set.
//!
//! Each picture is decoded by the stage that needs it first, and kept until the others have had it. A stage that is far
//! ahead waits, so that few pictures are kept; the one that is behind never waits. What a stage does not find it decodes
//! itself, so results do not depend on the others.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_images::image::HeldImage;
use pairloom_stage::RowKey;

/// Number of images by which a stage may be ahead of the last one.
const WINDOW: usize = 512;
/// Largest size of the kept pictures of a group in bytes: those of 512 photographs of 500 × 375 pixels.
const MAX_BYTES: usize = 288 << 20;
/// Time after which a waiting thread looks whether the run was cancelled.
const CANCEL_CHECK: Duration = Duration::from_millis(50);

/// Groups of stages, by the images that they read.
#[derive(Debug, Default)]
pub(super) struct SharedDecoding {
    groups: Mutex<HashMap<String, SharingGroup>>,
    changed: Condvar,
}

/// Stages that share pictures.
#[derive(Debug, Default)]
struct SharingGroup {
    next: u64,
    members: HashMap<u64, SharingPosition>,
    pictures: HashMap<RowKey, SharedPicture>,
    /// Size of the kept pictures.
    bytes: usize,
}

/// Rows at which a stage is.
#[derive(Debug, Default)]
struct SharingPosition {
    /// First rows of the blocks in work.
    active: BTreeSet<usize>,
    /// Row after the last finished block.
    done: usize,
}

#[derive(Debug)]
enum SharedPicture {
    /// A stage decodes it.
    InWork,
    /// It is kept for this many stages.
    Kept { picture: Arc<HeldImage>, row: usize, wanted_by: usize },
}

/// Membership of a stage in a group. It ends with the value.
#[derive(Debug)]
pub(super) struct SharingMember<'s> {
    sharing: &'s SharedDecoding,
    group: String,
    number: u64,
}

/// Block in work. It ends with the value.
#[derive(Debug)]
pub(super) struct SharedBlock<'m, 's> {
    member: &'m SharingMember<'s>,
    rows: std::ops::Range<usize>,
}

/// Groups of this process.
pub(super) fn of_process() -> &'static SharedDecoding {
    static SHARING: LazyLock<SharedDecoding> = LazyLock::new(SharedDecoding::default);
    &SHARING
}

impl SharedDecoding {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, SharingGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change, but not long.
    fn wait<'g>(
        &self,
        groups: MutexGuard<'g, HashMap<String, SharingGroup>>,
    ) -> MutexGuard<'g, HashMap<String, SharingGroup>> {
        self.changed.wait_timeout(groups, CANCEL_CHECK).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Joins the group of the stages that read `images`.
    pub fn join(&self, images: String) -> SharingMember<'_> {
        let mut groups = self.lock();
        let group = groups.entry(images.clone()).or_default();
        group.next += 1;
        let number = group.next;
        group.members.insert(number, SharingPosition::default());
        drop(groups);
        SharingMember { sharing: self, group: images, number }
    }
}

impl SharingPosition {
    /// First row that the stage may still need.
    fn first_row(&self) -> usize {
        self.active.first().copied().unwrap_or(self.done)
    }
}

impl SharingGroup {
    /// First row that any stage but `number` may still need; `None` if there is no other.
    fn first_row_of_others(&self, number: u64) -> Option<usize> {
        let others = self.members.iter().filter(|(other, _)| **other != number);
        others.map(|(_, position)| position.first_row()).min()
    }

    /// Drops the pictures that no stage comes to any more.
    fn drop_passed(&mut self) {
        let first = self.members.values().map(SharingPosition::first_row).min().unwrap_or(usize::MAX);
        let mut bytes = self.bytes;
        self.pictures.retain(|_, picture| match picture {
            SharedPicture::Kept { picture, row, wanted_by } if *row < first || *wanted_by == 0 => {
                bytes -= picture.rgb.len();
                false
            }
            _ => true,
        });
        self.bytes = bytes;
    }
}

impl<'s> SharingMember<'s> {
    /// Begins a block of rows of the images. Waits while the stage is far ahead of another one.
    pub fn begin(&self, rows: std::ops::Range<usize>, cancel: &CancelToken) -> Result<SharedBlock<'_, 's>> {
        let mut groups = self.sharing.lock();
        loop {
            cancel.check()?;
            let Some(group) = groups.get_mut(&self.group) else { break };
            if group.first_row_of_others(self.number).is_none_or(|others| rows.start < others + WINDOW) {
                if let Some(position) = group.members.get_mut(&self.number) {
                    position.active.insert(rows.start);
                }
                break;
            }
            groups = self.sharing.wait(groups);
        }
        drop(groups);
        Ok(SharedBlock { member: self, rows })
    }
}

impl SharedBlock<'_, '_> {
    /// Returns the picture with this key, which another stage has decoded, or which `decode` decodes for all.
    ///
    /// # Errors
    /// The error of `decode`, or the run was cancelled.
    pub fn decode(
        &self,
        key: RowKey,
        cancel: &CancelToken,
        decode: impl FnOnce() -> Result<HeldImage>,
    ) -> Result<Arc<HeldImage>> {
        let SharingMember { sharing, group: name, .. } = self.member;
        let mut groups = sharing.lock();
        while let Some(group) = groups.get_mut(name) {
            match group.pictures.get_mut(&key) {
                Some(SharedPicture::Kept { picture, wanted_by, .. }) => {
                    let found = Arc::clone(picture);
                    *wanted_by = wanted_by.saturating_sub(1);
                    if *wanted_by == 0 {
                        group.bytes -= found.rgb.len();
                        group.pictures.remove(&key);
                    }
                    return Ok(found);
                }
                Some(SharedPicture::InWork) => {
                    cancel.check()?;
                    groups = sharing.wait(groups);
                }
                None => {
                    if group.members.len() > 1 {
                        group.pictures.insert(key, SharedPicture::InWork);
                    }
                    break;
                }
            }
        }
        drop(groups);
        let mut decoded = decode();
        let mut groups = sharing.lock();
        let was_in_work = groups.get_mut(name).is_some_and(|group| group.pictures.remove(&key).is_some());
        let kept_in = groups.get_mut(name).filter(|group| {
            let bytes = decoded.as_ref().map_or(usize::MAX, |picture| picture.rgb.len());
            was_in_work && group.members.len() > 1 && group.bytes.saturating_add(bytes) <= MAX_BYTES
        });
        if kept_in.is_some() {
            // A kept picture waits for other stages, which may wait for memory to decode one.
            decoded = decoded.map(HeldImage::without_share);
        }
        let decoded = decoded.map(Arc::new);
        if let (Some(group), Ok(picture)) = (kept_in, &decoded) {
            group.bytes += picture.rgb.len();
            let (picture, row, wanted_by) = (Arc::clone(picture), self.rows.start, group.members.len() - 1);
            group.pictures.insert(key, SharedPicture::Kept { picture, row, wanted_by });
        }
        drop(groups);
        sharing.changed.notify_all();
        decoded
    }
}

impl Drop for SharedBlock<'_, '_> {
    fn drop(&mut self) {
        let SharingMember { sharing, group, number } = self.member;
        if let Some(group) = sharing.lock().get_mut(group) {
            if let Some(position) = group.members.get_mut(number) {
                position.active.remove(&self.rows.start);
                position.done = position.done.max(self.rows.end);
            }
            group.drop_passed();
        }
        sharing.changed.notify_all();
    }
}

impl Drop for SharingMember<'_> {
    fn drop(&mut self) {
        let mut groups = self.sharing.lock();
        if let Some(group) = groups.get_mut(&self.group) {
            group.members.remove(&self.number);
            group.drop_passed();
            if group.members.is_empty() {
                groups.remove(&self.group);
            }
        }
        drop(groups);
        self.sharing.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use pairloom_base::error::{Error, ErrorCategory};
    use pairloom_images::image::decode;

    /// Picture of one pixel, as PNG.
    fn picture() -> HeldImage {
        use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(&[7; 3], 1, 1, ExtendedColorType::Rgb8).unwrap();
        decode(&bytes).unwrap().into()
    }

    fn key(row: usize) -> RowKey {
        RowKey::of(&row.to_le_bytes())
    }

    #[test]
    fn three_stages_decode_each_picture_once() {
        let (sharing, cancel, decoded) = (SharedDecoding::default(), CancelToken::new(), AtomicUsize::new(0));
        let members: Vec<_> = (0..3).map(|_| sharing.join("images".to_owned())).collect();
        std::thread::scope(|scope| {
            for member in members {
                let (cancel, decoded) = (&cancel, &decoded);
                scope.spawn(move || {
                    for start in (0..2000).step_by(8) {
                        let block = member.begin(start..start + 8, cancel).unwrap();
                        for row in start..start + 8 {
                            let count = || {
                                decoded.fetch_add(1, Ordering::SeqCst);
                                Ok(picture())
                            };
                            assert_eq!(block.decode(key(row), cancel, count).unwrap().rgb, [7; 3]);
                        }
                    }
                });
            }
        });
        // A stage that has ended no longer waits for pictures, so its group keeps none.
        assert_eq!(decoded.load(Ordering::SeqCst), 2000);
        assert!(sharing.lock().is_empty());
    }

    #[test]
    fn a_stage_that_is_ahead_waits_until_the_other_goes_on_or_ends() {
        let (sharing, cancel) = (SharedDecoding::default(), CancelToken::new());
        let (fast, slow) = (sharing.join("images".to_owned()), sharing.join("images".to_owned()));
        let other = sharing.join("others".to_owned());
        drop(fast.begin(WINDOW - 1..WINDOW, &cancel).unwrap());
        drop(other.begin(10 * WINDOW..10 * WINDOW + 1, &cancel).unwrap());
        let stopped = CancelToken::new();
        stopped.cancel();
        assert_eq!(fast.begin(WINDOW..WINDOW + 1, &stopped).unwrap_err().category(), ErrorCategory::Interrupted);
        drop(slow.begin(0..8, &cancel).unwrap());
        let block = fast.begin(WINDOW..WINDOW + 1, &cancel).unwrap();
        // The slow one skips this picture, and it is dropped when it has passed.
        block.decode(key(1), &cancel, || Ok(picture())).unwrap();
        assert_eq!(sharing.lock()["images"].bytes, 3);
        drop(block);
        drop(slow.begin(WINDOW + 1..WINDOW + 2, &cancel).unwrap());
        assert_eq!(sharing.lock()["images"].bytes, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(slow));
            drop(fast.begin(9 * WINDOW..9 * WINDOW + 1, &cancel).unwrap());
        });
    }

    #[test]
    fn a_picture_that_cannot_be_decoded_is_an_error_for_each_stage() {
        let (sharing, cancel) = (SharedDecoding::default(), CancelToken::new());
        for member in [sharing.join("images".to_owned()), sharing.join("images".to_owned())] {
            let block = member.begin(0..1, &cancel).unwrap();
            let failed = block.decode(key(0), &cancel, || Err(Error::data("it is empty")));
            assert_eq!(failed.unwrap_err().to_string(), "it is empty");
        }
        assert!(sharing.lock().is_empty());
    }
}
