//! Safetensors files: parsing and checking, named tensors with a text in the metadata, and parameters of which names and
//! shapes are known.
//!
//! Format: an 8-byte length, a JSON header, raw little-endian tensors (<https://huggingface.co/docs/safetensors>).
//! Pickles (`.pth`, `.pt`) are not read, because reading a pickle runs the program in it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use safetensors::SafeTensorError;
use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
use tch::{Kind, Tensor};

use pairloom_base::error::{Error, Result, TruncatedList};
use pairloom_storage::bounded::{START_BYTES, other_format};

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
        let message = format!("its safetensors header has {length} bytes, expected at most {MAX_HEADER_BYTES}");
        return Err(Error::data(message).hint("long texts beside the tensors belong into another file"));
    }
    SafeTensors::deserialize(bytes).map_err(|error| {
        use SafeTensorError::{HeaderTooLarge, InvalidHeaderLength, MetadataIncompleteBuffer};
        let cut = |what: &str| Error::data(format!("the safetensors file is cut short or damaged: {what}"));
        match (&error, bytes.get(8)) {
            _ if bytes.is_empty() => Error::data("not a safetensors file: it is empty (0 bytes)"),
            (MetadataIncompleteBuffer, _) => cut("its tensors do not fill it"),
            (HeaderTooLarge | InvalidHeaderLength, Some(b'{')) => cut("its header is longer than it"),
            (error, Some(b'{')) => cut(&format!("its header cannot be read ({error:?})")),
            _ => other_format_error(bytes),
        }
    })
}

/// Error of a file that does not begin as safetensors files do.
fn other_format_error(bytes: &[u8]) -> Error {
    if is_pickle(bytes) {
        return Error::data("not a safetensors file").hint(
            "this looks like a pickle of `torch.save`, which is not read because that can run code; convert it once \
             with `safetensors.torch.save_file(torch.load(path, weights_only=True), new_path)`",
        );
    }
    let start = &bytes[..bytes.len().min(START_BYTES)];
    match other_format(start) {
        Some((format, hint)) => Error::data(format!("not a safetensors file: it is {format}")).hint(hint),
        None => Error::data(format!(
            "not a safetensors file: it begins with `{}`, expected the length of a header in 8 bytes, and `{{`",
            start.escape_ascii()
        )),
    }
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
        return Err(format!("`{name}` holds {:?}, expected F32", view.dtype()));
    }
    if let Some(shape) = shape.filter(|shape| view.shape() != *shape) {
        return Err(format!("`{name}` has shape {:?}, expected {shape:?}", view.shape()));
    }
    let mut values = view.data().chunks_exact(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    if !values.all(f32::is_finite) {
        return Err(format!("`{name}` {NOT_FINITE}"));
    }
    let in_tensor = |error: Error| format!("`{name}`: {error}");
    let shape = to_tensor_shape(view.shape()).map_err(in_tensor)?;
    Tensor::f_from_data_size(view.data(), &shape, Kind::Float).map_err(|error| in_tensor(libtorch_error(&error)))
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
                return Err(Error::internal(format!("tensor `{name}` holds {:?}, expected Float", tensor.kind())));
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
        let file = parse(bytes)?;
        // The crate returns metadata only from a separate parse of the header.
        let (_, header) = SafeTensors::read_metadata(bytes)
            .map_err(|error| Error::internal(format!("a header was read once and not again: {error:?}")))?;
        let text = header.metadata().as_ref().and_then(|texts| texts.get(TEXT)).cloned();
        let (mut tensors, mut mistakes) = (BTreeMap::new(), TruncatedList::default());
        for (name, view) in file.tensors() {
            match read_tensor(&name, &view, None) {
                Ok(tensor) => {
                    tensors.insert(name, tensor);
                }
                Err(mistake) => mistakes.push(mistake),
            }
        }
        mistakes_error(&mistakes).map_or(Ok(Self { tensors, text }), Err)
    }

    /// Removes and returns the tensor `name`.
    pub fn take(&mut self, name: &str) -> Result<Tensor> {
        self.tensors.remove(name).ok_or_else(|| {
            let names = self.tensors.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
            Error::data(format!("there is no tensor `{name}`; there are {names}"))
        })
    }
}

/// Parameter that a file must contain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedParameter {
    /// Name, such as `layer1.0.conv1.weight`.
    pub name: String,
    /// Sizes of its dimensions.
    pub shape: Vec<usize>,
}

/// Reads exactly the `expected` parameters to the CPU, as f32; those of 16 bits are widened. Tensors for whose name `unneeded` returns true are ignored.
///
/// # Errors
/// Bytes that are not safetensors; parameters that are missing, unknown, of another shape or type, or not finite, all
/// in one message.
pub fn read_parameters(
    bytes: &[u8],
    expected: &[ExpectedParameter],
    unneeded: impl Fn(&str) -> bool,
) -> Result<HashMap<String, Tensor>> {
    let file = parse(bytes)?;
    let mut found: HashMap<String, TensorView<'_>> = file.tensors().into_iter().collect();
    let mut tensors = HashMap::with_capacity(expected.len());
    let mut mistakes = TruncatedList::default();
    let mut are_all_values = true;
    for ExpectedParameter { name, shape } in expected {
        match found.remove(name).map(|view| read_weights(name, &view, shape)) {
            None => {
                are_all_values = false;
                mistakes.push(format!("`{name}` {shape:?} is missing"));
            }
            Some(Err(mistake)) => {
                are_all_values &= mistake.ends_with(NOT_FINITE);
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
    match mistakes_error(&mistakes) {
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
        _ => return read_tensor(name, view, Some(shape)),
    };
    if view.shape() != shape {
        return Err(format!("`{name}` has shape {:?}, expected {shape:?}", view.shape()));
    }
    let sizes = to_tensor_shape(shape).map_err(|error| format!("`{name}`: {error}"))?;
    let tensor = Tensor::f_from_data_size(view.data(), &sizes, kind)
        .and_then(|tensor| tensor.f_to_kind(Kind::Float))
        .map_err(|error| format!("`{name}`: {}", libtorch_error(&error)))?;
    let finite = tensor.f_isfinite().and_then(|finite| finite.f_all());
    match finite {
        Ok(finite) if finite.int64_value(&[]) == 1 => Ok(tensor),
        _ => Err(format!("`{name}` {NOT_FINITE}")),
    }
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
        assert_eq!(error.to_string(), "its safetensors header has 16777217 bytes, expected at most 16777216");
        // Such a length in a file of another format.
        let error = parse(b"a dog on a beach").unwrap_err();
        let expected = "not a safetensors file: it begins with `a dog on a beach`, expected the length of a header in 8 bytes, and `{`";
        assert_eq!(error.to_string(), expected);
        let error = parse(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n").unwrap_err();
        assert_eq!(error.to_string(), "not a safetensors file: it is a pointer of Git LFS");
        assert_eq!(error.hint_text(), Some("fetch the file itself: `git lfs pull`"));
        for (bytes, message) in [
            (&[&[0xff; 8][..], b"{"].concat(), "its header is longer than it"),
            (&[&[9, 0, 0, 0, 0, 0, 0, 0][..], b"{\"a\""].concat(), "its header is longer than it"),
            (&[&[2, 0, 0, 0, 0, 0, 0, 0][..], b"{x"].concat(), "its header cannot be read"),
        ] {
            let error = parse(bytes).unwrap_err().to_string();
            assert!(error.starts_with("the safetensors file is cut short or damaged: "), "{error}");
            assert!(error.contains(message), "{error}");
        }
    }

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
        let read = read_parameters(&file, &[wanted("a", &[2, 2])], |name| name == "steps").unwrap();
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
        let read_both =
            read_parameters(&file(&parameters), &[wanted("half", &[2]), wanted("brain", &[2])], |_| false).unwrap();
        for name in ["half", "brain"] {
            assert_eq!(read_both[name], Tensor::from_slice(&[1.5f32, -2.0]));
        }
        let bad = file(&[("half", Dtype::F16, &[2], infinite.as_flattened())]);
        let error = read_parameters(&bad, &[wanted("half", &[2])], |_| false).unwrap_err();
        assert_eq!(error.to_string(), "`half` holds a NaN or an infinity");
        assert!(error.hint_text().is_some_and(|hint| hint.starts_with("the file is damaged")), "{error:?}");
        let error = read_parameters(&bad, &[wanted("half", &[2]), wanted("more", &[1])], |_| false).unwrap_err();
        assert!(error.hint_text().is_some_and(|hint| hint.contains("names or shapes")), "{error:?}");
        let whole = file(&parameters);
        let error = read_parameters(&whole[..whole.len() - 1], &[], |_| false).unwrap_err().to_string();
        assert_eq!(error, "the safetensors file is cut short or damaged: its tensors do not fill it");
        assert_eq!(
            read_parameters(&[], &[], |_| false).unwrap_err().to_string(),
            "not a safetensors file: it is empty (0 bytes)"
        );
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
        let expected = [wanted("shape", &[1, 2]), wanted("kind", &[2]), wanted("nan", &[1]), wanted("gone", &[3])];
        let error = read_parameters(&file, &expected, |_| false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`shape` has shape [2], expected [1, 2]; `kind` holds I32, expected F32; `nan` holds a NaN or an infinity; \
             `gone` [3] is missing; `extra` is not a parameter of this CNN"
        );
    }

    #[test]
    fn many_mistakes_are_counted() {
        let expected: Vec<ExpectedParameter> = (0..25).map(|i| wanted(&format!("p{i}"), &[1])).collect();
        let error = read_parameters(&file(&[]), &expected, |_| false).unwrap_err().to_string();
        assert!(error.ends_with("; and 5 more"), "{error}");
    }

    #[test]
    fn damaged_files_are_refused() {
        let values = bytes(&[1.0, 2.0]);
        let file = file(&[("a", Dtype::F32, &[2], &values)]);
        for length in 0..file.len() {
            assert!(read_parameters(&file[..length], &[wanted("a", &[2])], |_| false).is_err(), "{length} bytes");
        }
        let mut huge = file;
        huge[..8].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(read_parameters(&huge, &[wanted("a", &[2])], |_| false).is_err());
        let error = read_parameters(b"PK\x03\x04archive/data.pkl", &[], |_| false).unwrap_err();
        assert!(error.hint_text().unwrap().contains("save_file"));
    }
}
