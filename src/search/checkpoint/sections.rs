//! Sections of a pass, with a checkpoint after each.
//!
//! A section is some stripes of rows: a function of the sizes alone. Kept of each are what its rows found, and what all columns
//! have found by its end; both exactly, so that it is all the same who computed them and how, and a search that goes on from
//! there finds what one does that was never ended.

use std::ops::Range;

use az::SaturatingAs;

use super::progress::Progress;
use super::sealed::{load, name, save};
use crate::error::Result;
use crate::kernels::identity::Fields;

/// The most sections of a pass, for columns are kept after each.
const MOST: u128 = 64;

/// Sections of a pass.
#[derive(Debug)]
pub struct Sections {
    /// Stripes of each; at least one section.
    pub stripes: Vec<Range<usize>>,
    /// The name of checkpoints; nothing is kept of a pass in one section.
    name: Option<String>,
}

impl Sections {
    /// Sections of a pass over so many stripes that costs so many multiply-adds; `identity` is everything that its results
    /// follow from.
    pub fn new(
        stripes: usize,
        cost: u128,
        identity: impl FnOnce(&mut Fields<'_>),
        progress: &mut dyn Progress,
    ) -> Self {
        let sections = |minimum: u64| cost.div_ceil(minimum.max(1).into()).clamp(1, MOST);
        let count = progress.checkpoints().map_or(1, |store| sections(store.minimum_cost()));
        let each = stripes.div_ceil(count.saturating_as::<usize>()).max(1);
        let sections = (0..stripes.max(1)).step_by(each).map(|first| first..stripes.min(first + each));
        let sections: Vec<Range<usize>> = sections.collect();
        let name = (sections.len() > 1).then(|| {
            name(|fields| {
                fields.number(each);
                identity(fields);
            })
        });
        Self { stripes: sections, name }
    }

    /// The payload that was saved as this part of this section.
    pub fn load(&self, part: &str, section: usize, progress: &mut dyn Progress) -> Result<Option<Vec<i32>>> {
        self.name.as_ref().map_or(Ok(None), |name| load(progress, &format!("{name} {part} {section}")))
    }

    /// Saves a payload as this part of this section.
    pub fn save(
        &self,
        part: &str,
        section: usize,
        progress: &mut dyn Progress,
        payload: impl FnOnce() -> Vec<i32>,
    ) -> Result<()> {
        self.name.as_ref().map_or(Ok(()), |name| save(progress, &format!("{name} {part} {section}"), payload()))
    }
}
