//! Tests of the stage on valid and on damaged images.

use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryArray, Int64Array, RecordBatch, StringArray};
use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use serde_json::json;

use crate::testing::RunOnHost as _;
use pairloom_base::error::ErrorCategory;
use pairloom_images::image::{decode, picture_digests};
use pairloom_spec::stages::extract::{Extract, Network, WeightSource};
use pairloom_stage::{SourceRef, Stage};
use pairloom_stage_testing::InMemoryHost;
use pairloom_tables as tables;

pub(super) fn extract(more: serde_json::Value) -> Extract {
    let mut settings = json!({
        "images": "pairs.images", "network": "squeezenet1_0", "weights": "random", "resize": 40, "crop": 32, "batch_size": 2,
    });
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(settings).unwrap()
}

/// PNG of a colour gradient that depends on `seed`.
pub(super) fn png(seed: u8) -> Vec<u8> {
    let rgb: Vec<u8> = (0..48 * 40 * 3u32).map(|i| u8::try_from(i * u32::from(seed) / 7 % 256).unwrap()).collect();
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&rgb, 48, 40, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// JPEG of 17 × 13 pixels, from the golden file.
fn jpeg() -> Vec<u8> {
    use base64::Engine;
    let golden = test_data::golden_json("extract.json");
    base64::prelude::BASE64_STANDARD.decode(golden["decoded"][0]["bytes"].as_str().unwrap()).unwrap()
}

/// PNG header that claims `width` × `height` pixels, with a valid checksum and no pixel data.
fn bomb(width: u32, height: u32) -> Vec<u8> {
    let mut head = b"IHDR".to_vec();
    head.extend([width.to_be_bytes(), height.to_be_bytes()].concat());
    head.extend([8, 2, 0, 0, 0]);
    let checksum = !head.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { 0xedb8_8320 ^ (crc >> 1) } else { crc >> 1 })
    });
    [&b"\x89PNG\r\n\x1a\n\0\0\0\x0d"[..], &head, &checksum.to_be_bytes(), b"\0\0\0\0IDAT"].concat()
}

/// Rows of `images`, from their paths and bytes.
pub(super) fn images(rows: &[(Option<&str>, Option<Vec<u8>>)]) -> RecordBatch {
    let ids = 0..i64::try_from(rows.len()).unwrap();
    let bytes = BinaryArray::from_iter(rows.iter().map(|(_, bytes)| bytes.as_deref()));
    let digests = picture_digests(&bytes);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(ids.clone().map(|id| id + 100))),
        Arc::new(StringArray::from_iter_values(ids.clone().map(|id| if id % 2 == 0 { "train" } else { "test" }))),
        Arc::new(StringArray::from_iter_values(ids.map(|id| format!("picture {id}")))),
        Arc::new(StringArray::from_iter(rows.iter().map(|(path, _)| *path))),
        Arc::new(bytes),
        Arc::new(digests),
    ];
    tables::batch(&tables::images::table().schema(), columns).unwrap()
}

pub(super) fn host(rows: &[(Option<&str>, Option<Vec<u8>>)]) -> InMemoryHost {
    let mut host = InMemoryHost::default();
    host.input_tables.insert("images".into(), vec![images(rows)]);
    host
}

pub(super) fn inline(bytes: Vec<u8>) -> (Option<&'static str>, Option<Vec<u8>>) {
    (None, Some(bytes))
}

#[test]
fn features_are_in_order_and_reproducible() {
    let rows: Vec<_> = (1..=5).map(|seed| inline(png(seed))).collect();
    let run = |stage: &Extract| {
        let mut host = host(&rows);
        host.run_stage(stage).unwrap();
        host.output("features")
    };
    let all = run(&extract(json!({"seed": 3})));
    assert_eq!(tables::int_column(&all, "image_id").unwrap().values(), &[100, 101, 102, 103, 104]);
    assert_eq!(tables::text_column(&all, "split").unwrap().value(1), "test");
    let (values, width) = tables::vector_column(&all, "feature").unwrap();
    assert_eq!(width, 512);
    assert_eq!(all, run(&extract(json!({"seed": 3}))));
    assert_ne!(all, run(&extract(json!({"seed": 4}))));

    // The feature of an image does not depend on the other images of its batch.
    let alone = run(&extract(json!({"seed": 3, "batch_size": 1})));
    let (others, _) = tables::vector_column(&alone, "feature").unwrap();
    let largest = values.iter().fold(0.0f32, |most, value| most.max(value.abs()));
    assert!(largest > 0.0 && values.iter().zip(others).all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
    assert_ne!(values[..512], values[512..1024]);
}

#[test]
fn the_schema_contains_the_width() {
    for (more, width) in [
        (json!({}), 512),
        (json!({"pooling": "logits"}), 1000),
        (json!({"network": "resnet18"}), 512),
        (json!({"network": "resnet152"}), 2048),
    ] {
        assert_eq!(extract(more).width(), Some(width));
    }
    let stage = extract(json!({"pooling": "logits", "normalize": true}));
    let mut host = host(&[inline(png(1)), inline(jpeg())]);
    host.run_stage(&stage).unwrap();
    let batch = host.output("features");
    assert_eq!(batch.schema(), tables::features::table().schema_with_width(1000));
    let (values, _) = tables::vector_column(&batch, "feature").unwrap();
    for row in values.chunks_exact(1000) {
        assert!((row.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() - 1.0).abs() < 1e-6);
    }
}

#[test]
fn a_grid_has_the_boxes_of_its_cells() {
    // 48 × 40 pixels become 96 × 80, of which columns 16 to 80 and rows 8 to 72 are seen: half of that here.
    let stage = extract(
        json!({"resize": 80, "crop": 64, "pooling": {"grid": 2}, "on_undecodable": "skip", "max_skipped": 0.5}),
    );
    let broken = png(1)[..200].to_vec();
    let mut host = host(&[inline(png(1)), inline(b"GIF89a".to_vec()), inline(jpeg()), inline(broken)]);
    host.run_stage(&stage).unwrap();
    assert_eq!(tables::int_column(&host.output("regions"), "image_id").unwrap().values(), &[100, 102]);
    let batch = host.output("region_boxes");
    assert_eq!(batch.schema(), tables::region_boxes::table().schema_with_shape(&[4, 4]));
    // A header is enough.
    assert_eq!(tables::int_column(&batch, "image_id").unwrap().values(), &[100, 102, 103]);
    let (values, count, width) = tables::region_boxes::values(&batch).unwrap();
    assert_eq!((count, width), (4, 4));
    let expected = [8.0, 4.0, 24.0, 20.0, 24.0, 4.0, 40.0, 20.0, 8.0, 20.0, 24.0, 36.0, 24.0, 20.0, 40.0, 36.0];
    for (edge, (got, expected)) in values[..16].iter().zip(expected).enumerate() {
        assert!((got * [48.0, 40.0][edge % 2] - expected).abs() < 1e-4, "{edge}: {got}");
    }
}

#[test]
fn only_files_below_the_image_folder_are_read() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("images")).unwrap();
    std::fs::write(folder.path().join("secret.png"), png(1)).unwrap();
    // The format is detected from the content, not from the name.
    std::fs::write(folder.path().join("images/a.jpg"), png(2)).unwrap();
    let rows = [
        (Some("a.jpg"), None),
        (Some("../secret.png"), None),
        (Some("none.png"), None),
        (Some("."), None),
        (None, None),
    ];
    let mut host = host(&rows);
    host.source_paths.insert("images".into(), folder.path().join("images"));
    let error = host.run_stage(&extract(json!({}))).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    let text = error.to_string();
    assert!(text.starts_with("4 of the images 0 to 4 (from 0) cannot be decoded:\n  image `picture 1`: "), "{text}");
    for part in [
        "image `picture 1`: its path `../secret.png` leads out of the image folder",
        "image `picture 2`: cannot read `",
        "image `picture 3`: `",
        "is not a file",
        "image `picture 4`: it has neither a `path` nor `bytes`",
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert!(!text.contains("picture 0"), "{text}");
    assert!(host.output_tables.is_empty());

    host.run_stage(&extract(json!({"on_undecodable": "skip", "max_skipped": 0.8}))).unwrap();
    assert_eq!(tables::int_column(&host.output("features"), "image_id").unwrap().values(), &[100]);
    assert_eq!(host.warnings.len(), 4);
}

#[test]
fn damaged_images_are_named_with_the_reason() {
    let whole = jpeg();
    let mut broken = whole.clone();
    let scan = broken.windows(2).position(|pair| pair == [0xff, 0xc0]).unwrap();
    // Width and height of the frame.
    broken[scan + 5..scan + 9].copy_from_slice(&[0xff, 0, 0xff, 0]);
    let mut bad_table = whole.clone();
    let table = bad_table.windows(2).position(|pair| pair == [0xff, 0xc4]).unwrap();
    bad_table[table + 5..table + 21].fill(0xff);
    let cut_png = png(1)[..200].to_vec();
    let cases = [
        (whole[..whole.len() - 2].to_vec(), "the JPEG is truncated"),
        (whole[..whole.len() / 2].to_vec(), "the JPEG is truncated"),
        (broken, "it has 65280 × 65280 = 4261478400 pixels, expected at most 89478485"),
        (bad_table, "the JPEG is damaged: Bogus"),
        (b"\xff\xd8\xff\xd9".to_vec(), "the JPEG is damaged"),
        (cut_png, "the PNG is damaged"),
        (bomb(30_000, 30_000), "it has 30000 × 30000 = 900000000 pixels"),
        (b"a dog on a beach".to_vec(), "it is a text file, expected JPEG or PNG"),
        (vec![], "it is empty (0 bytes)"),
        (b"GIF89a".to_vec(), "it is a GIF image, expected JPEG or PNG"),
    ];
    let mut rows: Vec<_> = cases.iter().map(|(bytes, _)| inline(bytes.clone())).collect();
    rows.push(inline(whole));
    let stage = extract(json!({"on_undecodable": "skip", "max_skipped": 0.95}));
    let mut host = host(&rows);
    host.run_stage(&stage).unwrap();
    assert_eq!(tables::int_column(&host.output("features"), "image_id").unwrap().values(), &[110]);
    assert_eq!(host.warnings.len(), cases.len());
    for ((row, (_, expected)), warning) in cases.iter().enumerate().zip(&host.warnings) {
        assert_eq!(warning.subject, format!("picture {row}"));
        assert!(warning.message.contains(expected), "{}", warning.message);
    }
}

#[test]
fn at_most_a_tenth_of_the_images_is_left_out() {
    let rows = |good: usize, bad: usize| -> Vec<_> {
        (0..good + bad).map(|i| inline(if i < bad { b"GIF89a".to_vec() } else { jpeg() })).collect()
    };
    let run = |good: usize, bad: usize, more: serde_json::Value| {
        let mut host = host(&rows(good, bad));
        host.run_stage(&extract(more)).map(|()| host.output("features").num_rows())
    };
    let skip = || json!({"on_undecodable": "skip"});
    assert_eq!(run(9, 1, skip()).unwrap(), 9);
    let error = run(8, 1, skip()).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    assert_eq!(
        error.to_string(),
        "1 of 9 images were left out, expected at most 0.1 of them:\n  `picture 0`: it is a GIF image, expected JPEG or PNG"
    );
    assert!(error.hint_text().unwrap().contains("`max_skipped`"), "{error:?}");
    assert_eq!(run(8, 1, json!({"on_undecodable": "skip", "max_skipped": 0.2})).unwrap(), 8);
    let error = run(0, 7, json!({"on_undecodable": "skip", "max_skipped": 1.0})).unwrap_err();
    assert!(error.to_string().starts_with("all 7 images were left out:\n  `picture 0`"), "{error}");
    assert!(error.to_string().ends_with("\n  and 2 more"), "{error}");
    // An error lists five images.
    let error = run(1, 7, json!({})).unwrap_err().to_string();
    assert!(
        error.starts_with("7 of the images 0 to 7 (from 0) cannot be decoded:") && error.ends_with("and 2 more"),
        "{error}"
    );

    let messages = |more: serde_json::Value| -> Vec<String> {
        extract(more).check().into_iter().map(|problem| format!("{}: {}", problem.setting, problem.message)).collect()
    };
    assert_eq!(
        messages(json!({"on_undecodable": "skip", "max_skipped": 1.5})),
        ["max_skipped: got 1.5, expected 0 to 1"]
    );
    assert_eq!(
        messages(json!({"max_skipped": 0.5})),
        ["max_skipped: it limits the images that are left out, but none are"]
    );
    // The default keeps the keys of older results.
    assert!(extract(skip()).settings().get("max_skipped").is_none());
}

/// A truncated image is refused, unless only bytes after the pixel data are missing. Changed bytes never cause a panic.
#[test]
fn damage_anywhere_gives_an_error_or_an_image() {
    for whole in [jpeg(), png(3)] {
        let picture = decode(&whole).unwrap();
        for at in 0..whole.len() {
            assert!(decode(&whole[..at]).is_err() || decode(&whole[..at]).unwrap() == picture, "cut at {at}");
            let mut bent = whole.clone();
            bent[at] ^= 0x55;
            if let Err(error) = decode(&bent) {
                assert_eq!(error.category(), ErrorCategory::Data);
            }
        }
    }
}

#[test]
fn images_with_extreme_sides_have_features() {
    let line = |width: u32, height: u32| {
        let mut bytes = Vec::new();
        let rgb = vec![90; (width * height * 3) as usize];
        PngEncoder::new(&mut bytes).write_image(&rgb, width, height, ExtendedColorType::Rgb8).unwrap();
        inline(bytes)
    };
    let mut host = host(&[line(1, 1), line(20_000, 1), line(1, 20_000)]);
    host.run_stage(&extract(json!({}))).unwrap();
    let batch = host.output("features");
    // After preprocessing, all three are squares of the same grey.
    let (values, width) = tables::vector_column(&batch, "feature").unwrap();
    for row in values.chunks_exact(width).skip(1) {
        assert!(row.iter().zip(values).all(|(a, b)| (a - b).abs() < 1e-5));
    }
}

#[test]
fn weights_of_another_network_are_refused() {
    let Some(weights) = test_data::public("weights/squeezenet1_0.safetensors") else { return };
    let file = json!({"weights": {"file": weights}});
    let mut host = host(&[inline(png(1))]);
    host.source_paths.insert("weights.file".into(), weights);
    host.run_stage(&extract(file.clone())).unwrap();

    let mut other = extract(file);
    other.network = Some(Network::ResNet18);
    let error = host.run_stage(&other).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    assert!(
        error.to_string().ends_with("these look like weights of squeezenet1_0, expected those of resnet18"),
        "{error}"
    );
    assert!(error.hint_text().unwrap().starts_with("set `network = \"squeezenet1_0\"`"), "{error:?}");
}

#[test]
fn settings_are_checked_without_data() {
    let problems = extract(json!({"resize": 64, "crop": 96, "batch_size": 0})).check();
    let got: Vec<_> = problems.iter().map(|problem| (problem.setting.as_str(), problem.message.as_str())).collect();
    assert_eq!(
        got,
        [("crop", "a square of 96 pixels does not fit a side of 64"), ("batch_size", "0 images, expected at least 1")]
    );
    assert!(extract(json!({})).check().is_empty());

    // 222 · 3 · 224² = 33,417,216 values fit 2²⁵ = 33,554,432; 223 · 3 · 224² = 33,567,744 do not.
    for (batch, crop, most) in
        [(222, 224, 222), (223, 224, 222), (2, 2048, 2), (1024, 2048, 2), (usize::MAX, 32, 10_922)]
    {
        let problems = extract(json!({"resize": crop, "crop": crop, "batch_size": batch})).check();
        assert_eq!(problems.is_empty(), batch <= most, "{batch} × {crop}²");
        for problem in problems {
            assert_eq!(problem.setting, "batch_size");
            assert_eq!(problem.hint, Some(format!("make it at most {most}")));
            assert!(problem.message.contains("expected at most 33554432 (128 MiB)"), "{}", problem.message);
        }
    }
    let problems = extract(json!({"resize": 224, "crop": 224, "batch_size": 223})).check();
    assert!(problems[0].message.starts_with("223 images × 3 × 224² pixels are 33567744 values"), "{problems:?}");

    // The seed has no effect with a file of weights, so it must not enter the key.
    let file = WeightSource::File(SourceRef::new("x.safetensors"));
    let settings = Extract { weights: Some(file), ..extract(json!({"seed": 9})) }.settings();
    assert!(settings.get("seed").is_none() && settings.get("network").is_some());
    assert_eq!(extract(json!({"seed": 9})).settings()["seed"], 9);
}

#[test]
fn layers_and_crops_change_the_features() {
    let rows: Vec<_> = (1..=3).map(|seed| inline(png(seed))).collect();
    let run = |more| {
        let mut host = host(&rows);
        host.run_stage(&extract(more)).unwrap();
        let batch = host.output("features");
        let (values, width) = tables::vector_column(&batch, "feature").unwrap();
        assert_eq!(values.len(), 3 * width);
        (values.to_vec(), width)
    };
    let (plain, _) = run(json!({}));
    let (crops, width) = run(json!({"ten_crop": true}));
    assert_eq!(width, 512);
    assert_ne!(plain, crops);
    let (early, width) = run(json!({"layer": "features.5"}));
    assert_eq!(width, 256);
    assert!(early.iter().all(|value| *value >= 0.0) && early.iter().any(|value| *value > 0.0));
    // Square images that are not resized have one crop and its mirror image, five times each.
    let mirror_symmetric = |seed: u8| {
        let rgb: Vec<u8> = (0..32 * 32).flat_map(|i| [seed, u8::try_from(i / 32 * 8 % 256).unwrap(), 7]).collect();
        let mut bytes = Vec::new();
        PngEncoder::new(&mut bytes).write_image(&rgb, 32, 32, ExtendedColorType::Rgb8).unwrap();
        inline(bytes)
    };
    let rows = [mirror_symmetric(9), mirror_symmetric(200)];
    let both = [false, true].map(|ten_crop| {
        let mut host = host(&rows);
        host.run_stage(&extract(json!({"resize": 32, "ten_crop": ten_crop}))).unwrap();
        let batch = host.output("features");
        tables::vector_column(&batch, "feature").unwrap().0.to_vec()
    });
    let largest = both[0].iter().fold(0.0f32, |most, value| most.max(value.abs()));
    assert!(both[0].iter().zip(&both[1]).all(|(a, b)| (a - b).abs() <= 1e-5 * largest));
}

#[test]
fn only_the_chosen_splits_are_read() {
    let rows = [inline(png(1)), inline(b"GIF89a".to_vec()), inline(png(2))];
    let mut host = host(&rows);
    // The damaged image is in the split `test`.
    host.run_stage(&extract(json!({"splits": ["train"]}))).unwrap();
    assert_eq!(tables::int_column(&host.output("features"), "image_id").unwrap().values(), &[100, 102]);
    let error = host.run_stage(&extract(json!({"splits": ["val"]}))).unwrap_err();
    assert!(error.to_string().contains("no image of split `val` in `pairs.images`"), "{error}");
}

/// Without values, `resize`, `crop` and `pooling` are those of the network; written out, they make the same key.
#[test]
fn defaults_are_those_of_the_network() {
    let stage = |more: serde_json::Value| -> Extract {
        let mut settings = json!({"images": "pairs.images", "weights": "random"});
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(settings).unwrap()
    };
    for (network, resize, crop, pooling, width) in [
        ("resnet50", 256, 224, "average", 2048),
        ("vgg19", 256, 224, "embedding", 4096),
        ("inception_resnet_v2", 333, 299, "average", 1536),
        ("ViT-B-32", 224, 224, "embedding", 512),
        ("ViT-L-14-quickgelu", 224, 224, "embedding", 768),
    ] {
        let short = stage(json!({"network": network}));
        assert_eq!(short.check(), [], "{network}");
        assert_eq!(short.width(), Some(width));
        let long = json!({"network": network, "resize": resize, "crop": crop, "pooling": pooling});
        assert_eq!(short.settings(), stage(long).settings(), "{network}");
    }
    // A result of an older version is still found: no setting was added to it.
    let settings = stage(json!({"network": "resnet50"})).settings();
    let names: Vec<&String> = settings.as_object().unwrap().keys().collect();
    let expected = [
        "batch_size",
        "crop",
        "images",
        "network",
        "normalize",
        "on_undecodable",
        "pooling",
        "resize",
        "seed",
        "weights",
    ];
    assert_eq!(names, expected);
}

#[test]
fn outputs_that_a_network_lacks_are_refused() {
    for (more, setting, expected) in [
        (json!({"network": "resnet18", "pooling": "embedding"}), "pooling", "resnet18 computes no feature vector"),
        (json!({"network": "resnet18", "layer": "layer5"}), "layer", "resnet18 has no layer `layer5`"),
        (json!({"network": "vgg16", "layer": "classifier.1", "pooling": "average"}), "pooling", "has a vector"),
        (json!({"network": "vgg16", "layer": "features.4", "pooling": "logits"}), "pooling", "has feature maps"),
        (json!({"network": "ViT-B-32", "pooling": {"grid": 7}, "resize": 224, "crop": 224}), "pooling", "neither"),
        (json!({"network": "ViT-B-32"}), "crop", "expected 224"),
        (json!({"captions": {"table": "pairs.captions", "merges": "m.gz"}}), "captions", "does not embed texts"),
        (json!({"ten_crop": true, "pooling": {"grid": 2}}), "ten_crop", "different parts"),
        (json!({"splits": ["dev"]}), "splits", "no split `dev`"),
    ] {
        let problems = extract(more.clone()).check();
        let found = problems.iter().find(|problem| problem.setting == setting);
        assert!(found.is_some_and(|problem| problem.message.contains(expected)), "{more}: {problems:?}");
    }
}

#[test]
fn clip_embeds_images_and_captions() {
    let folder = tempfile::tempdir().unwrap();
    // Merges that no caption uses.
    let mut merges = vec!["#version".to_owned()];
    let mut symbols = vec!["À".to_owned(), "Á".to_owned()];
    for place in 0.. {
        if merges.len() >= 48_895 {
            break;
        }
        for letter in ["À", "Á"] {
            merges.push(format!("{} {letter}", symbols[place]));
            symbols.push(format!("{}{letter}", symbols[place]));
        }
    }
    std::fs::write(folder.path().join("merges.txt"), merges.join("\n")).unwrap();
    let mut host = host(&[inline(png(1)), inline(png(2)), inline(png(3))]);
    host.source_paths.insert("captions.merges".into(), folder.path().join("merges.txt"));
    let texts = ["a dog", "A  dog", "a much longer caption about nothing", "two", "x", "y"];
    let captions = tables::captions::TableColumns {
        caption_id: Int64Array::from_iter_values(0..6),
        image_id: Int64Array::from_iter_values((0..6).map(|id| 100 + id / 2)),
        split: StringArray::from_iter_values((0..6).map(|id| if id / 2 % 2 == 0 { "train" } else { "test" })),
        text: StringArray::from_iter_values(texts),
    };
    host.input_tables.insert("captions.table".into(), vec![captions.into_batch().unwrap()]);
    let captions = json!({"table": "pairs.captions", "merges": "merges.txt"});
    let stage =
        extract(json!({"network": "ViT-B-32", "captions": captions, "splits": ["train"], "resize": 224, "crop": 224}));
    assert_eq!(stage.check(), []);
    host.run_stage(&stage).unwrap();
    let (images, captions) = (host.output("image_embeddings"), host.output("caption_embeddings"));
    assert_eq!(tables::int_column(&images, "image_id").unwrap().values(), &[100, 102]);
    assert_eq!(tables::int_column(&captions, "caption_id").unwrap().values(), &[0, 1, 4, 5]);
    assert_eq!(tables::text_column(&captions, "tokenizer").unwrap().value(0), "clip");
    for batch in [&images, &captions] {
        let (values, width) = tables::vector_column(batch, "embedding").unwrap();
        assert_eq!(width, 512);
        for vector in values.chunks_exact(width) {
            assert!((vector.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() - 1.0).abs() < 1e-5);
        }
    }
    // Captions that are the same after cleaning have the same vector.
    let (values, width) = tables::vector_column(&captions, "embedding").unwrap();
    assert_eq!(values[..width], values[width..2 * width]);
    assert_ne!(values[..width], values[2 * width..3 * width]);
}
