//! Parsing and checking of safetensors files.
//!
//! Format: an 8-byte length, a JSON header, raw little-endian tensors (<https://huggingface.co/docs/safetensors>).
//! Pickles (`.pth`, `.pt`) are not read, because reading a pickle runs the program in it.

use safetensors::tensor::{Dtype, TensorView};
use safetensors::{SafeTensorError, SafeTensors};
use tch::{Kind, Tensor};

use pairloom_base::error::{Error, Result, TruncatedList};

/// End of the message about values that are not finite.
pub(super) const NOT_FINITE: &str = "holds a NaN or an infinity";

/// Maximum length of a header in bytes, with some 100 for each tensor. Parsed it takes 20 times as much memory.
const MAX_HEADER_BYTES: u64 = 16 << 20;

/// Parses a safetensors file. The tensors stay bytes.
///
/// # Errors
/// Bytes that are not safetensors, or are truncated, or have a header of more than 16 MiB.
pub fn parse(bytes: &[u8]) -> Result<SafeTensors<'_>> {
    // A longer header than the file belongs to another format.
    if let Some((length, rest)) = bytes.split_first_chunk()
        && let length = u64::from_le_bytes(*length)
        && (MAX_HEADER_BYTES + 1..=rest.len() as u64).contains(&length)
    {
        let message = format!("its safetensors header has {length} bytes, wanted at most {MAX_HEADER_BYTES}");
        return Err(Error::data(message).hint("long texts beside the tensors belong into another file"));
    }
    SafeTensors::deserialize(bytes).map_err(|error| {
        let this = Error::data(match (&error, bytes) {
            (_, []) => "not a safetensors file: it is empty (0 bytes)".to_owned(),
            (SafeTensorError::MetadataIncompleteBuffer, _) => {
                "the safetensors file is cut short or damaged: its tensors do not fill it".to_owned()
            }
            _ => format!("not a safetensors file ({error:?})"),
        });
        if is_pickle(bytes) {
            return this.hint(
                "this looks like a pickle of `torch.save`, which is not read because that can run code; convert it once \
                 with `safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)`",
            );
        }
        this
    })
}

/// Returns true if the bytes look like a file of `torch.save`: a zip archive, or a bare pickle, which begins with 0x80.
pub(super) fn is_pickle(bytes: &[u8]) -> bool {
    let bare = bytes.first() == Some(&0x80) && bytes.get(1).is_some_and(|&version| version <= 5);
    bare || bytes.starts_with(b"PK")
}

/// Reads the f32 tensor `name` to the CPU and checks its shape if `shape` is given.
///
/// # Errors
/// Message about values that are not f32 or not finite, or about another shape.
pub(super) fn read_tensor(
    name: &str,
    view: &TensorView<'_>,
    shape: Option<&[usize]>,
) -> std::result::Result<Tensor, String> {
    if view.dtype() != Dtype::F32 {
        return Err(format!("`{name}` holds {:?}, wanted F32", view.dtype()));
    }
    if let Some(shape) = shape.filter(|shape| view.shape() != *shape) {
        return Err(format!("`{name}` has shape {:?}, wanted {shape:?}", view.shape()));
    }
    let mut values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if !values.all(f32::is_finite) {
        return Err(format!("`{name}` {NOT_FINITE}"));
    }
    let of_tensor = |error: Error| format!("`{name}`: {error}");
    let shape = to_tensor_shape(view.shape()).map_err(of_tensor)?;
    Tensor::f_from_data_size(view.data(), &shape, Kind::Float).map_err(|error| of_tensor(libtorch_error(&error)))
}

/// Error of a file with these mistakes; `None` without mistakes.
pub(super) fn mistakes_error(mistakes: &TruncatedList) -> Option<Error> {
    (!mistakes.is_empty()).then(|| Error::data(mistakes.join("; ")))
}

/// Converts a shape to libtorch's type.
///
/// # Errors
/// A size of 2⁶³ or more.
pub(super) fn to_tensor_shape(shape: &[usize]) -> Result<Vec<i64>> {
    let sizes = shape.iter().map(|&size| i64::try_from(size)).collect::<std::result::Result<_, _>>();
    sizes.map_err(|_| Error::data(format!("shape {shape:?} is too large")))
}

/// Error of libtorch, without the C++ stack frames that follow the first line.
pub(super) fn libtorch_error(error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    Error::stage(format!("libtorch failed: {}", text.lines().next().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_of_more_than_16_mib_is_refused_before_it_is_parsed() {
        let file = |length: usize| {
            let mut bytes = (length as u64).to_le_bytes().to_vec();
            bytes.extend_from_slice(b"{\"__metadata__\":{\"a\":\"b\"}}");
            bytes.resize(8 + length, b' ');
            bytes
        };
        assert!(parse(&file(100)).unwrap().is_empty());
        assert!(parse(&file(16 << 20)).unwrap().is_empty());
        let error = parse(&file((16 << 20) + 1)).unwrap_err();
        assert_eq!(error.to_string(), "its safetensors header has 16777217 bytes, wanted at most 16777216");
        // Such a length in a file of another format.
        let error = parse(b"a dog on a beach").unwrap_err();
        assert!(error.to_string().starts_with("not a safetensors file"), "{error}");
    }
}
