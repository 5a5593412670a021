//! Weights of a network: from a safetensors file, checked against what the network wants.

use std::collections::{BTreeSet, HashMap};

use safetensors::tensor::TensorView;
use tch::Tensor;

use super::tensor_file;
use crate::error::{Result, TruncatedList};

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
    let file = tensor_file::open(bytes)?;
    let mut found: HashMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let mut tensors = HashMap::with_capacity(wanted.len());
    let mut mistakes = TruncatedList::default();
    for Wanted { name, shape } in wanted {
        match found.remove(name).map(|view| tensor_file::tensor(name, &view, Some(shape))) {
            None => mistakes.push(format!("`{name}` {shape:?} is missing")),
            Some(Err(mistake)) => mistakes.push(mistake),
            Some(Ok(tensor)) => {
                tensors.insert(name.clone(), tensor);
            }
        }
    }
    let unknown: BTreeSet<String> = found.into_keys().filter(|name| !unneeded(name)).collect();
    mistakes.extend(unknown.into_iter().map(|name| format!("`{name}` is not of this network")));
    match tensor_file::mistaken(&mistakes) {
        None => Ok(tensors),
        Some(error) => {
            Err(error.hint("the parameters have other names or shapes: is this a file of the network named?"))
        }
    }
}

#[cfg(test)]
mod tests {
    use safetensors::tensor::{Dtype, serialize};

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
