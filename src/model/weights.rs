//! Weights of a network from a safetensors file, checked against its architecture.

use std::collections::{BTreeSet, HashMap};

use safetensors::tensor::{Dtype, TensorView};
use tch::{Kind, Tensor};

use super::safetensors_file;
use pairloom_base::error::{Result, TruncatedList};

/// Parameter that a file must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedParameter {
    /// Name, such as `layer1.0.conv1.weight`.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
}

/// Reads exactly the `wanted` parameters to the CPU, as f32; those of 16 bits are widened. Tensors for whose name `unneeded` returns true are ignored.
///
/// # Errors
/// Bytes that are not safetensors; parameters that are missing, unknown, of another shape or type, or not finite, all
/// in one message.
pub fn read(
    bytes: &[u8],
    wanted: &[ExpectedParameter],
    unneeded: impl Fn(&str) -> bool,
) -> Result<HashMap<String, Tensor>> {
    let file = safetensors_file::parse(bytes)?;
    let mut found: HashMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let mut tensors = HashMap::with_capacity(wanted.len());
    let mut mistakes = TruncatedList::default();
    let mut are_all_values = true;
    for ExpectedParameter { name, shape } in wanted {
        match found.remove(name).map(|view| read_weights(name, &view, shape)) {
            None => {
                are_all_values = false;
                mistakes.push(format!("`{name}` {shape:?} is missing"));
            }
            Some(Err(mistake)) => {
                are_all_values &= mistake.ends_with(safetensors_file::NOT_FINITE);
                mistakes.push(mistake);
            }
            Some(Ok(tensor)) => {
                tensors.insert(name.clone(), tensor);
            }
        }
    }
    let unknown: BTreeSet<String> = found.into_keys().filter(|name| !unneeded(name)).collect();
    let has_unknown = !unknown.is_empty();
    mistakes.extend(unknown.into_iter().map(|name| format!("`{name}` is not a parameter of this CNN")));
    match safetensors_file::mistakes_error(&mistakes) {
        None => Ok(tensors),
        Some(error) if are_all_values && !has_unknown => {
            Err(error.hint("the file is damaged, or the training that wrote it diverged"))
        }
        Some(error) => Err(error.hint(
            "the names or shapes of the parameters differ: check that the file belongs to the CNN of the settings",
        )),
    }
}

/// Reads a tensor of f32, f16 or bf16 values as f32.
fn read_weights(name: &str, view: &TensorView<'_>, shape: &[usize]) -> std::result::Result<Tensor, String> {
    let kind = match view.dtype() {
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        _ => return safetensors_file::read_tensor(name, view, Some(shape)),
    };
    if view.shape() != shape {
        return Err(format!("`{name}` has shape {:?}, wanted {shape:?}", view.shape()));
    }
    let sizes = safetensors_file::to_tensor_shape(shape).map_err(|error| format!("`{name}`: {error}"))?;
    let tensor = Tensor::f_from_data_size(view.data(), &sizes, kind)
        .and_then(|tensor| tensor.f_to_kind(Kind::Float))
        .map_err(|error| format!("`{name}`: {}", safetensors_file::libtorch_error(&error)))?;
    let finite = tensor.f_isfinite().and_then(|finite| finite.f_all());
    match finite {
        Ok(finite) if finite.int64_value(&[]) == 1 => Ok(tensor),
        _ => Err(format!("`{name}` {}", safetensors_file::NOT_FINITE)),
    }
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

    fn wanted(name: &str, shape: &[usize]) -> ExpectedParameter {
        ExpectedParameter { name: name.to_owned(), shape: shape.to_vec() }
    }

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn wanted_parameters_are_read_and_unneeded_ones_ignored() {
        let values = bytes(&[1.0, -2.5, 3.0, 0.25]);
        let file = file(&[("a", Dtype::F32, &[2, 2], &values), ("steps", Dtype::I64, &[], &[7, 0, 0, 0, 0, 0, 0, 0])]);
        let read = read(&file, &[wanted("a", &[2, 2])], |name| name == "steps").unwrap();
        assert_eq!(read["a"], Tensor::from_slice(&[1.0f32, -2.5, 3.0, 0.25]).view([2, 2]));
        assert_eq!(read.len(), 1);
    }

    /// 1.5 and −2 as f16 and as bf16.
    #[test]
    fn parameters_of_16_bits_are_widened() {
        let (half, brain) = ([0x3e00u16, 0xc000].map(u16::to_le_bytes), [0x3fc0u16, 0xc000].map(u16::to_le_bytes));
        let infinite = [0x7c00u16, 0].map(u16::to_le_bytes);
        let parameters = [
            ("half", Dtype::F16, &[2usize][..], half.as_flattened()),
            ("brain", Dtype::BF16, &[2], brain.as_flattened()),
        ];
        let read_both = read(&file(&parameters), &[wanted("half", &[2]), wanted("brain", &[2])], |_| false).unwrap();
        for name in ["half", "brain"] {
            assert_eq!(read_both[name], Tensor::from_slice(&[1.5f32, -2.0]));
        }
        let bad = file(&[("half", Dtype::F16, &[2], infinite.as_flattened())]);
        let error = read(&bad, &[wanted("half", &[2])], |_| false).unwrap_err();
        assert_eq!(error.to_string(), "`half` holds a NaN or an infinity");
        assert!(error.hint_text().is_some_and(|hint| hint.starts_with("the file is damaged")), "{error:?}");
        let error = read(&bad, &[wanted("half", &[2]), wanted("more", &[1])], |_| false).unwrap_err();
        assert!(error.hint_text().is_some_and(|hint| hint.contains("names or shapes")), "{error:?}");
        let whole = file(&parameters);
        let error = read(&whole[..whole.len() - 1], &[], |_| false).unwrap_err().to_string();
        assert_eq!(error, "the safetensors file is cut short or damaged: its tensors do not fill it");
        assert_eq!(read(&[], &[], |_| false).unwrap_err().to_string(), "not a safetensors file: it is empty (0 bytes)");
    }

    #[test]
    fn all_mistakes_are_reported_in_one_message() {
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
             `gone` [3] is missing; `extra` is not a parameter of this CNN"
        );
    }

    #[test]
    fn many_mistakes_are_counted() {
        let wanted: Vec<ExpectedParameter> = (0..25).map(|i| wanted(&format!("p{i}"), &[1])).collect();
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
