//! Ordered sum: parts arrive in any order and are added in the order of their numbers.

use std::collections::BTreeMap;

/// Sum of numbered parts, added in the order of their numbers. A part is added as soon as all earlier parts have
/// arrived.
#[derive(Debug)]
pub struct OrderedSum<T> {
    total: Option<T>,
    next: usize,
    waiting: BTreeMap<usize, T>,
}

impl<T> Default for OrderedSum<T> {
    fn default() -> Self {
        Self { total: None, next: 0, waiting: BTreeMap::new() }
    }
}

impl<T> OrderedSum<T> {
    /// Takes a part; `merge` adds a later part to the sum of the earlier ones.
    pub fn add(&mut self, number: usize, part: T, merge: impl Fn(&mut T, T)) {
        self.waiting.insert(number, part);
        while let Some(part) = self.waiting.remove(&self.next) {
            match &mut self.total {
                Some(total) => merge(total, part),
                None => self.total = Some(part),
            }
            self.next += 1;
        }
    }

    /// Resumes from the sum of the parts before `next`.
    pub fn resume(total: Option<T>, next: usize) -> Self {
        Self { total, next, waiting: BTreeMap::new() }
    }

    /// Returns the sum; `None` if no part was added.
    pub fn total(&self) -> Option<&T> {
        self.total.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_in_order() {
        let mut sum = OrderedSum::default();
        for number in [2, 0, 3, 1] {
            sum.add(number, number.to_string(), |total, part| total.push_str(&part));
        }
        assert_eq!(sum.total().map(String::as_str), Some("0123"));
        let mut sum = OrderedSum::resume(sum.total().cloned(), 4);
        sum.add(4, "4".to_owned(), |total, part| total.push_str(&part));
        assert_eq!(sum.total().map(String::as_str), Some("01234"));
        assert_eq!(OrderedSum::<u8>::default().total(), None);
    }
}
