//! Digests of encoded images, as in the column `digest` of the table `images`.

use arrow::array::{BinaryArray, StringArray};

/// BLAKE3 digest of an encoded image, in hexadecimal digits.
#[must_use]
pub fn picture_digest(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// Digest of each encoded image; missing where the image is.
#[must_use]
pub fn picture_digests(bytes: &BinaryArray) -> StringArray {
    bytes.iter().map(|bytes| bytes.map(picture_digest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_blake3_and_missing_without_an_image() {
        // The digest of no bytes that the authors of BLAKE3 publish.
        let empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262";
        let digests = picture_digests(&BinaryArray::from(vec![None, Some(&b""[..]), None]));
        assert_eq!(digests, StringArray::from(vec![None, Some(empty), None]));
    }
}
