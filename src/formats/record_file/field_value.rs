//! Value of a field of a record.

use std::borrow::Cow;

use serde_json::Value;

use pairloom_storage::image_names::shown_name;

/// Bytes that a text of a list takes beside its letters.
const ITEM_BYTES: u64 = 32;

/// Value of a field of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum FieldValue<'r> {
    /// Null, or a field that a JSON object lacks.
    Missing,
    /// Text.
    Text(&'r str),
    /// Whole number.
    Integer(i64),
    /// List of texts.
    Texts(Vec<&'r str>),
    /// Value of another type, with its description.
    Other(String),
}

impl<'r> FieldValue<'r> {
    /// Value of a JSON value.
    pub(super) fn of_json(value: Option<&'r Value>) -> Self {
        match value {
            None | Some(Value::Null) => Self::Missing,
            Some(Value::String(text)) => Self::Text(text),
            Some(Value::Array(items)) => match items.iter().map(Value::as_str).collect() {
                Some(texts) => Self::Texts(texts),
                None => Self::Other("is a list with values that are no texts".to_owned()),
            },
            Some(value) => match value.as_i64() {
                Some(number) => Self::Integer(number),
                None if value.is_object() => Self::Other("is an object".to_owned()),
                None => Self::Other(format!("is {value}")),
            },
        }
    }

    /// Number of bytes that its texts take in memory, about.
    pub(super) fn text_bytes(&self) -> u64 {
        match self {
            Self::Text(text) => text.len() as u64,
            Self::Texts(texts) => texts.iter().map(|text| ITEM_BYTES + text.len() as u64).sum(),
            Self::Missing | Self::Integer(_) | Self::Other(_) => 0,
        }
    }

    /// Text, or a whole number as text, without surrounding white space.
    ///
    /// # Errors
    /// Message that follows the name of the field: it is missing, empty, or of another type.
    pub fn name(&self) -> Result<Cow<'r, str>, String> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Err("is empty".to_owned()),
            Self::Text(text) => Ok(Cow::Borrowed(text.trim())),
            Self::Integer(number) => Ok(Cow::Owned(number.to_string())),
            Self::Missing => Err("is missing".to_owned()),
            Self::Texts(_) => Err("is a list, wanted a text or a whole number".to_owned()),
            Self::Other(description) => Err(format!("{description}, wanted a text or a whole number")),
        }
    }

    /// Whole number, or a text that is one.
    ///
    /// # Errors
    /// Message that follows the name of the field: it is no whole number.
    pub fn integer(&self) -> Result<i64, String> {
        let text = self.name().map_err(|problem| match self {
            Self::Texts(_) | Self::Other(_) => "is no whole number".to_owned(),
            _ => format!("{problem}, wanted a whole number"),
        })?;
        text.parse().map_err(|_| format!("is `{}`, wanted a whole number", shown_name(&text)))
    }

    /// Texts: one, or those of a list.
    ///
    /// # Errors
    /// Message that follows the name of the field: it has no text.
    pub fn texts(&self) -> Result<&[&'r str], String> {
        match self {
            Self::Text(text) => Ok(std::slice::from_ref(text)),
            Self::Texts(texts) if texts.is_empty() => Err("is an empty list".to_owned()),
            Self::Texts(texts) => Ok(texts),
            Self::Missing => Err("is missing".to_owned()),
            Self::Integer(number) => Err(format!("is {number}, wanted a text or a list of texts")),
            Self::Other(description) => Err(format!("{description}, wanted a text or a list of texts")),
        }
    }
}
