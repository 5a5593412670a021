//! The joint embedding: images through a linear layer, captions through words and a GRU, both ending on the unit sphere.
//!
//! VSE++: Faghri, Fleet, Kiros, Fidler, BMVC 2018, and its relatives as [`Form`] tells them apart. Names of parameters are
//! those of its published checkpoints.

use std::collections::HashMap;
use std::marker::PhantomData;

use tch::{Device, Kind, Tensor};

use super::cnn::{Cnn, IN_MODEL, Learning};
use super::encoder::{Precision, captions, images};
use super::form::{Form, Parameter};
use super::named::Named;
use crate::error::{Error, Result};
use crate::kernels::sample::Sample;

/// Keeps the stream of the weights apart from others of the same seed.
const WEIGHTS: u64 = 0x7765_6967_6874;

/// Captions that go through the GRU together when there is nothing to learn.
const BLOCK: usize = 256;

/// Pictures that go through a network together when there is nothing to learn.
const PICTURES: usize = 32;

/// Where the parameters of the GRU start, after those of the linear layer.
const CAPTIONS: usize = 2;

/// A joint embedding of images and captions.
#[derive(Debug)]
pub struct Vse {
    form: Form,
    described: Vec<Parameter>,
    /// In the order of `described`, then those of `cnn`.
    parameters: Vec<Tensor>,
    cnn: Option<Cnn>,
    precision: Precision,
}

/// Embeddings of a batch and what their gradient needs. Images are read where they lie, so the batch must outlive it.
#[derive(Debug)]
pub struct Forward<'b> {
    /// Embeddings of the images, `[n, d]`.
    pub images: Tensor,
    /// Embeddings of the captions, `[n, d]`.
    pub captions: Tensor,
    /// `None` for a batch of no pairs.
    tapes: Option<(images::Tape, captions::Tape)>,
    pictures: Option<Learning>,
    batch: PhantomData<&'b [f32]>,
}

impl Vse {
    /// A model that has learned nothing, with parameters drawn as [`Form::parameters`] says and a network drawn as
    /// [`Cnn::random`] does. The values depend on `seed` and the form alone.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn new(form: Form, seed: u64, device: Device) -> Result<Self> {
        let mut parameters = Vec::new();
        for (stream, parameter) in (0..).zip(form.parameters()?) {
            let mut sample = Sample::new(seed, &[WEIGHTS, stream]);
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            let values: Vec<f32> = (0..parameter.shape.iter().product())
                .map(|_: i64| (parameter.bound * (2.0 * sample.unit() - 1.0)) as f32)
                .collect();
            parameters.push(Tensor::from_slice(&values).view(parameter.shape.as_slice()).to_device(device));
        }
        if let Some(pictures) = form.pictures {
            let cnn = Cnn::random(pictures.network.body(), seed, device)?;
            parameters.extend(cnn.parameters().into_iter().map(|(_, tensor)| tensor));
        }
        Self::from_parameters(form, parameters)
    }

    /// The model of this form with these parameters, in the order of [`Vse::names`].
    ///
    /// # Errors
    /// Another number of parameters, a shape that does not fit the form, or a type other than f32 or f64.
    pub fn from_parameters(form: Form, parameters: Vec<Tensor>) -> Result<Self> {
        let described = form.parameters()?;
        let cnn = form.pictures.map(|pictures| pictures.network.body());
        let of_cnn = cnn.as_ref().map_or(0, |cnn| cnn.parameters().len());
        if parameters.len() != described.len() + of_cnn {
            let wanted = described.len() + of_cnn;
            return Err(Error::data(format!("a model of {} parameters, wanted {wanted}", parameters.len())));
        }
        let kind = parameters[0].kind();
        for (Parameter { name, shape, .. }, parameter) in described.iter().zip(&parameters) {
            if parameter.size() != *shape {
                return Err(Error::data(format!("`{name}` is {:?}, wanted {shape:?}", parameter.size())));
            }
            if parameter.kind() != kind || !matches!(kind, Kind::Float | Kind::Double) {
                return Err(Error::data(format!("`{name}` holds {:?}, wanted Float", parameter.kind())));
            }
        }
        let device = parameters[0].device();
        let cnn = cnn.map(|cnn| Cnn::from_parameters(cnn, &parameters[described.len()..], device)).transpose()?;
        if let Some(cnn) = cnn.as_ref().filter(|cnn| cnn.features() != form.image) {
            return Err(Error::data(format!(
                "a network with {} features for images of width {}",
                cnn.features(),
                form.image
            )));
        }
        Ok(Self { form, described, parameters, cnn, precision: Precision::default() })
    }

    /// What the model is made of.
    #[must_use]
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// Names of the parameters.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let of_cnn = self.cnn.iter().flat_map(Cnn::parameters).map(|(name, _)| format!("{IN_MODEL}{name}"));
        self.described.iter().map(|parameter| parameter.name.clone()).chain(of_cnn).collect()
    }

    /// Names of the parameters of a model of this form.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn names_of(form: &Form) -> Result<Vec<String>> {
        let own = form.parameters()?.into_iter().map(|parameter| parameter.name);
        let of_cnn = form.pictures.iter().flat_map(|pictures| pictures.network.body().parameters());
        Ok(own.chain(of_cnn.map(|parameter| format!("{IN_MODEL}{}", parameter.name))).collect())
    }

    /// The parameters, in the order of [`Vse::names`].
    pub fn parameters(&self) -> &[Tensor] {
        &self.parameters
    }

    /// The parameters that training changes, with their names, in the order of [`Vse::names`].
    #[must_use]
    pub fn trained(&self) -> Vec<(String, Tensor)> {
        let mut all = self.names().into_iter().zip(&self.parameters);
        let own = all.by_ref().take(self.described.len()).zip(&self.described);
        let own: Vec<_> = own.filter(|(_, described)| described.trained).map(|(named, _)| named).collect();
        let of_cnn = all.filter(|(name, _)| Cnn::learns(name));
        own.into_iter().chain(of_cnn).map(|(name, tensor)| (name, tensor.shallow_clone())).collect()
    }

    /// Computes matrix products in `precision` from now on.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// Replaces the vectors of those words, by their number, of which `vector` has one: pretrained ones.
    ///
    /// # Errors
    /// A vector of another width.
    pub fn set_words<'v>(&mut self, vector: impl Fn(usize) -> Option<&'v [f32]>) -> Result<()> {
        let words = &self.parameters[CAPTIONS];
        for word in 0..self.form.words {
            let Some(values) = vector(word) else { continue };
            if values.len() != self.form.word {
                let (got, wanted) = (values.len(), self.form.word);
                return Err(Error::data(format!("a word vector of {got} values, wanted {wanted}")));
            }
            let row = words.get(i64::try_from(word).unwrap_or(i64::MAX));
            tch::no_grad(|| row.shallow_clone().copy_(&Tensor::from_slice(values)));
        }
        Ok(())
    }

    /// Takes over those parameters of another model that this one has too, by their names.
    ///
    /// # Errors
    /// Bytes that are no model, or a parameter of another shape.
    pub fn begin_with(&mut self, parameters: &[u8]) -> Result<()> {
        let given = Named::from_bytes(parameters)?;
        for (name, own) in self.names().into_iter().zip(&mut self.parameters) {
            let Some(given) = given.tensors.get(&name) else { continue };
            if given.size() != own.size() {
                return Err(Error::data(format!("`{name}` is {:?}, wanted {:?}", given.size(), own.size())));
            }
            tch::no_grad(|| own.copy_(given));
        }
        Ok(())
    }

    /// The same model on the features of its network, in place of pictures; itself if it has no network.
    #[must_use]
    pub fn on_features(self) -> Self {
        let Self { form, described, mut parameters, precision, .. } = self;
        parameters.truncate(described.len());
        Self { form: Form { pictures: None, ..form }, described, parameters, cnn: None, precision }
    }

    /// Replaces the weights of the network that reads pictures by those of a safetensors file, as [`Cnn::from_file`] reads
    /// it.
    ///
    /// # Errors
    /// As there, or a model without such a network.
    pub fn set_network(&mut self, file: &[u8]) -> Result<()> {
        let pictures = self.form.pictures.ok_or_else(|| Error::internal("a model that reads no pictures"))?;
        let cnn = Cnn::from_file(pictures.network.architecture(), file, self.device())?;
        let given: HashMap<String, Tensor> = cnn.parameters().into_iter().collect();
        let own = self.cnn.iter().flat_map(Cnn::parameters);
        tch::no_grad(|| {
            for (name, mut own) in own {
                own.copy_(given.get(&name).expect("a network has the parameters of its body"));
            }
        });
        Ok(())
    }

    fn device(&self) -> Device {
        self.parameters[0].device()
    }

    /// The parameters of the captions' half.
    fn of_captions(&self) -> &[Tensor] {
        &self.parameters[CAPTIONS..self.described.len()]
    }

    /// Unit vectors of images, both row-major: `[n, d]` from features `[n, D]`, or from pictures `[n, 3, side, side]` where
    /// the model reads them.
    ///
    /// # Errors
    /// `images` is not a whole number of them.
    pub fn images(&self, images: &[f32]) -> Result<Vec<f32>> {
        let rows = if self.cnn.is_some() { PICTURES * self.form.image_values() } else { images.len() };
        let mut vectors = Vec::new();
        for block in images.chunks(rows.max(1)) {
            vectors.extend(values(&self.embed_images(block)?)?);
        }
        Ok(vectors)
    }

    /// Unit vectors of any number of captions in the order given, row-major `[n, d]`: numbers of their words, `<start>` and
    /// `<end>` among them. Captions of similar length go through the GRU together.
    ///
    /// # Errors
    /// A caption without a word, or a word that the vocabulary does not have.
    pub fn captions(&self, captions: &[&[i64]]) -> Result<Vec<f32>> {
        let width = self.form.joint;
        let mut order: Vec<usize> = (0..captions.len()).collect();
        order.sort_by_key(|&i| captions[i].len());
        let mut vectors = vec![0.0; captions.len() * width];
        for block in order.chunks(BLOCK) {
            let words: Vec<&[i64]> = block.iter().map(|&i| captions[i]).collect();
            let found = values(&self.embed_captions(&words)?)?;
            for (&i, vector) in block.iter().zip(found.chunks_exact(width)) {
                vectors[i * width..][..width].copy_from_slice(vector);
            }
        }
        Ok(vectors)
    }

    /// The same as [`Vse::images`], as a tensor.
    ///
    /// # Errors
    /// As there.
    pub fn embed_images(&self, images: &[f32]) -> Result<Tensor> {
        tch::no_grad(|| {
            let input = self.rows(images)?;
            let features = match &self.cnn {
                Some(cnn) => cnn.unit_average(&self.pictures(&input)?)?,
                None => input,
            };
            Ok(images::forward(features, self.linear(), &self.form, true, self.precision).0)
        })
    }

    /// The same as [`Vse::captions`] of a batch, as a tensor.
    ///
    /// # Errors
    /// As there, or no caption.
    pub fn embed_captions(&self, captions: &[&[i64]]) -> Result<Tensor> {
        self.check(captions)?;
        if captions.is_empty() {
            return Err(Error::internal("a batch without captions"));
        }
        Ok(tch::no_grad(|| captions::forward(captions, self.of_captions(), &self.form, self.precision).0))
    }

    /// Embeds a batch for a step: images row-major as [`Vse::images`] takes them, and a caption of each. A batch may be
    /// empty, as the share of one of many ranks may be.
    ///
    /// # Errors
    /// As [`Vse::embed_images`] and [`Vse::captions`], or their numbers differ.
    pub fn forward<'b>(&self, images: &'b [f32], captions: &[&[i64]]) -> Result<Forward<'b>> {
        let input = self.rows(images)?;
        if input.size()[0] != i64::try_from(captions.len()).unwrap_or(-1) {
            return Err(Error::internal(format!("{} captions for {:?} images", captions.len(), input.size())));
        }
        self.check(captions)?;
        if captions.is_empty() {
            let none = || Tensor::zeros([0, self.parameters[1].size()[0]], (self.parameters[0].kind(), self.device()));
            return Ok(Forward { images: none(), captions: none(), tapes: None, pictures: None, batch: PhantomData });
        }
        let pictures = self.cnn.as_ref().map(|cnn| cnn.learn(&self.pictures(&input)?)).transpose()?;
        tch::no_grad(|| {
            let features = pictures.as_ref().map_or(input, |learning| learning.features.detach());
            let normalize = self.form.normalize_images;
            let (images, of_images) = images::forward(features, self.linear(), &self.form, normalize, self.precision);
            let (captions, of_captions) = captions::forward(captions, self.of_captions(), &self.form, self.precision);
            Ok(Forward { images, captions, tapes: Some((of_images, of_captions)), pictures, batch: PhantomData })
        })
    }

    /// Gradients in the [trained](Vse::trained) parameters, in their order, from those in the embeddings of a batch: `[n, d]`
    /// each, with the rows of the batch. Zeros for an empty one.
    ///
    /// # Errors
    /// Gradients of another shape.
    pub fn backward(&self, forward: Forward<'_>, d_images: &Tensor, d_captions: &Tensor) -> Result<Vec<Tensor>> {
        let Forward { images, captions, tapes, pictures, .. } = forward;
        if d_images.size() != images.size() || d_captions.size() != captions.size() {
            let got = (d_images.size(), d_captions.size());
            return Err(Error::internal(format!("gradients {got:?} of embeddings {:?}", images.size())));
        }
        let Some((of_images, of_captions)) = tapes else {
            return Ok(self.trained().iter().map(|(_, parameter)| parameter.zeros_like()).collect());
        };
        let (linear, rest) = tch::no_grad(|| {
            let linear = of_images.backward(d_images, &self.parameters[0], pictures.is_some(), self.precision);
            (linear, of_captions.backward(d_captions, self.of_captions(), &self.form, self.precision))
        });
        let mut gradients = vec![linear.weight, linear.bias];
        gradients.extend(rest.into_iter().flatten());
        if let (Some(learning), Some(d)) = (pictures, linear.features) {
            gradients.extend(learning.backward(&d));
        }
        Ok(gradients)
    }

    fn linear(&self) -> [&Tensor; 2] {
        [&self.parameters[0], &self.parameters[1]]
    }

    fn check(&self, captions: &[&[i64]]) -> Result<()> {
        let words = i64::try_from(self.form.words).unwrap_or(i64::MAX);
        match captions.iter().position(|c| c.is_empty() || c.iter().any(|w| !(0..words).contains(w))) {
            Some(i) => Err(Error::internal(format!("caption {i} of a batch is empty or has a word past {words}"))),
            None => Ok(()),
        }
    }

    /// Rows of pixels as pictures, `[n, 3, side, side]`.
    fn pictures(&self, rows: &Tensor) -> Result<Tensor> {
        let side = self.form.pictures.and_then(|pictures| i64::try_from(pictures.side).ok());
        let side = side.ok_or_else(|| Error::internal("a model that reads no pictures"))?;
        Ok(rows.view([-1, 3, side, side]))
    }

    fn rows(&self, images: &[f32]) -> Result<Tensor> {
        let width = self.form.image_values();
        if !images.len().is_multiple_of(width) {
            return Err(Error::internal(format!("{} values are not rows of {width}", images.len())));
        }
        let size = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let (rows, width) = (size(images.len() / width.max(1)), size(width));
        // SAFETY: `images` has this many values in this order. What is given here is used up before the caller's call ends,
        // or is kept in a `Forward`, which borrows `images`; nothing writes to it. A copy to a GPU is over when
        // `to_device_` is.
        #[expect(unsafe_code, reason = "a batch is read where it lies")]
        let rows =
            unsafe { Tensor::from_blob(images.as_ptr().cast(), &[rows, width], &[width, 1], Kind::Float, Device::Cpu) };
        Ok(rows.to_device_(self.device(), self.parameters[0].kind(), false, false))
    }
}

/// The values of a tensor, row-major.
pub(super) fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    Vec::try_from(tensor.view(-1)).map_err(|error| Error::internal(format!("cannot read a tensor: {error}")))
}
