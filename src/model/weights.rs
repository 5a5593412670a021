//! Weights of a network: from a safetensors file, checked against what the network wants.
//!
//! Format: an 8-byte length, a JSON header, raw little-endian tensors (<https://huggingface.co/docs/safetensors>).
//! Pickles (`.pth`, `.pt`) are not read: a pickle is a program, and reading it runs it.

use std::collections::{BTreeSet, HashMap};

use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView};
use tch::{Kind, TchError, Tensor};

use crate::error::{Error, Result};

/// Mistakes of a file that one message lists.
const LISTED: usize = 20;

/// A parameter that a network wants: its name in the file, and its shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// Name, such as `layer1.0.conv1.weight`.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
}

/// Reads exactly the `wanted` parameters, f32, onto the processor. Names for which `unneeded` holds are passed over.
///
/// # Errors
/// Bytes that are not safetensors; parameters that are missing, unknown, of another shape or type, or not finite: all of
/// them in one message.
pub fn read(bytes: &[u8], wanted: &[Wanted], unneeded: impl Fn(&str) -> bool) -> Result<HashMap<String, Tensor>> {
    let file = SafeTensors::deserialize(bytes).map_err(|error| not_safetensors(bytes, &error))?;
    let mut found: HashMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let mut tensors = HashMap::with_capacity(wanted.len());
    let mut mistakes = Vec::new();
    for parameter in wanted {
        let name = &parameter.name;
        match found.remove(name) {
            None => mistakes.push(format!("`{name}` {:?} is missing", parameter.shape)),
            Some(view) if view.dtype() != Dtype::F32 => {
                mistakes.push(format!("`{name}` holds {:?}, wanted F32", view.dtype()));
            }
            Some(view) if view.shape() != parameter.shape => {
                mistakes.push(format!("`{name}` has shape {:?}, wanted {:?}", view.shape(), parameter.shape));
            }
            Some(view) if !is_finite(view.data()) => mistakes.push(format!("`{name}` holds a NaN or an infinity")),
            Some(view) => {
                tensors.insert(name.clone(), tensor(view.data(), &parameter.shape)?);
            }
        }
    }
    let unknown: BTreeSet<String> = found.into_keys().filter(|name| !unneeded(name)).collect();
    mistakes.extend(unknown.into_iter().map(|name| format!("`{name}` is not of this network")));
    if mistakes.is_empty() {
        return Ok(tensors);
    }
    let count = mistakes.len();
    if count > LISTED {
        mistakes.truncate(LISTED);
        mistakes.push(format!("and {} more", count - LISTED));
    }
    Err(Error::data(mistakes.join("; "))
        .hint("the parameters have other names or shapes: is this a file of the network named?"))
}

/// A tensor of f32 from little-endian bytes.
///
/// # Errors
/// libtorch cannot hold it.
fn tensor(bytes: &[u8], shape: &[usize]) -> Result<Tensor> {
    let shape = sizes(shape)?;
    Tensor::f_from_data_size(bytes, &shape, Kind::Float).map_err(|error| refused(&error))
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
pub(super) fn refused(error: &TchError) -> Error {
    let text = error.to_string();
    Error::stage(format!("libtorch refused: {}", text.lines().next().unwrap_or_default()))
}

fn is_finite(bytes: &[u8]) -> bool {
    bytes.chunks_exact(4).all(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]).is_finite())
}

fn not_safetensors(bytes: &[u8], error: &dyn std::fmt::Debug) -> Error {
    let this = Error::data(format!("not a safetensors file ({error:?})"));
    // A zip archive is what `torch.save` writes; 0x80 opens a bare pickle.
    if bytes.starts_with(b"PK") || bytes.first() == Some(&0x80) && bytes.get(1).is_some_and(|&version| version <= 5) {
        return this.hint(
            "this looks like a pickle of `torch.save`, which is not read because reading runs it; convert it once with \
             `safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)`",
        );
    }
    this
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::serialize;

    use super::*;

    fn file(parameters: &[(&str, Dtype, &[usize], &[u8])]) -> Vec<u8> {
        let views = parameters
            .iter()
            .map(|&(name, dtype, shape, data)| (name, TensorView::new(dtype, shape.to_vec(), data).unwrap()));
        serialize(views, &None).unwrap()
    }

    fn wanted(name: &str, shape: &[usize]) -> Wanted {
        Wanted { name: name.to_owned(), shape: shape.to_vec() }
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn reads_values_and_passes_over_what_is_not_needed() {
        let values = bytes(&[1.0, -2.5, 3.0, 0.25]);
        let file = file(&[("a", Dtype::F32, &[2, 2], &values), ("steps", Dtype::I64, &[], &[7, 0, 0, 0, 0, 0, 0, 0])]);
        let read = read(&file, &[wanted("a", &[2, 2])], |name| name == "steps").unwrap();
        assert_eq!(read["a"], Tensor::from_slice(&[1.0f32, -2.5, 3.0, 0.25]).view([2, 2]));
        assert_eq!(read.len(), 1);
    }

    #[test]
    fn reports_every_mistake_at_once() {
        let two = bytes(&[1.0, 2.0]);
        let nan = bytes(&[f32::NAN]);
        let file = file(&[
            ("shape", Dtype::F32, &[2], &two),
            ("kind", Dtype::I32, &[2], &two),
            ("nan", Dtype::F32, &[1], &nan),
            ("extra", Dtype::F32, &[2], &two),
        ]);
        let wanted = [wanted("shape", &[1, 2]), wanted("kind", &[2]), wanted("nan", &[1]), wanted("gone", &[3])];
        let error = read(&file, &wanted, |_| false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`shape` has shape [2], wanted [1, 2]; `kind` holds I32, wanted F32; `nan` holds a NaN or an infinity; \
             `gone` [3] is missing; `extra` is not of this network"
        );
    }

    #[test]
    fn many_mistakes_are_counted() {
        let wanted: Vec<Wanted> = (0..25).map(|i| wanted(&format!("p{i}"), &[1])).collect();
        let error = read(&file(&[]), &wanted, |_| false).unwrap_err().to_string();
        assert!(error.ends_with("; and 5 more"), "{error}");
    }

    #[test]
    fn damaged_files_are_refused() {
        let values = bytes(&[1.0, 2.0]);
        let file = file(&[("a", Dtype::F32, &[2], &values)]);
        for length in 0..file.len() {
            assert!(read(&file[..length], &[wanted("a", &[2])], |_| false).is_err(), "{length} bytes");
        }
        let mut huge = file;
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read(&huge, &[wanted("a", &[2])], |_| false).is_err());
        let error = read(b"PK\x03\x04archive/data.pkl", &[], |_| false).unwrap_err();
        assert!(error.hint_text().unwrap().contains("save_file"));
    }
}
