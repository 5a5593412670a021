//! Ordered sum: parts come in any order and are added in one.

use std::collections::BTreeMap;

/// Adds part 0, then part 1, and so on, each as soon as those before it are there.
#[derive(Debug)]
pub struct InOrder<T> {
    total: Option<T>,
    next: usize,
    waiting: BTreeMap<usize, T>,
}

impl<T> Default for InOrder<T> {
    fn default() -> Self {
        Self { total: None, next: 0, waiting: BTreeMap::new() }
    }
}

impl<T> InOrder<T> {
    /// One more part; `merge` adds a later one to an earlier one.
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

    /// Goes on from the sum of the parts before `next`.
    pub fn from(total: Option<T>, next: usize) -> Self {
        Self { total, next, waiting: BTreeMap::new() }
    }

    /// The sum; `None` of no parts.
    pub fn total(&self) -> Option<&T> {
        self.total.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_added_in_order() {
        let mut sum = InOrder::default();
        for number in [2, 0, 3, 1] {
            sum.add(number, number.to_string(), |total, part| total.push_str(&part));
        }
        assert_eq!(sum.total().map(String::as_str), Some("0123"));
        let mut sum = InOrder::from(sum.total().cloned(), 4);
        sum.add(4, "4".to_owned(), |total, part| total.push_str(&part));
        assert_eq!(sum.total().map(String::as_str), Some("01234"));
        assert_eq!(InOrder::<u8>::default().total(), None);
    }
}
