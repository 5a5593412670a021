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

use pairloom_kernels::product::{ElementType, LeftFactor, RightFactor, TILE_COLUMNS, TILE_ROWS, Tile, add_product};

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
            let of_image = tiles_of(words).zip(out.chunks_mut(WORDS_PER_TILE * outputs));
            tiles.extend(of_image.map(|(tile, out)| (image, tile, out)));
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
                Some((of, regions)) if of == *image => regions,
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
