//! Comparison of augmentation with torchvision: crop boxes by their distribution, pixels bit for bit.
//!
//! `tests/golden/augment.py` wrote the values.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::augmented::{PixelFormat, write_view};
use pairloom_images::image::{DecodedImage, decode};
use pairloom_kernels::augment::Augmentation;
use pairloom_kernels::resize::{CropBox, Interpolation, crop_and_resize};

#[derive(Deserialize)]
struct AugmentGoldenFile {
    boxes: Vec<BoxQuantiles>,
    central: Vec<CentralCrop>,
    probabilities: Vec<f64>,
    formulas: Vec<SyntheticImageViews>,
    photographs: Vec<PhotographViews>,
}

#[derive(Deserialize)]
struct BoxQuantiles {
    size: [usize; 2],
    quantiles: BTreeMap<String, Vec<f64>>,
}

#[derive(Deserialize)]
struct CentralCrop {
    size: [usize; 2],
    region: [usize; 4],
}

#[derive(Deserialize)]
struct SyntheticImageViews {
    size: [usize; 2],
    views: Vec<GoldenView>,
}

#[derive(Deserialize)]
struct PhotographViews {
    name: String,
    views: Vec<GoldenView>,
}

#[derive(Deserialize)]
struct GoldenView {
    region: [usize; 4],
    side: usize,
    mirrored: bool,
    crc: String,
    values: Vec<(usize, f32)>,
}

fn golden() -> AugmentGoldenFile {
    serde_json::from_value(test_data::golden_json("augment.json")).unwrap()
}

fn region([left, top, width, height]: [usize; 4]) -> CropBox {
    CropBox { left, top, width, height }
}

fn synthetic_image(width: usize, height: usize) -> DecodedImage {
    let mut rgb = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        let third = if (x / 9 + y / 11) % 2 == 0 { 20 + x % 60 } else { 230 - y % 50 };
        rgb.extend([(3 * x + 5 * y) % 256, x * y / 7 % 256, third].map(|value| u8::try_from(value).unwrap()));
    }
    DecodedImage { width, height, rgb }
}

/// CRC-32 as zlib computes it.
fn crc(bytes: &[u8]) -> u32 {
    let table: Vec<u32> = (0..256u32)
        .map(|byte| (0..8).fold(byte, |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 }))
        .collect();
    !bytes.iter().fold(!0, |crc, &byte| table[((crc ^ u32::from(byte)) & 255) as usize] ^ (crc >> 8))
}

/// Asserts that the crop has torchvision's bytes, and that its normalised values are equal.
fn compare(picture: &DecodedImage, seen: &GoldenView, name: &str) {
    let region = region(seen.region);
    let mut square =
        crop_and_resize(&picture.rgb, (picture.width, picture.height), region, seen.side, Interpolation::Bilinear);
    if seen.mirrored {
        for row in square.chunks_exact_mut(3 * seen.side) {
            row.as_chunks_mut::<3>().0.reverse();
        }
    }
    assert_eq!(format!("{:08x}", crc(&square)), seen.crc, "{name}: {region:?} at {}", seen.side);
    let mut pixels = vec![f32::NAN; 3 * seen.side * seen.side];
    write_view(
        picture,
        Augmentation { crop: region, flipped: seen.mirrored },
        PixelFormat::imagenet(seen.side),
        &mut pixels,
    );
    for &(place, expected) in &seen.values {
        assert_eq!(pixels[place], expected, "{name}: {region:?} at {}, value {place}", seen.side);
    }
}

#[test]
fn augmented_synthetic_images_equal_those_of_torchvision() {
    for formula in golden().formulas {
        let [width, height] = formula.size;
        for seen in &formula.views {
            compare(&synthetic_image(width, height), seen, &format!("{width} × {height}"));
        }
    }
}

#[test]
fn augmented_photographs_equal_those_of_torchvision() {
    let Some(images) = test_data::public("flickr8k-1k/images") else { return };
    let photographs = golden().photographs;
    assert!(!photographs.is_empty());
    for photograph in photographs {
        let picture = decode(&std::fs::read(images.join(&photograph.name)).unwrap()).unwrap();
        for seen in &photograph.views {
            compare(&picture, seen, &photograph.name);
        }
    }
}

#[test]
fn images_too_long_for_any_crop_get_the_centre_crop_of_torchvision() {
    for case in golden().central {
        let [width, height] = case.size;
        for position in 0..20 {
            let view = Augmentation::draw(7, 0, position, width, height);
            assert_eq!(view.crop, region(case.region), "{width} × {height}");
        }
    }
}

/// At each quantile of torchvision's draws, the share of our draws below it is the same. With 40,000 draws each, the
/// standard deviation of the difference is at most 0.0036.
#[test]
#[expect(clippy::cast_precision_loss, reason = "sides and counts are far below 2^53")]
fn crop_boxes_are_distributed_as_in_torchvision() {
    let golden = golden();
    for case in &golden.boxes {
        let [width, height] = case.size;
        let mut drawn: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for position in 0..40_000 {
            let CropBox { left, top, width: w, height: h } = Augmentation::draw(11, 3, position, width, height).crop;
            drawn.entry("area").or_default().push((w * h) as f64 / (width * height) as f64);
            drawn.entry("ratio").or_default().push(w as f64 / h as f64);
            for (name, start, room) in [("across", left, width - w), ("down", top, height - h)] {
                if room > 0 {
                    drawn.entry(name).or_default().push(start as f64 / room as f64);
                }
            }
        }
        assert_eq!(case.quantiles.len(), drawn.len());
        for (name, quantiles) in &case.quantiles {
            let values = &drawn[name.as_str()];
            let share = |fits: &dyn Fn(f64) -> bool| {
                values.iter().filter(|&&value| fits(value)).count() as f64 / values.len() as f64
            };
            for (&quantile, &probability) in quantiles.iter().zip(&golden.probabilities) {
                // Quantiles are rounded to six places, and values repeat.
                let (below, up_to) =
                    (share(&|value| value < quantile - 1e-6), share(&|value| value <= quantile + 1e-6));
                let fits = below - 0.015 <= probability && probability <= up_to + 0.015;
                assert!(fits, "{width} × {height}, {name}: {below} to {up_to} at {quantile}, expected {probability}");
            }
        }
    }
}
