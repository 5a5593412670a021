//! Human-readable sizes, counts and durations.

use std::time::Duration;

/// Names of units and their bytes.
const UNITS: [(&str, u64); 9] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("K", 1 << 10),
    ("M", 1 << 20),
    ("G", 1 << 30),
];

/// Parses a size in bytes: `512MiB`, `2GB` or a plain number. `K`, `M` and `G` are powers of 1,024.
///
/// # Errors
/// Not such a size, zero, or more than fits a `u64`.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].trim();
    let factor = match unit {
        "" | "B" => 1,
        name => UNITS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, factor)| *factor)
            .ok_or_else(|| format!("`{name}` is not a unit, wanted KiB, MiB, GiB, kB, MB or GB"))?,
    };
    let number: u64 = digits
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a size, wanted a whole number and a unit: `512MiB`"))?;
    match number.checked_mul(factor) {
        Some(0) => Err("size is 0, wanted at least 1 byte".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("`{text}` is more than 2^64 bytes")),
    }
}

/// Smallest size of memory or cache. Less holds not even one image, and is a number whose unit was forgotten.
const LEAST_BYTES: u64 = 1 << 20;

/// Parses a size of memory or of a cache, as [`parse_bytes`] does.
///
/// # Errors
/// As [`parse_bytes`], or less than 1 MiB.
pub fn parse_capacity(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes >= LEAST_BYTES {
        return Ok(bytes);
    }
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic()).trim();
    Err(format!("{} is too little, wanted at least 1 MiB; did you mean `{number}MiB`?", format_bytes(bytes)))
}

/// Formats bytes as `12.3 MiB`.
pub(super) fn format_bytes(bytes: u64) -> String {
    let (name, factor) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => ("KiB", 1u64 << 10),
        1_048_576..1_073_741_824 => ("MiB", 1 << 20),
        _ => ("GiB", 1 << 30),
    };
    // Tenths in integers: exact for any size.
    let tenths = u128::from(bytes) * 10 / u128::from(factor);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// Formats a count as `12,345`.
pub(super) fn format_count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a duration as `350 ms`, `12.3 s` or `4 min 05 s`.
pub(super) fn format_duration(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{}.{} s", duration.as_secs(), duration.subsec_millis() / 100),
        60..3600 => format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60),
        long => format!("{} h {:02} min", long / 3600, long % 3600 / 60),
    }
}

/// Formats a score with at most two decimal places: `242.8`, `0.73`.
pub(super) fn format_score(score: f64) -> String {
    let text = format!("{score:.2}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Formats the time since `then`: `just now`, `5 min ago`, `3 h ago`, `12 days ago`.
pub(super) fn format_age(then: jiff::Timestamp) -> String {
    format_elapsed((jiff::Timestamp::now() - then).total(jiff::Unit::Second).unwrap_or(0.0))
}

fn format_elapsed(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match duration.as_secs() {
        0..60 => "just now".to_owned(),
        short @ 60..3600 => format!("{} min ago", short / 60),
        hours @ 3600..172_800 => format!("{} h ago", hours / 3600),
        long => format!("{} days ago", long / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_and_ages_are_formatted_for_eyes() {
        assert_eq!([format_score(242.8), format_score(300.0), format_score(0.734_9)], ["242.8", "300", "0.73"]);
        assert_eq!(
            [
                format_elapsed(-3.0),
                format_elapsed(59.9),
                format_elapsed(3599.0),
                format_elapsed(100_000.0),
                format_elapsed(864_000.0)
            ],
            ["just now", "just now", "59 min ago", "27 h ago", "10 days ago"]
        );
    }

    #[test]
    fn sizes_are_parsed_with_units() {
        assert_eq!(parse_bytes("512MiB"), Ok(512 << 20));
        assert_eq!(parse_bytes(" 2 gb "), Ok(2_000_000_000));
        assert_eq!(parse_bytes("100"), Ok(100));
        assert_eq!(parse_bytes("4K"), Ok(4096));
        assert!(parse_bytes("4X").unwrap_err().contains("not a unit"));
        for wrong in ["", "-4", "1.5GiB", "0", "99999999999999999999", "18446744073709551615KiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_capacity_without_a_unit_is_refused() {
        assert_eq!(parse_capacity("1MiB"), Ok(1 << 20));
        assert_eq!(parse_capacity("2000000"), Ok(2_000_000));
        let wanted = |got: &str, number: u32| {
            Err(format!("{got} is too little, wanted at least 1 MiB; did you mean `{number}MiB`?"))
        };
        assert_eq!(parse_capacity("10"), wanted("10 B", 10));
        assert_eq!(parse_capacity("512 KiB"), wanted("512.0 KiB", 512));
    }

    #[test]
    fn numbers_are_formatted_with_few_digits() {
        assert_eq!(
            [format_bytes(0), format_bytes(1023), format_bytes(1536), format_bytes(512 << 10), format_bytes(5 << 30)],
            ["0 B", "1023 B", "1.5 KiB", "512.0 KiB", "5.0 GiB"]
        );
        assert_eq!(
            [format_count(0), format_count(999), format_count(1000), format_count(1_234_567)],
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!(
            [format_duration(0.0421), format_duration(12.34), format_duration(245.9), format_duration(3700.0)],
            ["42 ms", "12.3 s", "4 min 05 s", "1 h 01 min"]
        );
    }
}
