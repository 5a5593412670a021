//! The reader of `scenes`: every split's pictures in order.

use std::ops::RangeInclusive;

use super::super::Scenes;
use super::super::rows::{Image, Rows};
use super::{paint, scene::Scene, words};
use crate::error::Result;
use crate::stage::Cx;

/// Widths that a picture may have.
pub(in super::super) const PIXELS: RangeInclusive<u32> = 32..=512;

/// Captions of a picture.
const CAPTIONS: i64 = 5;

/// Writes pictures and captions of all splits.
///
/// `image_id` counts pictures over `train`, `val`, `test`; `caption_id` is `5·image_id + k`.
pub(in super::super) fn run(set: &Scenes, cx: &mut Cx<'_>) -> Result<()> {
    let mut rows = Rows::default();
    let mut index = 0;
    for (split, images) in [("train", set.train), ("val", set.val), ("test", set.test)] {
        for _ in 0..images {
            cx.proceed()?;
            let scene = Scene::new(set.seed, index);
            let picture = paint::png(&scene, set.pixels)?;
            let texts = words::captions(&scene);
            let image_id = i64::from(index);
            let file_name = format!("scene-{index:06}.png");
            let image = Image { image_id, split, file_name: &file_name, path: None, bytes: Some(&picture) };
            rows.push(cx, &image, (image_id * CAPTIONS..).zip(texts.iter().map(String::as_str)))?;
            index += 1;
        }
    }
    rows.finish(cx)
}

#[cfg(test)]
mod sheet {
    use super::*;
    #[test]
    fn contact_sheet() {
        let start = std::time::Instant::now();
        let (n, p) = (8u32, 160u32);
        let mut sheet = image::RgbImage::new(n * p, 5 * p);
        for i in 0..n * 5 {
            let scene = Scene::new(7, i);
            let png = paint::png(&scene, p).unwrap();
            let picture = image::load_from_memory(&png).unwrap().to_rgb8();
            image::imageops::replace(&mut sheet, &picture, i64::from(i % n * p), i64::from(i / n * p));
            println!("--- {i}");
            for c in words::captions(&scene) { println!("{c}"); }
        }
        sheet.save("/tmp/ingest-sheet.png").unwrap();
        println!("{:?}", start.elapsed());
        let start = std::time::Instant::now();
        let mut bytes = 0;
        for i in 0..1000 { bytes += paint::png(&Scene::new(7, i), 96).unwrap().len(); }
        let start2 = std::time::Instant::now();
        for i in 0..1000 { bytes += paint::paint(&Scene::new(7, i), 96).len(); }
        println!("paint only {:?}", start2.elapsed());
        println!("1000 at 96: {:?}, {bytes} bytes", start.elapsed());
        std::fs::create_dir_all("/tmp/ingest-scenes").unwrap();
        let mut lines = String::new();
        for i in 0..1400 {
            let s = Scene::new(7, i);
            std::fs::write(format!("/tmp/ingest-scenes/{i}.png"), paint::png(&s, 96).unwrap()).unwrap();
            for c in words::captions(&s) { lines += &format!("{i}\t{c}\n"); }
        }
        std::fs::write("/tmp/ingest-scenes/captions.txt", lines).unwrap();
        let start = std::time::Instant::now();
        for i in 0..1000 { words::captions(&Scene::new(7, i)); }
        println!("1000 captions: {:?}", start.elapsed());
    }
}
