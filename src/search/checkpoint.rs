//! Checkpoints of a search: its results so far, saved under a name that is a digest of all inputs.
//!
//! A pass has a checkpoint after each section, a range of stripes of rows that depends on the shape alone. It holds the
//! results of the section's rows and the state of all columns after it. Both are exact, whatever the device, the number
//! of threads or the precision. So a resumed search has the results of an uninterrupted one.

use std::ops::Range;

use az::SaturatingAs;

use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;

/// Minimum cost of a search with checkpoints, in multiply-adds, unless its store has another one: about 15 seconds on
/// two cores.
pub const MINIMUM_COST: u64 = 1 << 42;

/// Progress callback of a search. A closure with the arguments of [`SearchProgress::report`] is a callback without
/// checkpoints.
pub trait SearchProgress {
    /// Reports progress: `done` rows of `total`. Called on the thread that started the search.
    fn report(&mut self, done: u64, total: u64) -> Result<()>;

    /// Checkpoint store of the search, from which an interrupted search resumes; none by default.
    fn checkpoint_store(&mut self) -> Option<&mut dyn CheckpointStore> {
        None
    }
}

impl<F: FnMut(u64, u64) -> Result<()>> SearchProgress for F {
    fn report(&mut self, done: u64, total: u64) -> Result<()> {
        self(done, total)
    }
}

/// Checkpoint store of searches.
///
/// A name is a digest of everything that the content depends on: the scores and the request. So searches with the same
/// request share checkpoints across runs, and a search never loads a checkpoint of another request.
///
/// The search checks content before it uses it. If content is damaged or has another form, it is computed again.
pub trait CheckpointStore {
    /// Loads the content that was saved under this name, if it is still there.
    fn load(&mut self, name: &str) -> Result<Option<Vec<i32>>>;

    /// Saves content under this name. Replaces content that was damaged.
    fn save(&mut self, name: &str, content: Vec<i32>) -> Result<()>;

    /// Minimum cost of a search with checkpoints, in multiply-adds.
    fn minimum_cost(&self) -> u64 {
        MINIMUM_COST
    }
}

/// Writer of a payload.
#[derive(Debug, Default)]
pub(super) struct PayloadWriter(pub Vec<i32>);

impl PayloadWriter {
    /// Writes an index or a count, both below 2³².
    pub fn write_index(&mut self, number: usize) {
        self.0.push(u32::try_from(number).expect("vectors are fewer than 2³²").cast_signed());
    }

    pub fn write_f32(&mut self, value: f32) {
        self.0.push(value.to_bits().cast_signed());
    }

    #[expect(clippy::cast_possible_truncation, reason = "both halves are written")]
    pub fn write_f64(&mut self, value: f64) {
        let bits = value.to_bits().cast_signed();
        self.0.extend([bits as i32, (bits >> 32) as i32]);
    }
}

/// Reader of a payload, in the order of writing. Its methods return `None` at the end of the payload, or if a number is
/// out of range.
#[derive(Debug, Clone, Copy)]
pub(super) struct PayloadReader<'r>(pub &'r [i32]);

impl PayloadReader<'_> {
    /// Reads an index or a count of at most `most`.
    pub fn read_index(&mut self, most: usize) -> Option<usize> {
        usize::try_from(self.next_u32()?).ok().filter(|&number| number <= most)
    }

    pub fn read_f32(&mut self) -> Option<f32> {
        self.next_u32().map(f32::from_bits)
    }

    pub fn read_f64(&mut self) -> Option<f64> {
        let [low, high] = [self.next_u32()?, self.next_u32()?].map(u64::from);
        Some(f64::from_bits(low | high << 32))
    }

    /// Returns `Some` if the whole payload was read.
    pub fn finish(self) -> Option<()> {
        self.0.is_empty().then_some(())
    }

    fn next_u32(&mut self) -> Option<u32> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first.cast_unsigned())
    }
}

/// Version of names and payloads, raised when the same request gets other bytes.
const VERSION: usize = 3;

/// Name of a checkpoint whose content depends on these fields and on nothing else: their digest.
pub(super) fn checkpoint_name(identity: impl FnOnce(&mut IdentityWriter<'_>)) -> String {
    let mut hasher = blake3::Hasher::new();
    let mut sink = |bytes: &[u8]| {
        hasher.update(bytes);
    };
    let mut fields = IdentityWriter::new(&mut sink);
    fields.write_text("search");
    fields.write_usize(VERSION);
    identity(&mut fields);
    hasher.finalize().to_hex()[..32].to_owned()
}

/// Loads the payload that was saved under a name; `None` if it is absent or its checksum is wrong.
pub(super) fn load(progress: &mut dyn SearchProgress, name: &str) -> Result<Option<Vec<i32>>> {
    let Some(store) = progress.checkpoint_store() else { return Ok(None) };
    Ok(store.load(name)?.and_then(|sealed| unseal(name, sealed)))
}

/// Saves a payload under a name, with a checksum.
pub(super) fn save(progress: &mut dyn SearchProgress, name: &str, payload: Vec<i32>) -> Result<()> {
    let Some(store) = progress.checkpoint_store() else { return Ok(()) };
    store.save(name, seal(name, payload))
}

/// Appends the checksum of a payload and its name.
pub(super) fn seal(name: &str, mut payload: Vec<i32>) -> Vec<i32> {
    payload.push(checksum(name, &payload));
    payload
}

/// Payload without its checksum; `None` if that is wrong.
pub(super) fn unseal(name: &str, mut sealed: Vec<i32>) -> Option<Vec<i32>> {
    let found = sealed.pop()?;
    (found == checksum(name, &sealed)).then_some(sealed)
}

/// Checksum of a payload and its name.
fn checksum(name: &str, payload: &[i32]) -> i32 {
    let mut hasher = blake3::Hasher::new();
    hasher.update(name.as_bytes());
    for piece in payload.chunks(1 << 12) {
        let bytes: Vec<u8> = piece.iter().flat_map(|number| number.to_le_bytes()).collect();
        hasher.update(&bytes);
    }
    let [a, b, c, d, ..] = *hasher.finalize().as_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Maximum number of sections of a pass. The state of all columns is saved after each, which takes space.
const MAX_SECTIONS: u128 = 64;

/// Sections of a pass.
#[derive(Debug)]
pub(super) struct Sections {
    /// Stripes of each section; at least one section.
    pub stripes: Vec<Range<usize>>,
    /// Name of the checkpoints; `None` for a pass in one section, which has none.
    name: Option<String>,
}

impl Sections {
    /// These sections, without checkpoints.
    pub fn without_checkpoints(stripes: Vec<Range<usize>>) -> Self {
        Self { stripes, name: None }
    }

    /// Divides a pass of `cost` multiply-adds over `stripes` stripes into sections of whole groups of stripes, `group`
    /// each. `identity` writes everything that the results depend on.
    pub fn new(
        [stripes, group]: [usize; 2],
        cost: u128,
        identity: impl FnOnce(&mut IdentityWriter<'_>),
        progress: &mut dyn SearchProgress,
    ) -> Self {
        let sections = |minimum: u64| cost.div_ceil(minimum.max(1).into()).clamp(1, MAX_SECTIONS);
        let count = progress.checkpoint_store().map_or(1, |store| sections(store.minimum_cost()));
        let sections = cut(stripes, group, count.saturating_as());
        let name = (sections.len() > 1).then(|| {
            checkpoint_name(|fields| {
                fields.write_usize(sections.len());
                identity(fields);
            })
        });
        Self { stripes: sections, name }
    }

    /// Loads the payload of a part of a section.
    pub fn load(&self, part: &str, section: usize, progress: &mut dyn SearchProgress) -> Result<Option<Vec<i32>>> {
        self.name.as_ref().map_or(Ok(None), |name| load(progress, &format!("{name} {part} {section}")))
    }

    /// Saves the payload of a part of a section.
    pub fn save(
        &self,
        part: &str,
        section: usize,
        progress: &mut dyn SearchProgress,
        payload: impl FnOnce() -> Vec<i32>,
    ) -> Result<()> {
        self.name.as_ref().map_or(Ok(()), |name| save(progress, &format!("{name} {part} {section}"), payload()))
    }
}

/// Cuts stripes into at most `count` sections of whole groups, at least one section. Their sizes differ by one group at
/// most, so that processes that share them end at about the same time.
pub(super) fn cut(stripes: usize, group: usize, count: usize) -> Vec<Range<usize>> {
    let groups = stripes.div_ceil(group).max(1);
    let count = count.clamp(1, groups);
    let end = |section: usize| stripes.min(section * groups / count * group);
    (0..count).map(|section| end(section)..end(section + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_returns_what_writer_wrote() {
        let mut payload = PayloadWriter::default();
        payload.write_index(usize::try_from(u32::MAX).expect("64 bits"));
        payload.write_f32(-0.1);
        payload.write_f64(f64::MIN_POSITIVE);
        payload.write_f64(-1e300 / 3.0);
        let mut read = PayloadReader(&payload.0);
        assert_eq!(read.clone().read_index(9), None);
        assert_eq!(read.read_index(usize::MAX), Some(u32::MAX as usize));
        assert_eq!((read.read_f32(), read.read_f64()), (Some(-0.1), Some(f64::MIN_POSITIVE)));
        assert_eq!(read.finish(), None);
        assert_eq!((read.read_f64(), read.read_f64(), read.finish()), (Some(-1e300 / 3.0), None, Some(())));
    }

    #[test]
    fn sections_cover_all_stripes_in_whole_groups_of_nearly_one_size() {
        let none = 0..0;
        assert_eq!(cut(0, 1, 4), [none]);
        assert_eq!(cut(3, 1, 8), [0..1, 1..2, 2..3]);
        assert_eq!(cut(10, 3, 2), [0..6, 6..10]);
        assert_eq!(cut(64, 1, 5), [0..12, 12..25, 25..38, 38..51, 51..64]);
        for (stripes, group, count) in [(66, 2, 4), (1_000, 7, 64), (17, 17, 3), (5, 9, 2)] {
            let sections = cut(stripes, group, count);
            assert_eq!((sections[0].start, sections[sections.len() - 1].end), (0, stripes));
            assert!(sections.windows(2).all(|pair| pair[0].end == pair[1].start && pair[0].end % group == 0));
            let groups: Vec<usize> = sections.iter().map(|section| section.len().div_ceil(group)).collect();
            assert!(groups.iter().max().expect("some") - groups.iter().min().expect("some") <= 1, "{groups:?}");
        }
    }
}
