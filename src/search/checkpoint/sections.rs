//! Sections of a pass, with a checkpoint after each.
//!
//! A section is a range of stripes of rows; it depends on the shape alone. Its checkpoint holds the results of its rows
//! and the state of all columns after it. Both are exact, whatever the device, the number of threads or the precision.
//! So a resumed search has the results of an uninterrupted one.

use std::ops::Range;

use az::SaturatingAs;

use super::checksum::{checkpoint_name, load, save};
use super::progress::SearchProgress;
use pairloom_base::error::Result;
use pairloom_kernels::identity::IdentityWriter;

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
pub fn cut(stripes: usize, group: usize, count: usize) -> Vec<Range<usize>> {
    let groups = stripes.div_ceil(group).max(1);
    let count = count.clamp(1, groups);
    let end = |section: usize| stripes.min(section * groups / count * group);
    (0..count).map(|section| end(section)..end(section + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
