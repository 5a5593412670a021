//! Human-readable sizes, counts and durations.

use std::time::Duration;

use az::SaturatingAs;

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
            .ok_or_else(|| format!("`{name}` is not a unit, expected KiB, MiB, GiB, kB, MB or GB"))?,
    };
    let number: u64 = digits
        .trim()
        .parse()
        .map_err(|_| format!("`{text}` is not a size, expected a whole number and a unit: `512MiB`"))?;
    match number.checked_mul(factor) {
        Some(0) => Err("size is 0, expected at least 1 byte".to_owned()),
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
    Err(format!("{} is too little, expected at least 1 MiB; did you mean `{number}MiB`?", format_bytes(bytes)))
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

/// Formats the time that is left: `16 s`, `4 min 05 s`, `1 h 01 min`. Whole seconds, at least one.
pub(super) fn format_time_left(seconds: f64) -> String {
    let seconds = seconds.ceil().max(1.0);
    if seconds < 60.0 { format!("{seconds} s") } else { format_duration(seconds) }
}

/// Formats a rate: `1,240/s`, `23.3/s`, or, below one a second, the time of one `unit`: `2.4 s/step`.
pub(super) fn format_rate(per_second: f64, unit: &str) -> String {
    match per_second {
        rate if rate >= 99.95 => format!("{}/s", format_count(rate.round().saturating_as::<u64>())),
        rate if rate >= 1.0 => format!("{rate:.1}/s"),
        rate => format!("{}/{}", format_duration(1.0 / rate), singular(unit)),
    }
}

/// Formats a number with at most `digits` significant digits, without zeros at the end: `0.1235`, `231.4`, `1,240`.
pub(super) fn format_number(number: f64, digits: usize) -> String {
    let rounded = format!("{number:.*e}", digits.saturating_sub(1));
    let Ok(rounded) = rounded.parse::<f64>() else { return number.to_string() };
    let size = rounded.abs();
    if size >= 1e15 || (size > 0.0 && size < 1e-4) || !size.is_finite() {
        return format!("{rounded:e}");
    }
    // The shortest decimal that is read as the rounded number has no more digits than were kept.
    let text = size.to_string();
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let whole = whole.parse().map_or(whole.to_owned(), format_count);
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{whole}{point}{fraction}", if rounded < 0.0 { "-" } else { "" })
}

/// Formats a number of things: `1 run`, `3 runs`, `12,345 rows`. `plural` is their name.
pub fn format_items(number: usize, plural: &str) -> String {
    let name = if number == 1 { singular(plural) } else { plural.to_owned() };
    format!("{} {name}", format_count(number as u64))
}

/// Singular of an English plural: `step`, `query`.
fn singular(plural: &str) -> String {
    match plural.strip_suffix("ies") {
        Some(stem) => format!("{stem}y"),
        None => plural.strip_suffix('s').unwrap_or(plural).to_owned(),
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
        let expected = |got: &str, number: u32| {
            Err(format!("{got} is too little, expected at least 1 MiB; did you mean `{number}MiB`?"))
        };
        assert_eq!(parse_capacity("10"), expected("10 B", 10));
        assert_eq!(parse_capacity("512 KiB"), expected("512.0 KiB", 512));
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
        assert_eq!([0.2, 15.1, 245.9, 3700.0].map(format_time_left), ["1 s", "16 s", "4 min 06 s", "1 h 01 min"]);
    }

    #[test]
    fn rates_are_numbers_a_second_or_seconds_for_one() {
        assert_eq!(
            [23.302_482_595_222, 1239.6, 99.96, 1.0].map(|rate| format_rate(rate, "steps")),
            ["23.3/s", "1,240/s", "100/s", "1.0/s"]
        );
        assert_eq!(format_rate(1.0 / 2.4, "steps"), "2.4 s/step");
        assert_eq!(format_rate(1.0 / 65.0, "queries"), "1 min 05 s/query");
    }

    #[test]
    fn one_thing_is_singular() {
        let texts = [(0, "runs"), (1, "runs"), (2, "runs"), (1, "queries"), (1234, "rows")];
        assert_eq!(
            texts.map(|(number, plural)| format_items(number, plural)),
            ["0 runs", "1 run", "2 runs", "1 query", "1,234 rows"]
        );
    }

    #[test]
    fn numbers_keep_their_first_digits() {
        assert_eq!(
            [231.449_1, 0.123_456, 8.0, -12.0, 1_240.4, 0.0, 123_456.0].map(|number| format_number(number, 4)),
            ["231.4", "0.1235", "8", "-12", "1,240", "0", "123,500"]
        );
        assert_eq!([0.000_012_345, 9.999_96].map(|number| format_number(number, 4)), ["1.234e-5", "10"]);
        assert_eq!(format_number(f64::NAN, 4), "NaN");
    }
}
