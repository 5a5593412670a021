//! Drawing of the attention of words: a photograph for each word, with its regions as bright as their weights.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use pairloom_base::error::Result;
use pairloom_images::image::image_size;

/// Size of an image that cannot be shown, in pixels.
const BLANK: (usize, usize) = (160, 120);

/// Opacity of the photograph under the regions.
const BACKGROUND: f32 = 0.25;

/// Smallest opacity of a region that is drawn.
const VISIBLE: f32 = 0.02;

/// Word with its weights.
pub(super) struct AttendedWord {
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
    pub(super) fn in_words(&self) -> String {
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
pub(super) fn draw_words(
    number: usize,
    picture: Option<&[u8]>,
    boxes: &[[f32; 4]],
    words: &[AttendedWord],
) -> Result<Markup> {
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
