//! The joint embedding: a linear layer for images, words and a GRU for captions, both ending on the unit sphere.
//!
//! VSE++: Faghri, Fleet, Kiros, Fidler, BMVC 2018. Names of parameters are those of its published checkpoints.

use tch::{Device, Kind, Tensor};

use super::captions::Packed;
use super::gru;
use super::loss::Loss;
use crate::error::{Error, Result};
use crate::kernels::sample::Sample;

/// Keeps the stream of the weights apart from others of the same seed.
const WEIGHTS: u64 = 0x7765_6967_6874;

/// Captions that go through the GRU together when there is nothing to learn.
const BLOCK: usize = 256;

/// Widths of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Image features.
    pub image: usize,
    /// Word vectors.
    pub word: usize,
    /// The joint space, which is also the state of the GRU.
    pub joint: usize,
    /// Words of the vocabulary.
    pub words: usize,
}

/// Names of the parameters, in the order of [`Vse::parameters`].
pub const NAMES: [&str; 7] = [
    "img_enc.fc.weight",
    "img_enc.fc.bias",
    "txt_enc.embed.weight",
    "txt_enc.rnn.weight_ih_l0",
    "txt_enc.rnn.weight_hh_l0",
    "txt_enc.rnn.bias_ih_l0",
    "txt_enc.rnn.bias_hh_l0",
];

/// A joint embedding of images and captions.
#[derive(Debug)]
pub struct Vse {
    parameters: [Tensor; 7],
}

/// What one batch gives.
#[derive(Debug)]
pub struct Step {
    /// Value of the objective.
    pub loss: f64,
    /// Its gradient in every parameter, in the order of [`NAMES`].
    pub gradients: [Tensor; 7],
}

impl Widths {
    /// Shapes of the parameters, in the order of [`NAMES`].
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn shapes(&self) -> Result<[Vec<i64>; 7]> {
        let size = |width: usize| {
            i64::try_from(width)
                .ok()
                .filter(|width| (1..1 << 31).contains(width))
                .ok_or_else(|| Error::data(format!("a model cannot have a width of {width}")))
        };
        let (image, word, joint, words) = (size(self.image)?, size(self.word)?, size(self.joint)?, size(self.words)?);
        Ok([
            vec![joint, image],
            vec![joint],
            vec![words, word],
            vec![3 * joint, word],
            vec![3 * joint, joint],
            vec![3 * joint],
            vec![3 * joint],
        ])
    }
}

impl Vse {
    /// A model that has learned nothing: image layer U(±√(6/(D+d))) with zero bias, words U(±0.1), GRU U(±1/√d).
    /// The values depend on `seed` and the widths alone.
    ///
    /// # Errors
    /// A width that no tensor can have.
    pub fn new(widths: Widths, seed: u64, device: Device) -> Result<Self> {
        #[expect(clippy::cast_precision_loss, reason = "widths are far below 2^53")]
        let (image, joint) = (widths.image as f64, widths.joint as f64);
        let recurrent = 1.0 / joint.sqrt();
        let bounds = [(6.0 / (image + joint)).sqrt(), 0.0, 0.1, recurrent, recurrent, recurrent, recurrent];
        let mut stream = 0;
        let parameters = widths.shapes()?.map(|shape| {
            let mut sample = Sample::new(seed, &[WEIGHTS, stream]);
            let bound = bounds[usize::try_from(stream).unwrap_or(0)];
            stream += 1;
            #[expect(clippy::cast_possible_truncation, reason = "weights are f32")]
            let values: Vec<f32> =
                (0..shape.iter().product()).map(|_: i64| (bound * (2.0 * sample.unit() - 1.0)) as f32).collect();
            Tensor::from_slice(&values).view(shape.as_slice()).to_device(device)
        });
        Ok(Self { parameters })
    }

    /// The model with these parameters, in the order of [`NAMES`].
    ///
    /// # Errors
    /// Shapes that do not fit each other or a type other than f32 or f64.
    pub fn from_parameters(parameters: [Tensor; 7]) -> Result<Self> {
        let shapes = parameters.each_ref().map(Tensor::size);
        let width =
            |i: usize, dim: usize| shapes[i].get(dim).and_then(|size| usize::try_from(*size).ok()).unwrap_or_default();
        let widths = Widths { image: width(0, 1), joint: width(0, 0), word: width(2, 1), words: width(2, 0) };
        let kind = parameters[0].kind();
        for ((name, wanted), (got, parameter)) in NAMES.iter().zip(widths.shapes()?).zip(shapes.iter().zip(&parameters))
        {
            if *got != wanted {
                return Err(Error::data(format!("`{name}` is {got:?}, wanted {wanted:?}")));
            }
            if parameter.kind() != kind || !matches!(kind, Kind::Float | Kind::Double) {
                return Err(Error::data(format!("`{name}` holds {:?}, wanted Float", parameter.kind())));
            }
        }
        Ok(Self { parameters })
    }

    /// The parameters, in the order of [`NAMES`].
    pub fn parameters(&self) -> &[Tensor; 7] {
        &self.parameters
    }

    /// Widths.
    #[must_use]
    pub fn widths(&self) -> Widths {
        let width = |i: usize, dim: usize| usize::try_from(self.parameters[i].size()[dim]).unwrap_or_default();
        Widths { image: width(0, 1), joint: width(0, 0), word: width(2, 1), words: width(2, 0) }
    }

    fn device(&self) -> Device {
        self.parameters[0].device()
    }

    /// Unit vectors of image features, both row-major: `[n, d]` from `[n, D]`.
    ///
    /// # Errors
    /// `features` is not a whole number of rows.
    pub fn images(&self, features: &[f32]) -> Result<Vec<f32>> {
        values(&self.embed_images(features)?)
    }

    /// Unit vectors of any number of captions in the order given, row-major `[n, d]`: numbers of their words, `<start>` and
    /// `<end>` among them. Captions of similar length go through the GRU together.
    ///
    /// # Errors
    /// A caption without a word, or a word that the vocabulary does not have.
    pub fn captions(&self, captions: &[&[i64]]) -> Result<Vec<f32>> {
        let width = self.widths().joint;
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

    /// Unit vectors `[n, d]` of image features `[n, D]`, row-major in `features`.
    ///
    /// # Errors
    /// `features` is not a whole number of rows.
    pub fn embed_images(&self, features: &[f32]) -> Result<Tensor> {
        let features = self.rows(features)?;
        Ok(tch::no_grad(|| unit(&features.linear(&self.parameters[0], Some(&self.parameters[1])))))
    }

    /// Unit vectors `[n, d]` of captions: numbers of their words, `<start>` and `<end>` among them.
    ///
    /// # Errors
    /// A caption without a word, or a word that the vocabulary does not have.
    pub fn embed_captions(&self, captions: &[&[i64]]) -> Result<Tensor> {
        let packed = self.pack(captions)?;
        let (tape, _) = self.read(&packed);
        Ok(tch::no_grad(|| unit(&tape.last().index_select(0, &packed.places))))
    }

    /// The objective on a batch of matching pairs and its gradient in every parameter.
    ///
    /// `features` holds the features of the images row-major, `captions` the words of the caption of each; `loss`
    /// sees the scores `[n, n]`, image by caption.
    ///
    /// # Errors
    /// As [`Vse::embed_images`] and [`Vse::embed_captions`], or their numbers differ.
    pub fn step(&self, features: &[f32], captions: &[&[i64]], loss: &Loss) -> Result<Step> {
        let features = self.rows(features)?;
        if features.size()[0] != i64::try_from(captions.len()).unwrap_or(-1) {
            return Err(Error::internal(format!("{} captions for {:?} features", captions.len(), features.size())));
        }
        let packed = self.pack(captions)?;
        let [fc_weight, fc_bias, embed, w_ih, w_hh, ..] = &self.parameters;
        let (tape, vectors) = self.read(&packed);

        // libtorch differentiates what lies between the GRU and the objective.
        let leaf = |tensor: &Tensor| tensor.detach().set_requires_grad(true);
        let (last, weight, bias) = (leaf(&tape.last()), leaf(fc_weight), leaf(fc_bias));
        let images = unit(&features.linear(&weight, Some(&bias)));
        let texts = unit(&last.index_select(0, &packed.places));
        let value = loss.value(&images.mm(&texts.tr()));
        let mut gradients = Tensor::run_backward(&[&value], &[&weight, &bias, &last], false, false).into_iter();
        let mut next = || gradients.next().ok_or_else(|| Error::internal("libtorch gave too few gradients"));
        let (d_weight, d_bias, d_last) = (next()?, next()?, next()?);

        let gru = tape.backward(&d_last, w_hh);
        // Every occurrence of a word adds to the gradient of its one input product.
        let distinct = packed.distinct.size()[0];
        let per_word = Tensor::zeros([distinct, gru.inputs.size()[1]], (gru.inputs.kind(), self.device())).index_add(
            0,
            &packed.words,
            &gru.inputs,
        );
        let d_embed = embed.zeros_like().index_copy(0, &packed.distinct, &per_word.mm(w_ih));
        let d_b_ih = per_word.sum_dim_intlist([0i64].as_slice(), false, None::<Kind>);
        let d_w_ih = per_word.tr().mm(&vectors);
        Ok(Step {
            loss: value.to_kind(Kind::Double).double_value(&[]),
            gradients: [d_weight, d_bias, d_embed, d_w_ih, gru.weight, d_b_ih, gru.bias],
        })
    }

    /// Runs the GRU; also gives the vectors of the distinct words.
    fn read(&self, packed: &Packed) -> (gru::Tape, Tensor) {
        tch::no_grad(|| {
            let [_, _, embed, w_ih, w_hh, b_ih, b_hh] = &self.parameters;
            let vectors = embed.index_select(0, &packed.distinct);
            let inputs = vectors.linear(w_ih, Some(b_ih)).index_select(0, &packed.words);
            (gru::forward(inputs, w_hh, b_hh, &packed.sizes), vectors)
        })
    }

    fn pack(&self, captions: &[&[i64]]) -> Result<Packed> {
        let words = i64::try_from(self.widths().words).unwrap_or(i64::MAX);
        if let Some(i) = captions.iter().position(|c| c.is_empty() || c.iter().any(|w| !(0..words).contains(w))) {
            return Err(Error::internal(format!("caption {i} of a batch is empty or has a word past {words}")));
        }
        if captions.is_empty() {
            return Err(Error::internal("a batch without captions"));
        }
        Ok(Packed::new(captions, self.device()))
    }

    fn rows(&self, features: &[f32]) -> Result<Tensor> {
        let width = self.widths().image;
        if !features.len().is_multiple_of(width) {
            return Err(Error::internal(format!("{} values are not rows of {width}", features.len())));
        }
        let size = |size: usize| i64::try_from(size).unwrap_or(i64::MAX);
        let (rows, width) = (size(features.len() / width.max(1)), size(width));
        // SAFETY: `features` has this many values in this order. What is given here does not leave this module, and nothing
        // keeps it: it is used up while `features` is still borrowed, and a step ends by reading its loss, which waits for
        // a copy that is under way.
        #[expect(
            unsafe_code,
            reason = "a batch is read where it lies; page-locked memory goes to a GPU without a copy"
        )]
        let rows = unsafe {
            Tensor::from_blob(features.as_ptr().cast(), &[rows, width], &[width, 1], Kind::Float, Device::Cpu)
        };
        Ok(rows.to_device_(self.device(), self.parameters[0].kind(), true, false))
    }
}

/// The values of a tensor, row-major.
fn values(tensor: &Tensor) -> Result<Vec<f32>> {
    let tensor = tensor.to_device(Device::Cpu).to_kind(Kind::Float).contiguous();
    Vec::try_from(tensor.view(-1)).map_err(|error| Error::internal(format!("cannot read a tensor: {error}")))
}

/// Rows divided by their L2 norm; a row of zeros stays what it is.
fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2, [1i64].as_slice(), true).clamp_min(1e-12)
}
