//! Reader of `synthetic`: generated images and captions, which need no download.
//!
//! An image shows two or three groups of objects, each with a shape, a colour, a size, a count and a position, in front
//! of one of ten backgrounds. Five captions describe it, with different words, order, details and spatial relations. So
//! captions of different images differ in their meaning, not in their style.
//!
//! An image and its captions are a pure function of the seed and the image's index. Only arithmetic that IEEE 754
//! defines to the bit is used (no sine, no power), so the bytes are the same on every machine.

mod scene;
mod shapes;
mod render;
mod caption_text;

use std::ops::RangeInclusive;

use super::SyntheticScenes;
use super::writer::{DataSetWriter, ImageRow};
use pairloom_base::error::{Error, Result};
use pairloom_stage::StageContext;
use scene::Scene;

/// Allowed widths and heights of an image, in pixels.
pub(super) const IMAGE_SIDES: RangeInclusive<u32> = 32..=512;

/// Number of captions of an image.
const CAPTIONS_PER_IMAGE: i64 = 5;
/// Number of images that a thread generates at a time.
const BLOCK_IMAGES: usize = 32;

/// Writes images and captions of all splits.
///
/// `image_id` numbers the images over `train`, `val`, `test`; `caption_id` is `5·image_id + k`.
pub(super) fn run(settings: &SyntheticScenes, cx: &mut StageContext<'_>) -> Result<()> {
    let mut rows = DataSetWriter::default();
    let splits = [("train", settings.train), ("val", settings.val), ("test", settings.test)];
    let images: Vec<(u32, &str)> =
        (0..).zip(splits.into_iter().flat_map(|(split, images)| (0..images).map(move |_| split))).collect();
    for block in images.chunks(BLOCK_IMAGES * cx.threads()) {
        cx.check_cancelled()?;
        for (&(index, split), rendered) in block.iter().zip(render_block(settings, block)?) {
            let (picture, texts) = rendered?;
            let image_id = i64::from(index);
            let file_name = format!("scene-{index:06}.png");
            let image = ImageRow { id: image_id, split, file_name: &file_name, path: None, bytes: Some(&picture) };
            rows.push(cx, &image, (image_id * CAPTIONS_PER_IMAGE..).zip(texts.iter().map(String::as_str)))?;
        }
    }
    rows.finish(cx)
}

/// PNG of a scene, and its captions.
type RenderedScene = Result<(Vec<u8>, [String; 5])>;

/// Generates the images of `block` in order, with one thread for each [`BLOCK_IMAGES`] of them.
fn render_block(settings: &SyntheticScenes, block: &[(u32, &str)]) -> Result<Vec<RenderedScene>> {
    let one = |index| {
        let scene = Scene::new(settings.seed, index);
        Ok((render::png(&scene, settings.pixels)?, caption_text::captions(&scene)))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = block
            .chunks(BLOCK_IMAGES)
            .map(|block| {
                scope.spawn(move || block.iter().map(|&(index, _)| one(index)).collect::<Vec<RenderedScene>>())
            })
            .collect();
        let mut rendered = Vec::with_capacity(block.len());
        for thread in threads {
            rendered.extend(thread.join().map_err(|_| Error::internal("a thread that renders scenes panicked"))?);
        }
        Ok(rendered)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::json;

    use super::super::Ingest;
    use super::super::testing::{captions, encoded_images, images, ingest, split_counts};
    use super::*;
    use pairloom_stage::Stage;

    fn settings(seed: u64, train: u32) -> serde_json::Value {
        json!({"synthetic": {"train": train, "val": 3, "test": 4, "pixels": 48, "seed": seed}})
    }

    #[test]
    fn an_image_depends_only_on_seed_and_index() {
        let run = |settings| ingest(std::path::Path::new(""), settings).unwrap();
        let (a, b, longer, other) =
            (run(settings(1, 70)), run(settings(1, 70)), run(settings(1, 90)), run(settings(2, 70)));
        assert_eq!(split_counts(&a), [70, 3, 4]);
        assert_eq!((images(&a), encoded_images(&a), captions(&a)), (images(&b), encoded_images(&b), captions(&b)));
        assert_eq!(encoded_images(&a), encoded_images(&longer)[..77]);
        let texts = |host| captions(host).into_iter().map(|caption| caption.3).collect::<Vec<_>>();
        assert_eq!(texts(&a), texts(&longer)[..77 * 5]);
        assert!(encoded_images(&a).iter().zip(encoded_images(&other)).all(|(a, b)| *a != b));
    }

    /// The digest was computed on x86-64. Other machines must give the same digest, and so must later versions of the
    /// code, unless the version of the stage is raised.
    #[test]
    fn bytes_are_the_same_on_every_machine() {
        let mut hash = blake3::Hasher::new();
        for index in 0..50 {
            let scene = Scene::new(7, index);
            hash.update(&render::png(&scene, 96).unwrap());
            hash.update(caption_text::captions(&scene).join("\n").as_bytes());
        }
        assert_eq!(
            hash.finalize().to_hex().as_str(),
            "8c6adfa4caa84218d10977c9644439f70c43cad543ae68df5b97f4ee251fcd59"
        );
    }

    #[test]
    fn images_decode_to_their_size() {
        let picture = image::load_from_memory(&render::png(&Scene::new(3, 1), 40).unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height(), picture.color()), (40, 40, image::ColorType::Rgb8));
    }

    /// The five captions of an image differ, and few sentences belong to several images.
    #[test]
    fn captions_distinguish_images() {
        let mut owners: HashMap<String, HashSet<u32>> = HashMap::new();
        for index in 0..1000 {
            let texts = caption_text::captions(&Scene::new(7, index));
            assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 5, "{texts:?}");
            for text in texts {
                assert!(text.ends_with('.') && text.starts_with(char::is_uppercase) && !text.contains("  "), "{text}");
                owners.entry(text).or_default().insert(index);
            }
        }
        let shared = owners.values().filter(|owners| owners.len() > 1).count();
        assert!(shared <= 10, "{shared} of {} sentences belong to several images", owners.len());
    }

    #[test]
    fn settings_are_checked_without_data() {
        let wrong = |train, pixels| -> Vec<String> {
            let set = Ingest::Synthetic(SyntheticScenes { train, val: 0, test: 0, pixels, seed: 0 });
            set.check().into_iter().map(|problem| problem.setting).collect()
        };
        assert_eq!(wrong(0, 31), ["synthetic", "synthetic.pixels"]);
        assert_eq!(wrong(1, 513), ["synthetic.pixels"]);
        assert_eq!(wrong(1, 32), [""; 0]);
    }
}
