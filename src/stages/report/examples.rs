//! Queries that stand for many: drawn evenly from the good, the middling and the bad.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, AsArray};
use arrow::datatypes::{Float32Type, Int64Type};

use super::curves::Ranks;
use super::elements::{Example, Hit, Picture};
use super::read;
use crate::error::{Error, Result};
use crate::io::image::read_below;
use crate::io::thumbnail::thumbnail;
use crate::kernels::sample::Sample;
use crate::stage::Cx;
use crate::tables;

/// Items shown of what a query found.
const SHOWN: usize = 5;
/// Width and height of a picture on the page, in pixels, at most.
const SIDE: u32 = 220;

/// What is kept of the rankings: the counts of all ranks, and some queries whole.
#[derive(Debug)]
pub(super) struct Rankings {
    /// Ranks of image to text, text to image.
    pub(super) ranks: [Ranks; 2],
    picked: [Vec<Query>; 2],
}

/// A query of the rankings.
#[derive(Debug, Clone)]
struct Query {
    id: i64,
    rank: i64,
    top: Vec<(i64, f32)>,
}

/// Reads the rankings of `protocol` and `method` once, and keeps `count` queries of each direction.
///
/// # Errors
/// A column is missing.
pub(super) fn read(cx: &mut Cx<'_>, protocol: &str, method: &str, count: usize, seed: u64) -> Result<Rankings> {
    let mut ranks = [Ranks::default(), Ranks::default()];
    let mut drawers = [0u64, 1].map(|direction| Drawer::new(count, Sample::new(seed, &[direction])));
    while let Some(batch) = cx.next("rankings")? {
        let text = |name: &str| tables::texts(&batch, name);
        let (protocols, directions) = (text("protocol")?, text("direction")?);
        let (query_ids, rank) = (tables::ids(&batch, "query_id")?, tables::ids(&batch, "rank")?);
        let list = |name: &str| {
            let column = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
            column.ok_or_else(|| Error::data(format!("no column `{name}` of lists")))
        };
        let (top_ids, top_scores) = (list("top_ids")?, list("top_scores")?);
        for row in 0..batch.num_rows() {
            let direction = ["i2t", "t2i"].iter().position(|name| *name == directions.value(row));
            // A matching has no ranks.
            let meant = rank.is_valid(row) && protocols.value(row) == protocol && read::method(&batch, row)? == method;
            let Some(direction) = direction.filter(|_| meant) else { continue };
            ranks[direction].add(rank.value(row));
            drawers[direction].offer(rank.value(row), || {
                let (ids, scores) = (top_ids.value(row), top_scores.value(row));
                let ids = ids.as_primitive_opt::<Int64Type>().map(|ids| ids.values().to_vec()).unwrap_or_default();
                let scores = scores.as_primitive_opt::<Float32Type>().map(|s| s.values().to_vec()).unwrap_or_default();
                let top = ids.into_iter().zip(scores).take(SHOWN).collect();
                Query { id: query_ids.value(row), rank: rank.value(row), top }
            });
        }
    }
    Ok(Rankings { ranks, picked: drawers.map(Drawer::finish) })
}

/// Draws queries while they pass: of each class of ranks a sample (Vitter, "Random sampling with a reservoir", 1985).
struct Drawer {
    count: usize,
    sample: Sample,
    /// Per class: queries seen, and those kept.
    classes: [(usize, Vec<Query>); 3],
}

impl Drawer {
    fn new(count: usize, sample: Sample) -> Self {
        Self { count, sample, classes: Default::default() }
    }

    fn offer(&mut self, rank: i64, query: impl FnOnce() -> Query) {
        // Found at once, found among the first ten, not found.
        let class = match rank {
            ..=0 => 0,
            1..=9 => 1,
            _ => 2,
        };
        let (seen, kept) = &mut self.classes[class];
        *seen += 1;
        if kept.len() < self.count {
            kept.push(query());
        } else if self.count > 0 {
            let place = self.sample.below(*seen);
            if place < self.count {
                kept[place] = query();
            }
        }
    }

    /// The same number of each class, as far as there are that many; the best first.
    fn finish(mut self) -> Vec<Query> {
        for (_, kept) in &mut self.classes {
            self.sample.shuffle(kept);
        }
        let mut picked = Vec::new();
        while picked.len() < self.count {
            let before = picked.len();
            for (_, kept) in &mut self.classes {
                if picked.len() < self.count {
                    picked.extend(kept.pop());
                }
            }
            if picked.len() == before {
                break;
            }
        }
        picked.sort_by_key(|query| (query.rank, query.id));
        picked
    }
}

/// Captions and images that a page mentions; each is read once.
#[derive(Debug, Default)]
pub(super) struct Things {
    /// (image, text) by caption.
    captions: HashMap<i64, (i64, String)>,
    /// Captions by image, in the order of the table.
    captions_of: HashMap<i64, Vec<i64>>,
    /// (name, picture) by image.
    images: HashMap<i64, (String, Option<Picture>)>,
}

/// The picked queries with texts and pictures, as far as `captions` and `images` are given.
///
/// # Errors
/// A table cannot be read. A picture that cannot be shown is a warning.
pub(super) fn resolve(
    cx: &mut Cx<'_>,
    rankings: &Rankings,
    things: &mut Things,
    with_captions: bool,
    with_images: bool,
) -> Result<[Vec<Example>; 2]> {
    let [i2t, t2i] = &rankings.picked;
    if with_captions {
        let found = i2t.iter().flat_map(|query| query.top.iter().map(|top| top.0));
        let wanted = found.chain(t2i.iter().map(|query| query.id)).collect();
        things.read_captions(cx, &wanted, &i2t.iter().map(|query| query.id).collect())?;
    }
    if with_images {
        let mut wanted: HashSet<i64> = i2t.iter().map(|query| query.id).collect();
        for query in t2i {
            wanted.extend(query.top.iter().map(|top| top.0));
            wanted.extend(things.captions.get(&query.id).map(|caption| caption.0));
        }
        things.read_images(cx, &wanted)?;
    }
    Ok([
        i2t.iter().map(|query| things.of_image(query)).collect(),
        t2i.iter().map(|query| things.of_caption(query)).collect(),
    ])
}

impl Things {
    /// Reads these captions, and all those of some images.
    pub(super) fn read_captions(
        &mut self,
        cx: &mut Cx<'_>,
        wanted: &HashSet<i64>,
        of_images: &HashSet<i64>,
    ) -> Result<()> {
        while let Some(batch) = cx.next("captions")? {
            let (ids, image_ids) = (tables::ids(&batch, "caption_id")?, tables::ids(&batch, "image_id")?);
            let texts = tables::texts(&batch, "text")?;
            for row in 0..batch.num_rows() {
                let (id, image) = (ids.value(row), image_ids.value(row));
                if of_images.contains(&image) {
                    self.captions_of.entry(image).or_default().push(id);
                } else if !wanted.contains(&id) {
                    continue;
                }
                self.captions.insert(id, (image, texts.value(row).to_owned()));
            }
        }
        Ok(())
    }

    /// Reads these images.
    pub(super) fn read_images(&mut self, cx: &mut Cx<'_>, wanted: &HashSet<i64>) -> Result<()> {
        let root = cx.path("images")?;
        while let Some(batch) = cx.next("images")? {
            let ids = tables::ids(&batch, "image_id")?;
            let (names, paths) = (tables::texts(&batch, "file_name")?, tables::texts(&batch, "path")?);
            let bytes = batch.column_by_name("bytes").and_then(|column| column.as_binary_opt::<i32>());
            for row in 0..batch.num_rows() {
                if !wanted.contains(&ids.value(row)) || self.images.contains_key(&ids.value(row)) {
                    continue;
                }
                let name = names.value(row).to_owned();
                let encoded = match (&root, bytes) {
                    (_, Some(bytes)) if bytes.is_valid(row) => Some(Ok(bytes.value(row).to_vec())),
                    (Some(root), _) if paths.is_valid(row) => Some(read_below(root, paths.value(row))),
                    _ => None,
                };
                let picture = encoded.map(|encoded| encoded.and_then(|encoded| thumbnail(&encoded, SIDE)));
                let picture = match picture.transpose() {
                    Ok(picture) => picture.map(Picture),
                    Err(error) => {
                        cx.warn(name.clone(), format!("is not shown in the report: {error}"));
                        None
                    }
                };
                self.images.insert(ids.value(row), (name, picture));
            }
        }
        Ok(())
    }

    /// An image that looked for captions.
    fn of_image(&self, query: &Query) -> Example {
        let found: Vec<Hit> = query.top.iter().map(|&(id, score)| self.caption(id, Some(score), query.id)).collect();
        let missed = if found.iter().any(|hit| hit.right) {
            Vec::new()
        } else {
            let right = self.captions_of.get(&query.id).into_iter().flatten();
            right.map(|&id| self.caption(id, None, query.id)).collect()
        };
        let (text, picture) = self.image_of(query.id);
        Example { rank: query.rank, text, picture, found, missed }
    }

    /// A caption that looked for images.
    fn of_caption(&self, query: &Query) -> Example {
        let caption = self.captions.get(&query.id);
        let right = caption.map(|caption| caption.0);
        let found: Vec<Hit> = query
            .top
            .iter()
            .enumerate()
            .map(|(place, &(id, score))| {
                // Without captions the rank alone tells which image is right.
                let right = right.map_or(i64::try_from(place) == Ok(query.rank), |right| right == id);
                let (text, picture) = self.image_of(id);
                Hit { score: Some(score), right, text, picture }
            })
            .collect();
        let missed = match right {
            Some(image) if !found.iter().any(|hit| hit.right) => {
                let (text, picture) = self.image_of(image);
                vec![Hit { score: None, right: true, text, picture }]
            }
            _ => Vec::new(),
        };
        let text = caption.map_or_else(|| format!("caption {}", query.id), |caption| caption.1.clone());
        Example { rank: query.rank, text, picture: None, found, missed }
    }

    /// The text of a caption.
    pub(super) fn text_of(&self, id: i64) -> String {
        self.captions.get(&id).map_or_else(|| format!("caption {id}"), |(_, text)| text.clone())
    }

    fn caption(&self, id: i64, score: Option<f32>, query_image: i64) -> Hit {
        match self.captions.get(&id) {
            Some((image, text)) => Hit { score, right: *image == query_image, text: text.clone(), picture: None },
            None => Hit { score, right: false, text: format!("caption {id}"), picture: None },
        }
    }

    /// The name and the picture of an image.
    pub(super) fn image_of(&self, id: i64) -> (String, Option<Picture>) {
        self.images.get(&id).cloned().unwrap_or_else(|| (format!("image {id}"), None))
    }
}
