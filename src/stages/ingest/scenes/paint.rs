//! A scene as a PNG.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use super::scene::{Scene, Thing};
use super::shapes::Tone;
use crate::error::{Error, Result};

/// A pixel is the mean of this many points squared.
const POINTS: u32 = 4;
/// The background of a pixel is the mean of this many points squared.
const GROUND_POINTS: u32 = 2;
/// The darkest and the brightest light on a background.
const LIGHT: (f64, f64) = (0.88, 1.06);

/// The picture of `scene`, `pixels` wide and high, as the bytes of an RGB PNG.
///
/// Filter and compression are fixed: the bytes depend on the version of the png library and on nothing else.
pub(super) fn png(scene: &Scene, pixels: u32) -> Result<Vec<u8>> {
    let picture = paint(scene, pixels);
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Sub)
        .write_image(&picture, pixels, pixels, ExtendedColorType::Rgb8)
        .map_err(|error| Error::internal(format!("a picture cannot be encoded: {error}")))?;
    Ok(bytes)
}

/// Red, green and blue of every pixel, row by row.
fn paint(scene: &Scene, pixels: u32) -> Vec<u8> {
    let mut canvas = paint_ground(scene, pixels);
    for thing in &scene.things {
        let first = thing.x - 0.5 * thing.step() * f64::from(thing.count - 1);
        for i in 0..thing.count {
            paint_object(thing, first + thing.step() * f64::from(i), pixels, &mut canvas);
        }
    }
    canvas.iter().flat_map(|colour| colour.map(level)).collect()
}

fn paint_ground(scene: &Scene, pixels: u32) -> Vec<[f64; 3]> {
    let light = LIGHT.0 + (LIGHT.1 - LIGHT.0) * scene.light;
    let mut canvas = Vec::with_capacity((pixels * pixels) as usize);
    for row in 0..pixels {
        for column in 0..pixels {
            let mut sum = [0.0; 3];
            for (x, y) in points(column, row, pixels, GROUND_POINTS) {
                let colour = scene.ground.colour(x, y, scene.shift);
                sum = [0, 1, 2].map(|i| sum[i] + colour[i]);
            }
            canvas.push(sum.map(|sum| light * sum / f64::from(GROUND_POINTS * GROUND_POINTS)));
        }
    }
    canvas
}

/// Paints one object of `thing` with its centre at `x`.
fn paint_object(thing: &Thing, x: f64, pixels: u32, canvas: &mut [[f64; 3]]) {
    // A square that is turned a little reaches 1.24 times as far.
    let reach = 1.3 * thing.radius;
    let (columns, rows) = (span(x, reach, pixels), span(thing.y, reach, pixels));
    let (cos, sin) = thing.turn;
    for row in rows {
        for column in columns.clone() {
            let mut sum = [0.0; 3];
            let mut hits = 0;
            for (px, py) in points(column, row, pixels, POINTS) {
                let (dx, dy) = ((px - x) / thing.radius, (py - thing.y) / thing.radius);
                let (dx, dy) = (cos * dx + sin * dy, cos * dy - sin * dx);
                let tone = thing.shape.tone(if thing.mirrored { -dx } else { dx }, dy);
                if let Some(tone) = tone {
                    let colour = colour(thing, tone);
                    sum = [0, 1, 2].map(|i| sum[i] + colour[i]);
                    hits += 1;
                }
            }
            let behind = &mut canvas[(row * pixels + column) as usize];
            let share = f64::from(POINTS * POINTS - hits);
            *behind = [0, 1, 2].map(|i| (sum[i] + share * behind[i]) / f64::from(POINTS * POINTS));
        }
    }
}

fn colour(thing: &Thing, tone: Tone) -> [f64; 3] {
    match tone {
        Tone::Fixed(colour) => colour,
        Tone::Body(brightness) => {
            let colour = thing.colour.rgb();
            [0, 1, 2].map(|i| brightness * (colour[i] + thing.tint[i]).clamp(0.0, 255.0))
        }
    }
}

/// Points of a pixel, in the unit square.
fn points(column: u32, row: u32, pixels: u32, each_way: u32) -> impl Iterator<Item = (f64, f64)> {
    let scale = f64::from(pixels * each_way);
    let at = move |pixel: u32, i: u32| (f64::from(pixel * each_way + i) + 0.5) / scale;
    (0..each_way).flat_map(move |i| (0..each_way).map(move |j| (at(column, j), at(row, i))))
}

/// Pixels that reach from `centre - reach` to `centre + reach`.
fn span(centre: f64, reach: f64, pixels: u32) -> std::ops::Range<u32> {
    let pixel = |at: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the picture")]
        let pixel = (at * f64::from(pixels)).clamp(0.0, f64::from(pixels)) as u32;
        pixel
    };
    pixel(centre - reach)..(pixel(centre + reach) + 1).min(pixels)
}

/// The nearest of 256 levels.
fn level(value: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=255")]
    let level = (value.clamp(0.0, 255.0) + 0.5) as u8;
    level
}
