//! The reader of `scenes`: every split's pictures in order.

use super::super::Scenes;
use super::super::rows::{Image, Rows};
use super::{paint, scene::Scene, words};
use crate::error::{Error, Result};
use crate::stage::Cx;

/// Captions of a picture.
const CAPTIONS: i64 = 5;
/// Pictures that a thread makes at a time.
const BLOCK: usize = 32;

/// Writes pictures and captions of all splits.
///
/// `image_id` counts pictures over `train`, `val`, `test`; `caption_id` is `5·image_id + k`.
pub(in super::super) fn run(set: &Scenes, cx: &mut Cx<'_>) -> Result<()> {
    let mut rows = Rows::default();
    let splits = [("train", set.train), ("val", set.val), ("test", set.test)];
    let images: Vec<(u32, &str)> =
        (0..).zip(splits.into_iter().flat_map(|(split, images)| (0..images).map(move |_| split))).collect();
    for block in images.chunks(BLOCK * cx.threads()) {
        cx.proceed()?;
        for (&(index, split), made) in block.iter().zip(make(set, block)?) {
            let (picture, texts) = made?;
            let image_id = i64::from(index);
            let file_name = format!("scene-{index:06}.png");
            let image = Image { id: image_id, split, file_name: &file_name, path: None, bytes: Some(&picture) };
            rows.push(cx, &image, (image_id * CAPTIONS..).zip(texts.iter().map(String::as_str)))?;
        }
    }
    rows.finish(cx)
}

/// A PNG and its captions.
type Made = Result<(Vec<u8>, [String; 5])>;

/// The pictures of `block` in order, made by a thread for each [`BLOCK`] of them.
fn make(set: &Scenes, block: &[(u32, &str)]) -> Result<Vec<Made>> {
    let one = |index| {
        let scene = Scene::new(set.seed, index);
        Ok((paint::png(&scene, set.pixels)?, words::captions(&scene)))
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = block
            .chunks(BLOCK)
            .map(|block| scope.spawn(move || block.iter().map(|&(index, _)| one(index)).collect::<Vec<Made>>()))
            .collect();
        let mut made = Vec::with_capacity(block.len());
        for thread in threads {
            made.extend(thread.join().map_err(|_| Error::internal("the painter of scenes panicked"))?);
        }
        Ok(made)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use serde_json::json;

    use super::super::super::Ingest;
    use super::super::super::testing::{captions, images, ingest, pictures, split_counts};
    use super::*;
    use crate::stage::Stage;

    fn scenes(seed: u64, train: u32) -> serde_json::Value {
        json!({"scenes": {"train": train, "val": 3, "test": 4, "pixels": 48, "seed": seed}})
    }

    #[test]
    fn a_picture_depends_on_seed_and_index_alone() {
        let run = |settings| ingest(std::path::Path::new(""), settings).unwrap();
        let (a, b, longer, other) = (run(scenes(1, 70)), run(scenes(1, 70)), run(scenes(1, 90)), run(scenes(2, 70)));
        assert_eq!(split_counts(&a), [70, 3, 4]);
        assert_eq!((images(&a), pictures(&a), captions(&a)), (images(&b), pictures(&b), captions(&b)));
        assert_eq!(pictures(&a), pictures(&longer)[..77]);
        let texts = |world| captions(world).into_iter().map(|caption| caption.3).collect::<Vec<_>>();
        assert_eq!(texts(&a), texts(&longer)[..77 * 5]);
        assert!(pictures(&a).iter().zip(pictures(&other)).all(|(a, b)| *a != b));
    }

    /// The digest was taken on x86-64; another machine must find the same, and so must a later version of the code
    /// unless the version of the stage is raised.
    #[test]
    fn bytes_are_the_same_on_every_machine() {
        let mut hash = blake3::Hasher::new();
        for index in 0..50 {
            let scene = Scene::new(7, index);
            hash.update(&paint::png(&scene, 96).unwrap());
            hash.update(words::captions(&scene).join("\n").as_bytes());
        }
        assert_eq!(
            hash.finalize().to_hex().as_str(),
            "8c6adfa4caa84218d10977c9644439f70c43cad543ae68df5b97f4ee251fcd59"
        );
    }

    #[test]
    fn pictures_decode_to_their_size() {
        let picture = image::load_from_memory(&paint::png(&Scene::new(3, 1), 40).unwrap()).unwrap();
        assert_eq!((picture.width(), picture.height(), picture.color()), (40, 40, image::ColorType::Rgb8));
    }

    /// Captions tell pictures apart: hardly any sentence fits two pictures, and none of a picture's five is another's.
    #[test]
    fn captions_tell_pictures_apart() {
        let mut owners: HashMap<String, HashSet<u32>> = HashMap::new();
        for index in 0..1000 {
            let texts = words::captions(&Scene::new(7, index));
            assert_eq!(texts.iter().collect::<HashSet<_>>().len(), 5, "{texts:?}");
            for text in texts {
                assert!(text.ends_with('.') && text.starts_with(char::is_uppercase) && !text.contains("  "), "{text}");
                owners.entry(text).or_default().insert(index);
            }
        }
        let shared = owners.values().filter(|owners| owners.len() > 1).count();
        assert!(shared <= 10, "{shared} of {} sentences belong to several pictures", owners.len());
    }

    #[test]
    fn settings_are_checked_without_data() {
        let wrong = |train, pixels| -> Vec<String> {
            let set = Ingest::Scenes(Scenes { train, val: 0, test: 0, pixels, seed: 0 });
            set.check().into_iter().map(|problem| problem.setting).collect()
        };
        assert_eq!(wrong(0, 31), ["scenes", "scenes.pixels"]);
        assert_eq!(wrong(1, 513), ["scenes.pixels"]);
        assert_eq!(wrong(1, 32), [""; 0]);
    }
}
