//! Rendering of a scene as a PNG.

use image::codecs::png::{CompressionType, FilterType, PngEncoder};
use image::{ExtendedColorType, ImageEncoder};

use super::scene::{ObjectGroup, Scene};
use super::shapes::PointColour;
use pairloom_base::error::{Error, Result};

/// Supersampling of objects: a pixel is the mean of this number of points in each direction.
const POINTS_PER_SIDE: u32 = 4;
/// Supersampling of the background: points of a pixel in each direction.
const BACKGROUND_POINTS_PER_SIDE: u32 = 2;
/// Range of brightness factors of the background.
const BRIGHTNESS_RANGE: (f64, f64) = (0.88, 1.06);

/// Renders `scene`, `pixels` wide and high, as an RGB PNG.
///
/// Filter and compression are fixed, so the bytes depend only on the scene and the version of the png library.
pub(super) fn png(scene: &Scene, pixels: u32) -> Result<Vec<u8>> {
    let image = render(scene, pixels);
    let mut bytes = Vec::new();
    PngEncoder::new_with_quality(&mut bytes, CompressionType::Fast, FilterType::Sub)
        .write_image(&image, pixels, pixels, ExtendedColorType::Rgb8)
        .map_err(|error| Error::internal(format!("an image cannot be encoded: {error}")))?;
    Ok(bytes)
}

/// Renders the RGB values of all pixels, row by row.
fn render(scene: &Scene, pixels: u32) -> Vec<u8> {
    let mut canvas = render_background(scene, pixels);
    for group in &scene.groups {
        let first = group.x - 0.5 * group.spacing() * f64::from(group.count - 1);
        for i in 0..group.count {
            render_object(group, first + group.spacing() * f64::from(i), pixels, &mut canvas);
        }
    }
    canvas.iter().flat_map(|colour| colour.map(to_byte)).collect()
}

fn render_background(scene: &Scene, pixels: u32) -> Vec<[f64; 3]> {
    let brightness = BRIGHTNESS_RANGE.0 + (BRIGHTNESS_RANGE.1 - BRIGHTNESS_RANGE.0) * scene.brightness;
    let mut canvas = Vec::with_capacity((pixels * pixels) as usize);
    for row in 0..pixels {
        for column in 0..pixels {
            let mut sum = [0.0; 3];
            for (x, y) in sample_points(column, row, pixels, BACKGROUND_POINTS_PER_SIDE) {
                let colour = scene.background.colour(x, y, scene.shift);
                sum = [0, 1, 2].map(|i| sum[i] + colour[i]);
            }
            canvas.push(
                sum.map(|sum| brightness * sum / f64::from(BACKGROUND_POINTS_PER_SIDE * BACKGROUND_POINTS_PER_SIDE)),
            );
        }
    }
    canvas
}

/// Renders one object of `group` with its centre at `x`.
fn render_object(group: &ObjectGroup, x: f64, pixels: u32, canvas: &mut [[f64; 3]]) {
    // A square with the largest rotation reaches 1.24 times as far as an upright one.
    let reach = 1.3 * group.radius;
    let (columns, rows) = (pixel_range(x, reach, pixels), pixel_range(group.y, reach, pixels));
    let (cos, sin) = group.rotation;
    for row in rows {
        for column in columns.clone() {
            let mut sum = [0.0; 3];
            let mut hits = 0;
            for (px, py) in sample_points(column, row, pixels, POINTS_PER_SIDE) {
                let (dx, dy) = ((px - x) / group.radius, (py - group.y) / group.radius);
                let (dx, dy) = (cos * dx + sin * dy, cos * dy - sin * dx);
                let point_colour = group.shape.colour_at(if group.flipped { -dx } else { dx }, dy);
                if let Some(point_colour) = point_colour {
                    let colour = rgb(group, point_colour);
                    sum = [0, 1, 2].map(|i| sum[i] + colour[i]);
                    hits += 1;
                }
            }
            let behind = &mut canvas[(row * pixels + column) as usize];
            let share = f64::from(POINTS_PER_SIDE * POINTS_PER_SIDE - hits);
            *behind = [0, 1, 2].map(|i| (sum[i] + share * behind[i]) / f64::from(POINTS_PER_SIDE * POINTS_PER_SIDE));
        }
    }
}

fn rgb(group: &ObjectGroup, point_colour: PointColour) -> [f64; 3] {
    match point_colour {
        PointColour::Fixed(colour) => colour,
        PointColour::Body(brightness) => {
            let colour = group.colour.rgb();
            [0, 1, 2].map(|i| brightness * (colour[i] + group.tint[i]).clamp(0.0, 255.0))
        }
    }
}

/// Returns the sample points of a pixel, in the unit square.
fn sample_points(column: u32, row: u32, pixels: u32, each_way: u32) -> impl Iterator<Item = (f64, f64)> {
    let scale = f64::from(pixels * each_way);
    let at = move |pixel: u32, i: u32| (f64::from(pixel * each_way + i) + 0.5) / scale;
    (0..each_way).flat_map(move |i| (0..each_way).map(move |j| (at(column, j), at(row, i))))
}

/// Returns the pixels from `centre - reach` to `centre + reach`.
fn pixel_range(centre: f64, reach: f64, pixels: u32) -> std::ops::Range<u32> {
    let pixel = |at: f64| {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to the picture")]
        let pixel = (at * f64::from(pixels)).clamp(0.0, f64::from(pixels)) as u32;
        pixel
    };
    pixel(centre - reach)..(pixel(centre + reach) + 1).min(pixels)
}

/// Rounds to the nearest of 256 levels.
fn to_byte(value: f64) -> u8 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to 0..=255")]
    let level = (value.clamp(0.0, 255.0) + 0.5) as u8;
    level
}
