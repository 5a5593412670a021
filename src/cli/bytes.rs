//! Sizes in bytes and counts, as people write and read them.

use std::time::Duration;

/// Units by name, in bytes.
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

/// Bytes from `512MiB`, `2GB` or a plain number. `K`, `M` and `G` are powers of 1,024.
///
/// # Errors
/// Anything else, zero, and what does not fit.
pub fn parse(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].trim();
    let factor = match unit {
        "" | "B" => 1,
        name => UNITS
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, factor)| *factor)
            .ok_or_else(|| format!("`{name}` is no unit, wanted KiB, MiB, GiB, kB, MB or GB"))?,
    };
    let number: u64 = digits.trim().parse().map_err(|_| format!("`{text}` is no size, wanted for example `512MiB`"))?;
    match number.checked_mul(factor) {
        Some(0) => Err("0 bytes are too few".to_owned()),
        Some(bytes) => Ok(bytes),
        None => Err(format!("`{text}` is more than 2^64 bytes")),
    }
}

/// `12.3 MiB`.
pub(super) fn human(bytes: u64) -> String {
    let (name, factor) = match bytes {
        0..1024 => return format!("{bytes} B"),
        1024..1_048_576 => ("KiB", 1u64 << 10),
        1_048_576..1_073_741_824 => ("MiB", 1 << 20),
        _ => ("GiB", 1 << 30),
    };
    // Tenths in whole numbers: no precision is lost on the way.
    let tenths = bytes / (factor / 10).max(1);
    format!("{}.{} {name}", tenths / 10, tenths % 10)
}

/// `12,345`.
pub(super) fn count(number: u64) -> String {
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

/// `350 ms`, `12.3 s`, `4 min 05 s`.
pub(super) fn seconds(seconds: f64) -> String {
    let duration = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        1..60 => format!("{}.{} s", duration.as_secs(), duration.subsec_millis() / 100),
        60..3600 => format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60),
        long => format!("{} h {:02} min", long / 3600, long % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse("512MiB"), Ok(512 << 20));
        assert_eq!(parse(" 2 gb "), Ok(2_000_000_000));
        assert_eq!(parse("100"), Ok(100));
        assert_eq!(parse("4K"), Ok(4096));
        assert!(parse("4X").unwrap_err().contains("no unit"));
        for wrong in ["", "-4", "1.5GiB", "0", "99999999999999999999", "18446744073709551615KiB"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([human(0), human(1023), human(1536), human(5 << 30)], ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]);
        assert_eq!([count(0), count(999), count(1000), count(1_234_567)], ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [seconds(0.0421), seconds(12.34), seconds(245.9), seconds(3700.0)],
            ["42 ms", "12.3 s", "4 min 05 s", "1 h 01 min"]
        );
    }
}
