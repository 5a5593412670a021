//! JSON objects whose first field is a checksum of what follows it, by which changed bytes are known.
//!
//! `{"checksum":"<BLAKE3 of the rest, 64 digits>",<rest>`. Builds that do not know the field ignore it in a struct. They
//! take an entry of a journal for damaged, because it is an enum.

use serde::Serialize;
use serde::de::{DeserializeOwned, Error as _};

use pairloom_base::error::{Error, Result};

const START: &[u8] = b"{\"checksum\":\"";
const END: &[u8] = b"\",";
const CHECKSUM_DIGITS: usize = 2 * blake3::OUT_LEN;

/// JSON of a struct that has fields, with its checksum.
///
/// # Errors
/// The value is no JSON object.
pub fn with_checksum(value: &impl Serialize) -> Result<Vec<u8>> {
    let json = serde_json::to_vec(value).map_err(|error| Error::internal(error.to_string()))?;
    let rest = json.strip_prefix(b"{").ok_or_else(|| Error::internal("only objects have a checksum"))?;
    Ok([START, blake3::hash(rest).to_hex().as_bytes(), END, rest].concat())
}

/// Parses JSON, and checks its checksum. Objects of older versions have none.
///
/// # Errors
/// The checksum is another one, or the text is not JSON of such a value.
pub fn parse_checked<T: DeserializeOwned>(content: &[u8]) -> serde_json::Result<T> {
    let after_start = content.strip_prefix(START).and_then(|rest| rest.split_at_checked(CHECKSUM_DIGITS));
    let Some((checksum, rest)) = after_start else { return serde_json::from_slice(content) };
    match rest.strip_prefix(END) {
        Some(rest) if blake3::hash(rest).to_hex().as_bytes() == checksum => {
            // The checksum is left out: an enum may have one field only.
            serde_json::from_slice(&[&b"{"[..], rest].concat())
        }
        _ => Err(serde_json::Error::custom("it was changed after it was written: its checksum differs")),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_changed_bit_is_known_or_changes_nothing() {
        #[derive(Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        struct Scored {
            rsum: u32,
            of: BTreeMap<String, String>,
        }
        let value = Scored { rsum: 231, of: BTreeMap::from([("a".to_owned(), "b".to_owned())]) };
        let content = with_checksum(&value).unwrap();
        assert_eq!(parse_checked::<Scored>(&content).unwrap(), value);
        assert_eq!(serde_json::from_slice::<Scored>(&content).unwrap(), value);
        assert_eq!(parse_checked::<Scored>(br#"{"rsum": 231, "of": {"a": "b"}}"#).unwrap(), value);
        for bit in 0..8 * content.len() {
            let mut changed = content.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            // A change of the name of the field makes it an object without a checksum.
            match parse_checked::<Scored>(&changed) {
                Ok(read) => assert!(read == value && bit / 8 < START.len(), "{bit}"),
                Err(error) => assert!(bit / 8 < START.len() || error.to_string().contains("checksum"), "{error}"),
            }
        }
    }
}
