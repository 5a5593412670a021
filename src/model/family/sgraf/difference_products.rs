//! Linear layer of the squared differences of words and attended vectors, and its gradients, without these vectors in
//! memory.
//!
//! ```text
//! c_aw = Σ_r p_arw · v_ar        z_aw = W · (c_aw − e_w)² + b
//! ```
//!
//! For a images and n words, c has a·n·d values, the most of a training step. It costs r multiply-adds a value, beside s
//! of the layer. So it is computed in tiles that stay in the cache, and again for the gradients.

use std::ops::Range;

use az::SaturatingAs;
use tch::{Reduction, Tensor};

use crate::autograd_node::differentiable;
use crate::family::graph::Graph;
use crate::tensor_slices::{as_mut_slice, as_slice, is_f32_slice, thread_count};
use pairloom_kernels::product::{
    ElementType, LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product, has_avx512,
};
use pairloom_spec::precision::MatmulPrecision;

/// Words of a tile. Their differences fit the L2 cache.
const WORDS_PER_TILE: usize = 8 * TILE_ROWS;

/// Images whose gradients in words and layer are summed together, on one thread. The sums of all groups are added in
/// their order, so they do not depend on the number of threads.
const IMAGES_PER_GROUP: usize = 8;

/// Numbers of images, regions and words, and widths of vectors and of the output.
#[derive(Debug, Clone, Copy)]
pub(super) struct DifferenceSizes {
    pub images: usize,
    pub regions: usize,
    pub words: usize,
    pub width: usize,
    pub outputs: usize,
}

/// Inputs of the layer, row-major.
#[derive(Debug, Clone, Copy)]
pub(super) struct DifferenceProducts<'v> {
    /// Attention p of words to regions, `[a, r, n]`.
    pub weights: &'v [f32],
    /// Regions v, `[a, r, d]`.
    pub regions: &'v [f32],
    /// Words e, `[n, d]`.
    pub words: &'v [f32],
    /// Matrix W, `[s, d]`.
    pub layer: &'v [f32],
    /// Bias b, `[s]`.
    pub bias: &'v [f32],
    pub sizes: DifferenceSizes,
    /// Type in which factors are multiplied.
    pub element_type: ElementType,
}

/// Gradients in the inputs, of the same shapes. They are overwritten.
pub(super) struct DifferenceGradients<'v> {
    pub weights: &'v mut [f32],
    pub regions: &'v mut [f32],
    pub words: &'v mut [f32],
    pub layer: &'v mut [f32],
    pub bias: &'v mut [f32],
}

/// Sums of a group of images.
struct GroupSums {
    /// Gradient in the words, `[n, d]`.
    words: Vec<f32>,
    /// Gradient in the layer, in tiles: those of the first rows, then those of the next.
    layer: Vec<Tile>,
    /// Gradient in the bias, `[s]`.
    bias: Vec<f32>,
}

impl DifferenceProducts<'_> {
    /// Computes `z`, `[a, n, s]`, on several threads.
    pub fn forward(&self, out: &mut [f32], threads: usize) {
        let DifferenceSizes { images, words, width, outputs, .. } = self.sizes;
        if out.is_empty() {
            return;
        }
        let layer = RightFactor::from_columns(self.element_type, width, outputs, |j| row(self.layer, j, width));
        let tiles_of_image = words.div_ceil(WORDS_PER_TILE);
        let mut tiles: Vec<(usize, Range<usize>, &mut [f32])> = Vec::with_capacity(images * tiles_of_image);
        for (image, out) in out.chunks_exact_mut(words * outputs).enumerate() {
            let image_tiles = tiles_of(words).zip(out.chunks_mut(WORDS_PER_TILE * outputs));
            tiles.extend(image_tiles.map(|(tile, out)| (image, tile, out)));
        }
        let share = tiles.len().div_ceil(threads.max(1));
        let (layer, mut shares) = (&layer, tiles.chunks_mut(share));
        std::thread::scope(|scope| {
            let own = shares.next();
            for tiles in shares {
                scope.spawn(move || self.forward_tiles(layer, tiles));
            }
            if let Some(tiles) = own {
                self.forward_tiles(layer, tiles);
            }
        });
    }

    fn forward_tiles(&self, layer: &RightFactor, tiles: &mut [(usize, Range<usize>, &mut [f32])]) {
        let DifferenceSizes { width, outputs, .. } = self.sizes;
        let mut squares = vec![0.0; WORDS_PER_TILE * width];
        let mut packed: Option<(usize, RightFactor)> = None;
        for (image, words, out) in tiles {
            let regions = match packed.take() {
                Some((known, regions)) if known == *image => regions,
                _ => self.pack_regions(*image),
            };
            self.attended(*image, words, &regions, |at, attended, own| {
                let differences = attended.iter().zip(own).map(|(attended, own)| attended - own);
                squares[at..][..own.len()].iter_mut().zip(differences).for_each(|(square, d)| *square = d * d);
            });
            packed = Some((*image, regions));
            let left = LeftFactor::from_rows(self.element_type, words.len(), width, |i| row(&squares, i, width));
            for (columns, (count, right)) in layer.panels().enumerate() {
                let bias = &self.bias[columns * TILE_COLUMNS..][..count];
                for ((rows, left), out) in left.panels().zip(out.chunks_mut(TILE_ROWS * outputs)) {
                    let mut product = Tile::ZERO;
                    product.0.iter_mut().for_each(|sums| sums[..count].copy_from_slice(bias));
                    add_product(self.element_type, rows, left, right, &mut product);
                    for (out, values) in out.chunks_exact_mut(outputs).zip(&product.0) {
                        out[columns * TILE_COLUMNS..][..count].copy_from_slice(&values[..count]);
                    }
                }
            }
        }
    }

    /// Regions of an image as the right factor of attended vectors.
    fn pack_regions(&self, image: usize) -> RightFactor {
        let DifferenceSizes { regions, width, .. } = self.sizes;
        RightFactor::from_rows(self.element_type, regions, width, |k| row(self.regions, image * regions + k, width))
    }

    /// Calls `take` with pieces of attended vectors c: the place in `[words, d]`, the values, and those of the words.
    #[inline]
    fn attended(
        &self,
        image: usize,
        words: &Range<usize>,
        packed: &RightFactor,
        mut take: impl FnMut(usize, &[f32], &[f32]),
    ) {
        let DifferenceSizes { regions, width, .. } = self.sizes;
        let weights = |k: usize| &row(self.weights, image * regions + k, self.sizes.words)[words.clone()];
        let left = LeftFactor::from_columns(self.element_type, words.len(), regions, weights);
        for (panel, (rows, left)) in left.panels().enumerate() {
            for (columns, (count, right)) in packed.panels().enumerate() {
                let mut attended = Tile::ZERO;
                add_product(self.element_type, rows, left, right, &mut attended);
                for (i, attended) in attended.0.iter().enumerate().take(rows) {
                    let (word, column) = (panel * TILE_ROWS + i, columns * TILE_COLUMNS);
                    let own = &row(self.words, words.start + word, width)[column..][..count];
                    take(word * width + column, &attended[..count], own);
                }
            }
        }
    }

    /// Computes the gradients from that in `z`, `[a, n, s]`, on several threads.
    pub fn backward(&self, d: &[f32], gradients: DifferenceGradients<'_>, threads: usize) {
        let DifferenceSizes { regions, words, width, outputs, .. } = self.sizes;
        let DifferenceGradients {
            weights: d_weights,
            regions: d_regions,
            words: d_words,
            layer: d_layer,
            bias: d_bias,
        } = gradients;
        for gradient in [&mut *d_regions, &mut *d_words, &mut *d_layer, &mut *d_bias] {
            gradient.fill(0.0);
        }
        if d.is_empty() {
            return d_weights.fill(0.0);
        }
        let layer = RightFactor::from_rows(self.element_type, outputs, width, |k| row(self.layer, k, width));
        let mut groups: Vec<_> = d
            .chunks(IMAGES_PER_GROUP * words * outputs)
            .zip(d_weights.chunks_mut(IMAGES_PER_GROUP * regions * words))
            .zip(d_regions.chunks_mut(IMAGES_PER_GROUP * regions * width))
            .enumerate()
            .map(|(group, ((d, weights), regions))| (group * IMAGES_PER_GROUP, d, weights, regions))
            .collect();
        let mut layer_sums = vec![Tile::ZERO; outputs.div_ceil(TILE_ROWS) * width.div_ceil(TILE_COLUMNS)];
        for groups in groups.chunks_mut(threads.max(1)) {
            let layer = &layer;
            let sums: Vec<GroupSums> = std::thread::scope(|scope| {
                let mut groups = groups.iter_mut().map(|(first, d, weights, regions)| {
                    move || self.backward_of_group(*first, d, layer, [weights, regions])
                });
                let own = groups.next();
                let others: Vec<_> = groups.map(|work| scope.spawn(work)).collect();
                let joined = others
                    .into_iter()
                    .map(|other| other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
                own.map(|mut work| work()).into_iter().chain(joined).collect()
            });
            for sums in sums {
                add(d_words, &sums.words);
                add(d_bias, &sums.bias);
                for (sum, more) in layer_sums.iter_mut().zip(&sums.layer) {
                    add(sum.0.as_flattened_mut(), more.0.as_flattened());
                }
            }
        }
        let panels = width.div_ceil(TILE_COLUMNS);
        for (i, d_layer) in d_layer.chunks_exact_mut(width).enumerate() {
            for (columns, d_layer) in d_layer.chunks_mut(TILE_COLUMNS).enumerate() {
                let tile = &layer_sums[i / TILE_ROWS * panels + columns];
                d_layer.copy_from_slice(&tile.0[i % TILE_ROWS][..d_layer.len()]);
            }
        }
    }

    /// Gradients of the images from `first` on: `d` in `z`, and results in weights and regions.
    fn backward_of_group(
        &self,
        first: usize,
        d: &[f32],
        layer: &RightFactor,
        [d_weights, d_regions]: [&mut [f32]; 2],
    ) -> GroupSums {
        let DifferenceSizes { regions, words, width, outputs, .. } = self.sizes;
        let mut sums = GroupSums {
            words: vec![0.0; words * width],
            layer: vec![Tile::ZERO; outputs.div_ceil(TILE_ROWS) * width.div_ceil(TILE_COLUMNS)],
            bias: vec![0.0; outputs],
        };
        let [mut squares, mut differences] = [(); 2].map(|()| vec![0.0; WORDS_PER_TILE * width]);
        for (image, d) in d.chunks_exact(words * outputs).enumerate() {
            let packed = self.pack_regions(first + image);
            let d_weights = &mut d_weights[image * regions * words..][..regions * words];
            let d_regions = &mut d_regions[image * regions * width..][..regions * width];
            for tile in tiles_of(words) {
                self.attended(first + image, &tile, &packed, |at, attended, own| {
                    let differences = differences[at..][..own.len()].iter_mut().zip(&mut squares[at..][..own.len()]);
                    for ((attended, own), (difference, square)) in attended.iter().zip(own).zip(differences) {
                        *difference = attended - own;
                        *square = *difference * *difference;
                    }
                });
                let d = &d[tile.start * outputs..tile.end * outputs];
                d.chunks_exact(outputs).for_each(|d| add(&mut sums.bias, d));
                self.add_layer_gradient(d, &squares, &mut sums.layer);
                self.attended_gradient(d, layer, &mut differences);
                let d_attended = &differences[..tile.len() * width];
                let d_words = &mut sums.words[tile.start * width..tile.end * width];
                d_words.iter_mut().zip(d_attended).for_each(|(sum, d)| *sum -= d);
                self.add_attention_gradients(first + image, &tile, d_attended, [d_weights, d_regions]);
            }
        }
        sums
    }

    /// Adds `dᵀ · squares` to tiles.
    fn add_layer_gradient(&self, d: &[f32], squares: &[f32], sums: &mut [Tile]) {
        let DifferenceSizes { width, outputs, .. } = self.sizes;
        let words = d.len() / outputs;
        let left = LeftFactor::from_columns(self.element_type, outputs, words, |k| row(d, k, outputs));
        let right = RightFactor::from_rows(self.element_type, words, width, |k| row(squares, k, width));
        let panels = width.div_ceil(TILE_COLUMNS);
        for ((rows, left), sums) in left.panels().zip(sums.chunks_exact_mut(panels)) {
            for ((_, right), sum) in right.panels().zip(sums) {
                add_product(self.element_type, rows, left, right, sum);
            }
        }
    }

    /// Turns differences into the gradient in the attended vectors, `2 (c − e) · (d · W)`.
    fn attended_gradient(&self, d: &[f32], layer: &RightFactor, differences: &mut [f32]) {
        let DifferenceSizes { width, outputs, .. } = self.sizes;
        let left = LeftFactor::from_rows(self.element_type, d.len() / outputs, outputs, |i| row(d, i, outputs));
        for (columns, (count, right)) in layer.panels().enumerate() {
            for ((rows, left), differences) in left.panels().zip(differences.chunks_mut(TILE_ROWS * width)) {
                let mut product = Tile::ZERO;
                add_product(self.element_type, rows, left, right, &mut product);
                for (differences, d) in differences.chunks_exact_mut(width).zip(&product.0).take(rows) {
                    let differences = &mut differences[columns * TILE_COLUMNS..][..count];
                    differences.iter_mut().zip(d).for_each(|(difference, d)| *difference *= 2.0 * d);
                }
            }
        }
    }

    /// Gradients in the attention, `[r, n]`, and in the regions of an image, `[r, d]`, to which it is added.
    fn add_attention_gradients(
        &self,
        image: usize,
        tile: &Range<usize>,
        d_attended: &[f32],
        [d_weights, d_regions]: [&mut [f32]; 2],
    ) {
        let DifferenceSizes { regions, words, width, .. } = self.sizes;
        let kind = self.element_type;
        let left = LeftFactor::from_rows(kind, regions, width, |i| row(self.regions, image * regions + i, width));
        let right = RightFactor::from_columns(kind, width, tile.len(), |j| row(d_attended, j, width));
        for (columns, (count, right)) in right.panels().enumerate() {
            for ((rows, left), out) in left.panels().zip(d_weights.chunks_mut(TILE_ROWS * words)) {
                let mut product = Tile::ZERO;
                add_product(kind, rows, left, right, &mut product);
                for (out, values) in out.chunks_exact_mut(words).zip(&product.0) {
                    out[tile.start + columns * TILE_COLUMNS..][..count].copy_from_slice(&values[..count]);
                }
            }
        }
        let weights = |i: usize| &row(self.weights, image * regions + i, words)[tile.clone()];
        let left = LeftFactor::from_rows(kind, regions, tile.len(), weights);
        let right = RightFactor::from_rows(kind, tile.len(), width, |k| row(d_attended, k, width));
        for (columns, (count, right)) in right.panels().enumerate() {
            for ((rows, left), out) in left.panels().zip(d_regions.chunks_mut(TILE_ROWS * width)) {
                let mut product = Tile::ZERO;
                add_product(kind, rows, left, right, &mut product);
                for (out, values) in out.chunks_exact_mut(width).zip(&product.0) {
                    add(&mut out[columns * TILE_COLUMNS..][..count], &values[..count]);
                }
            }
        }
    }
}

/// Row `i` of a matrix.
fn row(matrix: &[f32], i: usize, width: usize) -> &[f32] {
    &matrix[i * width..][..width]
}

/// Ranges of the words of each tile.
fn tiles_of(words: usize) -> impl Iterator<Item = Range<usize>> {
    (0..words).step_by(WORDS_PER_TILE).map(move |start| start..words.min(start + WORDS_PER_TILE))
}

fn add(sums: &mut [f32], values: &[f32]) {
    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
}

/// Inputs of the layer, as those of [`DifferenceProducts`]: `[a, r, n]`, `[a, r, d]`, `[n, d]`, `[s, d]` and `[s]`.
pub(super) struct DifferenceInputs<'t> {
    pub weights: &'t Tensor,
    pub regions: &'t Tensor,
    pub words: &'t Tensor,
    pub layer: &'t Tensor,
    pub bias: &'t Tensor,
}

impl DifferenceInputs<'_> {
    /// Computes the output, `[a, n, s]`, with gradients in all inputs. Kernels of this project compute it and its
    /// gradients where they apply.
    pub fn output(&self, graph: &Graph<'_>) -> Tensor {
        let precision = graph.precision();
        let inputs = [self.weights, self.regions, self.words, self.layer, self.bias];
        let own = precision != MatmulPrecision::MixedByLibtorch && has_avx512(precision.element_type());
        if own && inputs.iter().all(|input| is_f32_slice(input)) {
            by_kernels(inputs, precision.element_type())
        } else {
            self.by_libtorch(graph)
        }
    }

    fn by_libtorch(&self, graph: &Graph<'_>) -> Tensor {
        let attended = graph.matmul(&self.weights.transpose(1, 2), self.regions);
        let [images, words, width] = <[i64; 3]>::try_from(attended.size()).unwrap_or_default();
        // Squared differences in one pass over the vectors, which are the most memory of a step; so is the gradient.
        let squares = attended.mse_loss(&self.words.unsqueeze(0).expand_as(&attended), Reduction::None);
        let output = graph.matmul_transposed(&squares.view([images * words, width]), self.layer) + self.bias;
        output.view([images, words, -1])
    }
}

fn by_kernels(inputs: [&Tensor; 5], element_type: ElementType) -> Tensor {
    let saved = inputs.map(Tensor::detach);
    let products = layer_products(&saved, element_type);
    let DifferenceSizes { images, words, outputs, .. } = products.sizes;
    let size = [images, words, outputs].map(SaturatingAs::saturating_as::<i64>);
    let mut output = Tensor::empty(size, (saved[0].kind(), saved[0].device()));
    products.forward(as_mut_slice(&mut output), thread_count());
    differentiable(&output, &inputs, move |d, _| {
        let d = d.contiguous();
        let mut found = saved.each_ref().map(Tensor::empty_like);
        let [weights, regions, words, layer, bias] = found.each_mut().map(as_mut_slice);
        let gradients = DifferenceGradients { weights, regions, words, layer, bias };
        layer_products(&saved, element_type).backward(as_slice(&d), gradients, thread_count());
        found.map(Some).into()
    })
}

/// Products of the layer with these inputs.
fn layer_products(inputs: &[Tensor; 5], element_type: ElementType) -> DifferenceProducts<'_> {
    let size = |input: usize, dimension: usize| inputs[input].size()[dimension].saturating_as::<usize>();
    let sizes = DifferenceSizes {
        images: size(0, 0),
        regions: size(0, 1),
        words: size(0, 2),
        width: size(1, 2),
        outputs: size(3, 0),
    };
    let [weights, regions, words, layer, bias] = inputs.each_ref().map(as_slice);
    DifferenceProducts { weights, regions, words, layer, bias, sizes, element_type }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::family::parameters::{ParameterSpec, Parameters};
    use pairloom_kernels::random::Rng;
    use pairloom_spec::input_spec::InputSpec;

    /// Output and gradients, beside those of libtorch in f64: of shapes with one and with several tiles and groups.
    #[test]
    fn output_and_gradients_are_those_of_libtorch() {
        let spec = InputSpec::for_features(1, 1);
        let specs = ParameterSpec::linear("unused", 1, 1).to_vec();
        let parameters = Parameters::random(specs, &spec, 1, Device::Cpu).expect("parameters");
        let mut rng = Rng::new(5, &[]);
        for [a, r, n, d, s] in [[1, 1, 1, 1, 1], [3, 5, 7, 9, 11], [19, 36, 130, 70, 33]] {
            let mut random = |size: &[i64]| {
                let values: Vec<f64> = (0..size.iter().product::<i64>()).map(|_| rng.uniform() - 0.5).collect();
                // Values of f32, so that both sides start from the same.
                Tensor::from_slice(&values).view(size).to_kind(Kind::Float)
            };
            let leaves: [Tensor; 5] =
                [vec![a, r, n], vec![a, r, d], vec![n, d], vec![s, d], vec![s]].map(|size| random(&size));
            let d_out = random(&[a, n, s]);
            let run = |kind: Kind, precision: MatmulPrecision| {
                let leaves = leaves.each_ref().map(|leaf| leaf.to_kind(kind).set_requires_grad(true));
                let [weights, regions, words, layer, bias] = leaves.each_ref();
                let inputs = DifferenceInputs { weights, regions, words, layer, bias };
                let out = inputs.output(&Graph::with_gradient(&parameters, precision, None));
                let sum = (&out * d_out.to_kind(kind)).sum(None::<Kind>);
                let found = Tensor::run_backward(&[sum], &leaves, false, false);
                std::iter::once(out.detach())
                    .chain(found)
                    .map(|tensor| tensor.to_kind(Kind::Double))
                    .collect::<Vec<_>>()
            };
            let expected = run(Kind::Double, MatmulPrecision::F32);
            for (precision, most) in [(MatmulPrecision::F32, 2e-6), (MatmulPrecision::Mixed, 2e-2)] {
                for (part, (got, expected)) in run(Kind::Float, precision).iter().zip(&expected).enumerate() {
                    let [error, size] =
                        [got - expected, expected.shallow_clone()].map(|tensor| tensor.norm().double_value(&[]));
                    assert!(error <= most * size, "{precision:?} {a} × {n}, part {part}: {error} of {size}");
                }
            }
            // One thread and three have the same bits.
            let before = tch::get_num_threads();
            let found = [1, 3].map(|threads| {
                tch::set_num_threads(threads);
                run(Kind::Float, MatmulPrecision::F32)
            });
            tch::set_num_threads(before);
            assert_eq!(found[0], found[1]);
        }
    }
}
