//! Section of word attention: the photograph of a caption once for each word, with its regions as bright as their weights.

use std::collections::{HashMap, HashSet};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use super::document::{Drawing, PageBlock, Section};
use super::item_labels::ItemLabels;
use pairloom_base::error::{Error, Result};
use pairloom_images::image::image_size;
use pairloom_stage::StageContext;
use pairloom_tables::{self as tables, region_boxes};

/// Tokens that are no words of the caption.
const MARKERS: [&str; 2] = ["<start>", "<end>"];

/// Direction of attention whose weights of a region sum to 1.
const IMAGE_TO_TEXT: &str = "i2t";

/// Caption with the attention between its words and the regions of an image.
struct CaptionAttention {
    ids: [i64; 2],
    words: Vec<AttendedWord>,
}

/// Section of the first `count` captions of the table `attention.weights`; `None` if it has none.
///
/// # Errors
/// A column is missing, or an image has no boxes or another number of them than of weights.
pub(super) fn section(cx: &mut StageContext<'_>, count: usize, labels: &mut ItemLabels) -> Result<Option<Section>> {
    let (captions, directions) = read(cx, count)?;
    let images: HashSet<i64> = captions.iter().map(|caption| caption.ids[1]).collect();
    let boxes = read_boxes(cx, &images)?;
    labels.read_images(cx, &images)?;
    let mut drawings = Vec::new();
    for (number, CaptionAttention { ids: [caption, image], words }) in captions.into_iter().enumerate() {
        let boxes = boxes.get(&image).map_or(&[][..], Vec::as_slice);
        if let Some(word) = words.iter().find(|word| word.weights.len() != boxes.len()) {
            let (weights, boxes) = (word.weights.len(), boxes.len());
            let message =
                format!("image {image} of caption {caption} has weights of {weights} regions and {boxes} boxes");
            return Err(Error::data(message).hint("`regions` and `boxes` must be of one stage"));
        }
        let text = words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ");
        let plain_text = words.iter().map(AttendedWord::in_words).collect::<Vec<_>>().join(", ");
        let picture = labels.image(image).picture;
        drawings.push(Drawing { text, svg: draw_words(number, picture.as_deref(), boxes, &words)?, plain_text });
    }
    if drawings.is_empty() {
        return Ok(None);
    }
    let has_region_rows = directions.contains(IMAGE_TO_TEXT);
    let whose = if has_region_rows { "share of each region's attention" } else { "attention of each word" };
    let note = format!(
        "Brighter regions have more of the {whose}. The outlined one has the most: its weight stands beside the word."
    );
    let blocks = vec![PageBlock::Note(note), PageBlock::Drawings(drawings)];
    Ok(Some(Section::new("Attention of words to regions", blocks)))
}

/// Reads the first `count` captions, without the tokens at their ends, and the directions of their attention.
fn read(cx: &mut StageContext<'_>, count: usize) -> Result<(Vec<CaptionAttention>, HashSet<String>)> {
    let (mut captions, mut directions) = (Vec::<CaptionAttention>::new(), HashSet::new());
    while let Some(batch) = cx.read_next("attention.weights")? {
        let (ids, image_ids) = (tables::int_column(&batch, "caption_id")?, tables::int_column(&batch, "image_id")?);
        let (words, direction) = (tables::text_column(&batch, "word")?, tables::text_column(&batch, "direction")?);
        let (weights, width) = tables::vector_column(&batch, "weights")?;
        for row in 0..batch.num_rows() {
            let ids = [ids.value(row), image_ids.value(row)];
            if captions.last().is_none_or(|last| last.ids != ids) {
                if captions.len() == count {
                    continue;
                }
                captions.push(CaptionAttention { ids, words: Vec::new() });
            }
            directions.insert(direction.value(row).to_owned());
            if let Some(last) = captions.last_mut()
                && !MARKERS.contains(&words.value(row))
            {
                let weights = weights[row * width..(row + 1) * width].to_vec();
                last.words.push(AttendedWord { text: words.value(row).to_owned(), weights });
            }
        }
    }
    Ok((captions, directions))
}

/// Reads the boxes of images.
fn read_boxes(cx: &mut StageContext<'_>, images: &HashSet<i64>) -> Result<HashMap<i64, Vec<[f32; 4]>>> {
    let mut boxes = HashMap::new();
    while let Some(batch) = cx.read_next("attention.boxes")? {
        let ids = tables::int_column(&batch, "image_id")?;
        let (values, count, width) = region_boxes::values(&batch)?;
        if width != 4 {
            return Err(Error::data(format!("column `boxes` has {width} values a region, expected 4")));
        }
        let rows = ids.values().iter().zip(values.chunks_exact((count * width).max(1)));
        boxes.extend(rows.filter(|(id, _)| images.contains(id)).map(|(id, row)| (*id, row.as_chunks().0.to_vec())));
    }
    Ok(boxes)
}

/// Size of an image that cannot be shown, in pixels.
const BLANK: (usize, usize) = (160, 120);

/// Opacity of the photograph under the regions.
const BACKGROUND: f32 = 0.25;

/// Smallest opacity of a region that is drawn.
const VISIBLE: f32 = 0.02;

/// Word with its weights.
struct AttendedWord {
    pub(super) text: String,
    /// Weight of each region; 0 for a place without one.
    pub(super) weights: Vec<f32>,
}

impl AttendedWord {
    /// Region with the largest weight, and this weight.
    fn strongest(&self) -> Option<(usize, f32)> {
        self.weights.iter().copied().enumerate().max_by(|left, right| left.1.total_cmp(&right.1))
    }

    /// Word with its strongest region, counted from 1.
    fn in_words(&self) -> String {
        match self.strongest() {
            Some((region, weight)) => format!("{} → region {} ({:.0} %)", self.text, region + 1, 100.0 * weight),
            None => self.text.clone(),
        }
    }
}

/// Draws the words of a caption. `number` tells the drawings of a page apart; `picture` is a JPEG; `boxes` are edges as
/// fractions of the picture: left, top, right and bottom.
///
/// # Errors
/// The picture is damaged.
fn draw_words(number: usize, picture: Option<&[u8]>, boxes: &[[f32; 4]], words: &[AttendedWord]) -> Result<Markup> {
    let (width, height) = picture.map_or(Ok(BLANK), image_size)?;
    let id = format!("attended-{number}");
    // The photograph is in the page once; each word and region refers to it.
    Ok(html! {
        svg.defined width="0" height="0" aria-hidden="true" { defs {
            @match picture {
                Some(picture) => {
                    image id=(id) width=(width) height=(height) href=(format!("data:image/jpeg;base64,{}", STANDARD.encode(picture))) {}
                }
                None => { rect id=(id) width=(width) height=(height) fill="#888888" {} }
            }
        } }
        div.words { @for word in words { (draw_word(word, &id, boxes, (width, height))) } }
    })
}

fn draw_word(word: &AttendedWord, id: &str, boxes: &[[f32; 4]], (width, height): (usize, usize)) -> Markup {
    let reference = format!("#{id}");
    let strongest = word.strongest();
    let most = strongest.map_or(0.0, |(_, weight)| weight).max(f32::MIN_POSITIVE);
    html! {
        div {
            svg viewBox=(format!("0 0 {width} {height}")) role="img" aria-label=(word.in_words()) {
                use href=(reference) opacity=(BACKGROUND) {}
                @for (edges, weight) in boxes.iter().zip(&word.weights) {
                    @if *weight / most >= VISIBLE {
                        @let [x, y, w, h] = pixels(*edges, (width, height));
                        // A nested picture shows its part of the photograph only.
                        svg x=(x) y=(y) width=(w) height=(h) viewBox=(format!("{x} {y} {w} {h}")) {
                            use href=(reference) opacity=(format!("{:.2}", weight / most)) {}
                        }
                    }
                }
                @if let Some(edges) = strongest.and_then(|(region, _)| boxes.get(region)) {
                    @let [x, y, w, h] = pixels(*edges, (width, height));
                    rect.strongest x=(x) y=(y) width=(w) height=(h) {}
                }
            }
            (word.text)
            @if let Some((_, weight)) = strongest { small { (format!(" {:.0} %", 100.0 * weight)) } }
        }
    }
}

/// Left, top, width and height of a box in a picture of this size, in pixels with one decimal.
#[expect(clippy::cast_precision_loss, reason = "thumbnails are small")]
fn pixels([left, top, right, bottom]: [f32; 4], (width, height): (usize, usize)) -> [f32; 4] {
    let (width, height) = (width as f32, height as f32);
    let [left, right] = [left, right].map(|edge| edge.clamp(0.0, 1.0) * width);
    let [top, bottom] = [top, bottom].map(|edge| edge.clamp(0.0, 1.0) * height);
    [left, top, (right - left).max(0.0), (bottom - top).max(0.0)].map(|value| (value * 10.0).round() / 10.0)
}
