//! Module of the user's in TorchScript: weights, and the code that computes with them, in a file of `torch.jit.save`.
//!
//! libtorch interprets the code. Its optimiser is off: it rewrites the code after the first calls, and then the same image
//! would have other roundings.

use std::path::Path;
use std::sync::Arc;

use tch::{CModule, Device, IValue, Kind, TchError, Tensor};

use super::network::grid;
use crate::safetensors_file::{libtorch_error, to_tensor_shape};
use pairloom_base::error::{Error, Result};
use pairloom_kernels::random::Rng;

/// Largest number of values of an image: 32 MiB of f32.
const MAX_ROW_WIDTH: i64 = 8 << 20;

/// Largest difference, relative to the largest value, of an output that depends on its image alone. Roundings may differ by
/// the place in a batch.
const MAX_DIFFERENCE: f64 = 1e-3;

/// Output that a module returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModuleOutput {
    /// A vector for each image: `[n, width]`.
    Vector,
    /// Feature maps, of which the means are used: `[n, width, h, w]`.
    MeanOfMaps,
    /// Feature maps, of which the means over a grid with this many cells a side are used: `[n, width, h, w]`.
    Grid(usize),
    /// Vectors of this many regions: `[n, regions, width]`.
    Regions(usize),
}

/// Module that computes features of images. Copies share the weights.
#[derive(Debug, Clone)]
pub struct TorchScriptModule {
    module: Arc<CModule>,
    output: ModuleOutput,
    device: Device,
    row_width: i64,
}

impl TorchScriptModule {
    /// Loads a module, and finds the width of its output by two calls with `count` images of `side` pixels.
    ///
    /// This runs code of the file, so the user must have asked for it by name.
    ///
    /// # Errors
    /// libtorch cannot load the file. As [`TorchScriptModule::compute`]. The output for an image changes with its place among
    /// the others, or from call to call.
    pub fn load(path: &Path, output: ModuleOutput, (count, side): (usize, usize), device: Device) -> Result<Self> {
        drop_prints();
        let load = || {
            let mut module = CModule::load_on_device(path, device)?;
            module.f_set_eval()?;
            Ok(module)
        };
        let module = load().map_err(|error| {
            Error::data(format!("libtorch cannot load it: {}", message(&error)))
                .hint("this is libtorch 2.11, without operators of newer versions and of other libraries")
        })?;
        let mut this = Self { module: Arc::new(module), output, device, row_width: 0 };
        this.row_width = this.try_out(count, side)?;
        Ok(this)
    }

    /// Number of values of an image.
    #[must_use]
    pub fn row_width(&self) -> usize {
        usize::try_from(self.row_width).unwrap_or_default()
    }

    /// Computes the output of square images, given one after the other as normalised pixels, 3 channels × `side` × `side`.
    /// The result is row-major with [`Self::row_width`] values for each image.
    ///
    /// # Errors
    /// The module refuses the images, fails, or returns something else than a tensor of the expected shape.
    pub fn compute(&self, pixels: &[f32], side: usize) -> Result<Vec<f32>> {
        let (rows, width) = self.rows(pixels, side)?;
        if width != self.row_width {
            let message = format!("it returned {width} values for an image, and {} before", self.row_width);
            return Err(Error::stage(message).hint("the output of an image must have one shape"));
        }
        let mut values = vec![0.0; rows.numel()];
        let count = values.len();
        rows.f_copy_data(&mut values, count).map_err(|error| libtorch_error(&error))?;
        Ok(values)
    }

    /// Computes random images forwards and backwards. Returns the number of values of an image.
    fn try_out(&self, count: usize, side: usize) -> Result<i64> {
        let mut random = Rng::new(19, &[]);
        #[expect(clippy::cast_possible_truncation, reason = "pixels are f32")]
        let pixels: Vec<f32> = (0..count * 3 * side * side).map(|_| (random.uniform() * 4.0 - 2.0) as f32).collect();
        let backwards: Vec<f32> = pixels.chunks_exact(3 * side * side).rev().flatten().copied().collect();
        let (rows, width) = self.rows(&pixels, side)?;
        let (other_rows, other_width) = self.rows(&backwards, side)?;
        let largest = |values: &Tensor| values.f_abs()?.f_max()?.f_double_value(&[]);
        let difference =
            |rows: &Tensor, others: &Tensor| Ok((largest(&rows.f_sub(&others.f_flip([0])?)?)?, largest(rows)?));
        if width == other_width {
            let (difference, largest) =
                difference(&rows, &other_rows).map_err(|error: TchError| libtorch_error(&error))?;
            // Not so for NaN, which is reported for an image of the data set.
            let depends = difference > MAX_DIFFERENCE * largest;
            if !depends {
                return Ok(width);
            }
        }
        Err(Error::data("its output for an image changes with the other images of a batch, or from call to call").hint(
            "trace it in evaluation mode (`model.eval()`), without random numbers: a feature is kept for every run over the \
             same image",
        ))
    }

    /// Rows of images, `[n, width]` of f32 in main memory, and their width.
    fn rows(&self, pixels: &[f32], side: usize) -> Result<(Tensor, i64)> {
        let one = 3 * side * side;
        if one == 0 || pixels.is_empty() || !pixels.len().is_multiple_of(one) {
            let message = format!("{} values are not a whole number of images of side {side}", pixels.len());
            return Err(Error::internal(message));
        }
        let shape = to_tensor_shape(&[pixels.len() / one, 3, side, side])?;
        let input = Tensor::f_from_slice(pixels).and_then(|pixels| pixels.f_reshape(&shape)?.f_to_device(self.device));
        let input = IValue::Tensor(input.map_err(|error| libtorch_error(&error))?);
        // For this thread.
        tch::jit::f_set_graph_executor_optimize(false).map_err(|error| libtorch_error(&error))?;
        tch::no_grad(|| {
            let returned = self.module.forward_is(&[input]).map_err(|error| {
                Error::stage(format!("its `forward` fails for images {shape:?} of f32: {}", message(&error)))
                    .hint("it is called with one tensor; `crop` and `batch_size` are the sizes of that")
            })?;
            let IValue::Tensor(tensor) = returned else {
                let message = format!("it returns {}, expected a tensor", type_name(&returned));
                return Err(Error::data(message).hint("trace a module that returns one of its outputs"));
            };
            let kind = tensor.f_kind().map_err(|error| libtorch_error(&error))?;
            if !matches!(kind, Kind::Float | Kind::Double | Kind::Half | Kind::BFloat16) {
                return Err(Error::data(format!("it returns a tensor of {kind:?}, expected f32")));
            }
            let tensor = tensor.f_to_device(Device::Cpu).and_then(|tensor| tensor.f_to_kind(Kind::Float));
            self.to_rows(&tensor.map_err(|error| libtorch_error(&error))?, shape[0])
        })
    }

    /// Rows of an output for `count` images, and their width.
    fn to_rows(&self, tensor: &Tensor, count: i64) -> Result<(Tensor, i64)> {
        let size = tensor.size();
        let shape_error = || self.shape_error(&size, count);
        if size.first() != Some(&count) || size.contains(&0) {
            return Err(shape_error());
        }
        let rows = match (self.output, size.as_slice()) {
            (ModuleOutput::Vector, [_, _]) => Ok(tensor.shallow_clone()),
            (ModuleOutput::MeanOfMaps, [_, _, _, _]) => tensor.f_adaptive_avg_pool2d([1, 1]),
            (ModuleOutput::Grid(side), [_, _, _, _]) => Ok(grid(tensor, side)?),
            (ModuleOutput::Regions(regions), [_, got, _]) if usize::try_from(*got) == Ok(regions) => {
                Ok(tensor.shallow_clone())
            }
            _ => return Err(shape_error()),
        };
        let rows = rows.and_then(|rows| rows.f_reshape([count, -1])?.f_contiguous());
        let rows = rows.map_err(|error| libtorch_error(&error))?;
        let width = rows.size()[1];
        if width > MAX_ROW_WIDTH {
            return Err(Error::data(format!(
                "it returns {width} values for an image, expected at most {MAX_ROW_WIDTH}"
            )));
        }
        Ok((rows, width))
    }

    /// Error of an output with another shape than the settings say.
    fn shape_error(&self, size: &[i64], count: i64) -> Error {
        let expected = match self.output {
            ModuleOutput::Vector => format!("[{count}, width]"),
            ModuleOutput::MeanOfMaps | ModuleOutput::Grid(_) => {
                format!("feature maps [{count}, width, height, width of a map]")
            }
            ModuleOutput::Regions(regions) => format!("[{count}, {regions}, width]"),
        };
        let error = Error::data(format!("it returns {size:?} for {count} images, expected {expected}"));
        match size {
            [first, ..] if *first != count => error.hint(format!(
                "the first size is that of the batch: trace it so that any number of images passes, or set `batch_size` as \
                 it was traced, now {count}"
            )),
            [_, _] => error.hint("leave `pooling` out for one vector an image"),
            [_, regions, _] => error.hint(format!("set `pooling = {{ regions = {regions} }}`")),
            [_, _, height, _] => {
                error.hint(format!("set `pooling = \"average\"` for means, or `pooling = {{ grid = {height} }}` for regions"))
            }
            _ => error,
        }
    }
}

/// Drops what modules print, in the whole process.
#[expect(unsafe_code, reason = "the function exists in C++ only, not in tch")]
fn drop_prints() {
    unsafe extern "C" {
        fn pairloom_drop_torchscript_prints();
    }
    // SAFETY: the signature is that of `torchscript_prints.cpp`, and the function only sets a handler.
    unsafe { pairloom_drop_torchscript_prints() }
}

/// Reason of an error, without the frames of C++ and of TorchScript around it.
fn message(error: &TchError) -> String {
    let text = match error {
        TchError::Torch(text) => text.clone(),
        other => other.to_string(),
    };
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // A traceback of the interpreter ends with a line such as `RuntimeError: …`.
    let names_error = |line: &&str| {
        line.split_once(": ").is_some_and(|(name, _)| name.ends_with("Error") && !name.contains(char::is_whitespace))
    };
    let line = if text.contains("Traceback of TorchScript") {
        lines.clone().rfind(names_error).or_else(|| lines.next_back())
    } else {
        lines.next()
    };
    line.unwrap_or("no message").to_owned()
}

/// Type of a value that a module returned.
fn type_name(value: &IValue) -> &'static str {
    match value {
        IValue::None => "None",
        IValue::Tuple(_) => "a tuple",
        IValue::TensorList(_) | IValue::GenericList(_) => "a list",
        IValue::GenericDict(_) => "a dict",
        IValue::Double(_) | IValue::Int(_) | IValue::Bool(_) => "a number",
        IValue::String(_) => "a text",
        _ => "an object",
    }
}
