//! Sections of a pass, with a checkpoint after each.
//!
//! A section is a range of stripes of rows; it depends on the shape alone. Its checkpoint holds the results of its rows
//! and the state of all columns after it. Both are exact, whatever the device, the number of threads or the precision.
//! So a resumed search has the results of an uninterrupted one.

use std::ops::Range;

use az::SaturatingAs;

use super::checksum::{checkpoint_name, load, save};
use super::progress::SearchProgress;
use crate::error::Result;
use crate::kernels::identity::IdentityWriter;

/// Maximum number of sections of a pass. The state of all columns is saved after each, which takes space.
const MAX_SECTIONS: u128 = 64;

/// Sections of a pass.
#[derive(Debug)]
pub struct Sections {
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
        let each = sections[0].len();
        let name = (sections.len() > 1).then(|| {
            checkpoint_name(|fields| {
                fields.write_usize(each);
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

/// Cuts stripes into about `count` sections of whole groups, at least one section.
pub fn cut(stripes: usize, group: usize, count: usize) -> Vec<Range<usize>> {
    let each = stripes.div_ceil(count.max(1)).max(1).next_multiple_of(group);
    (0..stripes.max(1)).step_by(each).map(|first| first..stripes.min(first + each)).collect()
}
