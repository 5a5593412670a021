//! Lists of distinct positive numbers in settings, such as cut-offs.

/// Checks that a list has distinct positive numbers; passes messages to `problem`.
pub(super) fn check_distinct(numbers: &[usize], mut problem: impl FnMut(String)) {
    if numbers.is_empty() || numbers.contains(&0) {
        problem(format!("got {numbers:?}, wanted numbers from 1"));
    }
    for (i, number) in numbers.iter().enumerate() {
        if numbers[..i].contains(number) {
            problem(format!("{number} appears twice"));
        }
    }
}
