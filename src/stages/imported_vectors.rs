//! Settings of stages that import the vectors of images.

use pairloom_stage::Problem;

/// Largest number of regions of an image that can be imported.
const MAX_REGIONS: usize = 1000;

/// Largest number of values of the regions of an image. Parts of a hundred images are written at once.
const MAX_ROW_VALUES: usize = 1 << 20;

/// Checks the number of values of an image with `places` regions of vectors of `width` values.
pub(super) fn check_row_values(places: usize, width: usize) -> Result<(), String> {
    let values = places.saturating_mul(width);
    if values > MAX_ROW_VALUES {
        return Err(format!(
            "an image has {values} values ({places} regions by `max_regions`, {width} values each), expected at most \
             {MAX_ROW_VALUES}"
        ));
    }
    Ok(())
}

/// Problems of the settings `max_regions` and `max_skipped` of a stage that imports vectors.
pub(super) fn import_problems(max_regions: Option<usize>, max_skipped: f64) -> Vec<Problem> {
    let mut problems = Vec::new();
    if let Some(places) = max_regions.filter(|places| !(1..=MAX_REGIONS).contains(places)) {
        problems.push(Problem::new("max_regions", format!("got {places}, expected 1 to {MAX_REGIONS}")));
    }
    if !(0.0..=1.0).contains(&max_skipped) {
        problems.push(Problem::new("max_skipped", format!("got {max_skipped}, expected 0 to 1")));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_too_many_values_are_refused() {
        // Grids of CLIP's largest vision transformer, and a thousand regions.
        assert_eq!(check_row_values(577, 1_024), Ok(()));
        assert_eq!(check_row_values(1_000, 1_048), Ok(()));
        let message = check_row_values(1_000, 16_384).unwrap_err();
        assert!(message.starts_with("an image has 16384000 values (1000 regions by `max_regions`, 16384 values each)"));
    }
}
