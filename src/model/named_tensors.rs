//! Named tensors in the safetensors format, with a text in the file's metadata.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use tch::{Kind, Tensor};

use super::safetensors_file::{self, libtorch_error};
use pairloom_base::error::{Error, Result, TruncatedList};

/// Key of the text in the metadata.
const TEXT: &str = "pairloom";

/// Tensors by name, with a text.
#[derive(Debug, Default)]
pub struct NamedTensors {
    /// Tensors, f32.
    pub tensors: BTreeMap<String, Tensor>,
    /// Arbitrary text, stored as safetensors metadata.
    pub text: Option<String>,
}

impl NamedTensors {
    /// Serialises the tensors. Equal tensors give equal bytes.
    ///
    /// # Errors
    /// A tensor that is not f32 or does not fit into memory.
    pub fn to_bytes(&self) -> Result<Bytes> {
        let mut contents = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in &self.tensors {
            if tensor.kind() != Kind::Float {
                return Err(Error::internal(format!("tensor `{name}` holds {:?}, wanted Float", tensor.kind())));
            }
            let sizes = tensor.size().into_iter().map(usize::try_from).collect::<std::result::Result<Vec<_>, _>>();
            let shape = sizes.map_err(|_| Error::internal(format!("tensor `{name}` has a size below 0")))?;
            let mut bytes = vec![0; tensor.numel() * size_of::<f32>()];
            let tensor = tensor.to_device(tch::Device::Cpu).contiguous();
            tensor.f_copy_data_u8(&mut bytes, tensor.numel()).map_err(|error| libtorch_error(&error))?;
            contents.push((name, shape, bytes));
        }
        let views = contents
            .iter()
            .map(|(name, shape, bytes)| {
                TensorView::new(Dtype::F32, shape.clone(), bytes).map(|view| (name.as_str(), view))
            })
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(|error| libtorch_error(&error))?;
        let header = self.text.as_ref().map(|text| HashMap::from([(TEXT.to_owned(), text.clone())]));
        Ok(serialize(views, &header).map_err(|error| libtorch_error(&error))?.into())
    }

    /// Reads the bytes of a safetensors file.
    ///
    /// # Errors
    /// Bytes that are not safetensors, or tensors that are not f32 or not finite, all in one message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        let file = safetensors_file::parse(bytes)?;
        // The crate returns metadata only from a separate parse of the header.
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|error| Error::internal(format!("a header was read once and not again: {error:?}")))?;
        let text = header.metadata().as_ref().and_then(|texts| texts.get(TEXT)).cloned();
        let (mut tensors, mut mistakes) = (BTreeMap::new(), TruncatedList::default());
        for (name, view) in file.tensors() {
            match safetensors_file::read_tensor(&name, &view, None) {
                Ok(tensor) => {
                    tensors.insert(name, tensor);
                }
                Err(mistake) => mistakes.push(mistake),
            }
        }
        safetensors_file::mistakes_error(&mistakes).map_or(Ok(Self { tensors, text }), Err)
    }

    /// Removes and returns the tensor `name`.
    ///
    /// # Errors
    /// There is no such tensor.
    pub fn take(&mut self, name: &str) -> Result<Tensor> {
        self.tensors.remove(name).ok_or_else(|| {
            let names = self.tensors.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Error::data(format!("there is no tensor `{name}`; there are {names}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_and_text_survive_a_round_trip() {
        let tensor = Tensor::from_slice(&[1.5f32, -0.0, f32::MIN_POSITIVE, 4.0, 5.0, 6.0]).view([2, 3]);
        let named =
            NamedTensors { tensors: BTreeMap::from([("a.b".to_owned(), tensor.copy())]), text: Some("{}".into()) };
        let bytes = named.to_bytes().expect("bytes");
        assert_eq!(bytes, named.to_bytes().expect("bytes"));
        let mut back = NamedTensors::from_bytes(&bytes).expect("named");
        assert_eq!(back.text.as_deref(), Some("{}"));
        assert_eq!(back.take("a.b").expect("tensor"), tensor);
        let error = back.take("a.b").expect_err("gone");
        assert!(error.to_string().contains("`a.b`"));
    }

    #[test]
    fn all_tensors_that_are_not_finite_are_reported() {
        let tensors = [("a", 1.0f32), ("b", f32::NAN), ("c", f32::INFINITY)];
        let tensors = tensors.map(|(name, value)| (name.to_owned(), Tensor::from_slice(&[value])));
        let bytes = NamedTensors { tensors: BTreeMap::from(tensors), text: None }.to_bytes().expect("bytes");
        let error = NamedTensors::from_bytes(&bytes).expect_err("two of three are not finite").to_string();
        assert!(error.contains("`b` holds a NaN or an infinity") && error.contains("`c` holds"), "{error}");
        assert!(!error.contains("`a`"), "{error}");
    }

    #[test]
    fn damaged_bytes_are_an_error() {
        let tensors = BTreeMap::from([("x".to_owned(), Tensor::from_slice(&[1.0f32; 8]))]);
        let bytes = NamedTensors { tensors, text: None }.to_bytes().expect("bytes");
        for length in 0..bytes.len() {
            assert!(NamedTensors::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
        let mut huge = bytes.to_vec();
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(NamedTensors::from_bytes(&huge).is_err());
    }
}
