//! Warning about a table of embeddings in which most vectors are equal, as those of a collapsed model.

use pairloom_stage::StageContext;

/// Largest difference of two values that count as equal: ten roundings of an f32 of size 1.
const TOLERANCE: f32 = 1e-6;
/// Number of vectors from which on a majority of equal ones causes a warning. Below, all must be equal.
const MANY: usize = 20;

/// Warns if all vectors are equal, or more than half of many. `items` is a plural such as `images`.
pub(super) fn warn_of_equal_vectors(
    cx: &mut StageContext<'_>,
    (split, items): (&str, &str),
    vectors: &[f32],
    width: usize,
) {
    let total = vectors.len() / width.max(1);
    let equal = most_equal(vectors, width);
    if equal < 2 || (equal < total && (total < MANY || equal * 2 <= total)) {
        return;
    }
    let count = if equal == total { format!("all {total}") } else { format!("{equal} of {total}") };
    let message = format!(
        "{count} vectors are equal, up to {TOLERANCE:e}: their scores tie, and the order of the rows or rounding decides \
         their ranks; the model has collapsed to a constant, or the vectors were repeated by mistake"
    );
    cx.warn(format!("{items} of split `{split}`"), message);
}

/// Number of vectors that equal the most frequent one, if that is more than half of them; otherwise some smaller number.
///
/// The majority vote of Boyer and Moore, "MJRTY: a fast majority vote algorithm", 1991.
fn most_equal(vectors: &[f32], width: usize) -> usize {
    let rows = || vectors.chunks_exact(width.max(1));
    let is_equal = |a: &[f32], b: &[f32]| a.iter().zip(b).all(|(a, b)| (a - b).abs() <= TOLERANCE);
    let (mut candidate, mut votes): (&[f32], usize) = (&[], 0);
    for row in rows() {
        if votes == 0 {
            (candidate, votes) = (row, 1);
        } else if is_equal(row, candidate) {
            votes += 1;
        } else {
            votes -= 1;
        }
    }
    rows().filter(|row| is_equal(row, candidate)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pairloom_stage_testing::InMemoryHost;

    /// Returns the warnings for vectors of two values, by the number of their first value.
    fn warnings(firsts: &[f32]) -> Vec<String> {
        let vectors: Vec<f32> = firsts.iter().flat_map(|&first| [first, 0.5]).collect();
        let mut host = InMemoryHost::default();
        warn_of_equal_vectors(&mut host, ("test", "images"), &vectors, 2);
        host.warnings.iter().map(|warning| format!("{}: {}", warning.subject, warning.message)).collect()
    }

    #[test]
    fn equal_vectors_are_counted() {
        let message = &warnings(&[0.25; 1000])[0];
        assert!(message.starts_with("images of split `test`: all 1000 vectors are equal, up to 1e-6"), "{message}");
        // A vector that differs by rounding is equal.
        assert!(warnings(&[0.25, 0.25 + f32::EPSILON])[0].contains("all 2 vectors"));
        let mut mixed: Vec<f32> = (0..9u8).map(f32::from).collect();
        mixed.extend([-1.0; 11]);
        assert!(warnings(&mixed)[0].contains("11 of 20 vectors are equal"));
        mixed[10] = -2.0;
        assert_eq!(warnings(&mixed), [""; 0]);
        assert_eq!(warnings(&[0.1, 0.1, 0.2]), [""; 0]);
        assert_eq!((warnings(&[0.1]), warnings(&[])), (vec![], vec![]));
    }
}
