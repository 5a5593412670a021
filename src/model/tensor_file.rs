//! Bytes of a safetensors file to tensors: what all that reads such files has in common.
//!
//! Format: an 8-byte length, a JSON header, raw little-endian tensors (<https://huggingface.co/docs/safetensors>).
//! Pickles (`.pth`, `.pt`) are not read: a pickle is a program, and reading it runs it.

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tch::{Kind, Tensor};

use crate::error::{Error, Result, TruncatedList};

/// The tensors of a file, still as bytes.
///
/// # Errors
/// Bytes that are not safetensors, or cut short.
pub(super) fn open(bytes: &[u8]) -> Result<SafeTensors<'_>> {
    SafeTensors::deserialize(bytes).map_err(|error| {
        let this = Error::data(format!("not a safetensors file ({error:?})"));
        if is_pickle(bytes) {
            return this.hint(
                "this looks like a pickle of `torch.save`, which is not read because reading runs it; convert it once \
                 with `safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)`",
            );
        }
        this
    })
}

/// Whether bytes that are no safetensors look like what `torch.save` writes: a zip archive, or a bare pickle, which 0x80
/// opens.
pub(super) fn is_pickle(bytes: &[u8]) -> bool {
    let bare = bytes.first() == Some(&0x80) && bytes.get(1).is_some_and(|&version| version <= 5);
    bare || bytes.starts_with(b"PK")
}

/// The f32 tensor `name` on the processor; of `shape`, where one is wanted.
///
/// # Errors
/// As a sentence: values that are not f32 or not finite, or another shape.
pub(super) fn tensor(
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
        return Err(format!("`{name}` holds a NaN or an infinity"));
    }
    let of_tensor = |error: Error| format!("`{name}`: {error}");
    let shape = sizes(view.shape()).map_err(of_tensor)?;
    Tensor::f_from_data_size(view.data(), &shape, Kind::Float).map_err(|error| of_tensor(refused(&error)))
}

/// The error of a file with these mistakes, if there are any.
pub(super) fn mistaken(mistakes: &TruncatedList) -> Option<Error> {
    (!mistakes.is_empty()).then(|| Error::data(mistakes.join("; ")))
}

/// A shape as libtorch wants it.
///
/// # Errors
/// A size beyond 2⁶³.
pub(super) fn sizes(shape: &[usize]) -> Result<Vec<i64>> {
    let sizes = shape.iter().map(|&size| i64::try_from(size)).collect::<std::result::Result<_, _>>();
    sizes.map_err(|_| Error::data(format!("shape {shape:?} is too large")))
}

/// What libtorch says, without the C++ frames that follow its first line.
pub(super) fn refused(error: &dyn std::fmt::Display) -> Error {
    let text = error.to_string();
    Error::stage(format!("libtorch refused: {}", text.lines().next().unwrap_or_default()))
}
