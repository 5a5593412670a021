//! Ordered sum: parts arrive in any order and are added in the order of their numbers, group by group.

use std::collections::BTreeMap;
use std::ops::Range;

/// Largest number of groups.
const MAX_GROUPS: usize = 64;

/// Number of parts of a group, if there are `parts` in all.
pub fn parts_per_group(parts: usize) -> usize {
    parts.div_ceil(MAX_GROUPS).max(1)
}

/// Sum of numbered parts. The parts of a group are added in their order, then the sums of groups in theirs.
///
/// Groups depend on the number of all parts alone. So the sums of groups can be computed in several processes, and have
/// the bits of one.
#[derive(Debug)]
pub struct OrderedSum<T> {
    per_group: usize,
    next: usize,
    end: usize,
    waiting: BTreeMap<usize, T>,
    /// Sum of the parts of an unfinished group.
    group: Option<T>,
    /// Sums of finished groups, or their total alone.
    sums: Vec<T>,
    keeps_groups: bool,
}

impl<T> OrderedSum<T> {
    /// Total of `parts` parts.
    pub fn new(parts: usize) -> Self {
        let per_group = parts_per_group(parts);
        Self {
            per_group,
            next: 0,
            end: parts,
            waiting: BTreeMap::new(),
            group: None,
            sums: vec![],
            keeps_groups: false,
        }
    }

    /// Sum of each group of `range`, whole groups of `parts` parts.
    pub fn of_groups(range: Range<usize>, parts: usize) -> Self {
        Self { next: range.start, end: range.end, keeps_groups: true, ..Self::new(parts) }
    }

    /// Resumes from the total of the parts before `next`, whole groups.
    pub fn resume(total: T, next: usize, parts: usize) -> Self {
        Self { next, sums: vec![total], ..Self::new(parts) }
    }

    /// Takes a part; `merge` adds a later part to the sum of the earlier ones.
    pub fn add(&mut self, number: usize, part: T, merge: impl Fn(&mut T, T)) {
        self.waiting.insert(number, part);
        while let Some(part) = self.waiting.remove(&self.next) {
            match &mut self.group {
                Some(group) => merge(group, part),
                None => self.group = Some(part),
            }
            self.next += 1;
            if (self.next.is_multiple_of(self.per_group) || self.next == self.end)
                && let Some(group) = self.group.take()
            {
                self.add_group(group, &merge);
            }
        }
    }

    /// Takes the sum of the next group.
    pub fn add_group(&mut self, group: T, merge: impl Fn(&mut T, T)) {
        match self.sums.last_mut() {
            Some(total) if !self.keeps_groups => merge(total, group),
            _ => self.sums.push(group),
        }
    }

    /// Returns the total of all finished groups; `None` if there are none.
    pub fn total(&self) -> Option<&T> {
        self.sums.first().filter(|_| !self.keeps_groups)
    }

    /// Returns the sum of each group.
    pub fn groups(&self) -> &[T] {
        &self.sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(total: &mut String, part: String) {
        *total = format!("({total}{part})");
    }

    #[test]
    fn parts_are_added_in_order_and_by_group() {
        let mut sum = OrderedSum::new(4);
        assert_eq!(sum.total(), None);
        for number in [2, 0, 3, 1] {
            sum.add(number, number.to_string(), append);
        }
        assert_eq!(sum.total().map(String::as_str), Some("(((01)2)3)"));
        // Above 64 parts a group has two, and the last one what remains.
        let mut sum = OrderedSum::new(65);
        (0..65).rev().for_each(|number| sum.add(number, format!("{number},"), append));
        let total = sum.total().expect("all parts");
        assert!(total.ends_with("(60,61,))(62,63,))64,)") && total.contains("((0,1,)(2,3,))"), "{total}");
        let mut resumed = OrderedSum::new(65);
        (0..10).for_each(|number| resumed.add(number, format!("{number},"), append));
        let mut resumed = OrderedSum::resume(resumed.total().expect("five groups").clone(), 10, 65);
        (10..65).for_each(|number| resumed.add(number, format!("{number},"), append));
        assert_eq!(resumed.total(), Some(total));
        // Sums of groups, added elsewhere.
        let mut merged = OrderedSum::new(65);
        for range in [0..30, 30..65] {
            let mut groups = OrderedSum::of_groups(range.clone(), 65);
            range.rev().for_each(|number| groups.add(number, format!("{number},"), append));
            assert_eq!(groups.total(), None);
            groups.groups().iter().for_each(|group| merged.add_group(group.clone(), append));
        }
        assert_eq!(merged.total(), Some(total));
    }
}
