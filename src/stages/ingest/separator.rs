//! Setting for the separator of the columns of CSV files.

use pairloom_stage::Problem;

/// Checks the setting `separator` of a form.
pub(super) fn separator_problem(form: &str, separator: Option<char>) -> Option<Problem> {
    let character = separator?;
    let is_possible = character == '\t' || (character.is_ascii() && !character.is_ascii_control() && character != '"');
    (!is_possible || character.is_ascii_alphanumeric()).then(|| {
        let message = format!("got `{}`, wanted a character such as `;`", character.escape_debug());
        Problem::new(format!("{form}.separator"), message)
    })
}

/// Byte of a separator that [`separator_problem`] accepts.
pub(super) fn separator_byte(separator: Option<char>) -> Option<u8> {
    separator.and_then(|character| u8::try_from(character).ok())
}
