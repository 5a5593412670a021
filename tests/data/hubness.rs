//! Inputs of the cases in `tests/golden/hubness.json`, by the same formulas as in `hubness.py`.

use serde_json::Value;

/// Content of `hubness.json`.
pub fn golden() -> Value {
    crate::golden_json("hubness.json")
}

/// Size of a case.
///
/// # Panics
/// If the case has no size of this name.
pub fn size(case: &Value, name: &str) -> usize {
    usize::try_from(case[name].as_u64().expect("a size")).expect("a small size")
}

/// Numbers of a JSON list.
///
/// # Panics
/// If the value is not a list of numbers.
pub fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// `stream` of `hubness.py`: `count` pseudorandom numbers in [0, 1).
pub fn stream(seed: u32, count: usize) -> Vec<f64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        f64::from(state) / 2f64.powi(32)
    };
    (0..count).map(|_| next()).collect()
}

/// `scores` of `hubness.py`: returns the score function of a query and an item.
pub fn scores(case: &Value, seed: u32, queries: usize, items: usize) -> impl Fn(usize, usize) -> f64 {
    let grid = if case["ties"] == true { 8.0 } else { 1024.0 };
    let duplicates = case["duplicates"] == true;
    let random = stream(seed, queries * items);
    move |query, item| {
        let copied = |place: usize| if duplicates && place % 5 == 4 { place - 1 } else { place };
        let (query, item) = (copied(query), copied(item));
        let near = if item % 4 == 1 { 0.25 } else { 0.0 };
        (random[query * items + item] * 1.5 * grid).floor() / grid - 0.75 + near
    }
}

/// `vectors` of `hubness.py`: `rows` vectors of `width` numbers, row-major.
pub fn vectors(seed: u32, rows: usize, width: usize) -> Vec<f64> {
    stream(seed, rows * width).iter().map(|random| (random * 64.0).floor() / 32.0 - 1.0).collect()
}

/// Asserts that a matrix has the `digest` of `hubness.py`.
///
/// # Panics
/// If a number differs by more than 1e-12 relative to the sum of absolute values.
pub fn assert_digest(values: &[f64], wanted: &Value, what: &str) {
    let product = |other: &[f64]| values.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
    let last = values.len() - 2;
    let (sum, squares) = (values.iter().map(|value| value.abs()).sum::<f64>(), product(values));
    let got = [
        (product(&stream(101, values.len())), sum),
        (product(&stream(202, values.len())), sum),
        (squares, squares),
        (values[0], values[0].abs()),
        (values[1], values[1].abs()),
        (values[last], values[last].abs()),
        (values[last + 1], values[last + 1].abs()),
    ];
    let wanted = numbers(wanted);
    assert_eq!(wanted.len(), got.len());
    for ((got, size), wanted) in got.into_iter().zip(wanted) {
        assert!((got - wanted).abs() <= 1e-12 * size.max(1.0), "{what}: {got} and {wanted}");
    }
}
