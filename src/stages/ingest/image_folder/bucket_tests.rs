//! Tests of the form with images in a bucket.

use std::sync::Arc;

use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};
use serde_json::{Value, json};

use super::super::Ingest;
use super::super::testing::{captions, encoded_images, folder, images, ingest, refused};
use pairloom_base::error::Result;
use pairloom_stage::{OutputKind, Stage as _};
use pairloom_stage_testing::InMemoryHost;
use pairloom_storage::objects::{Location, ObjectStorage};

/// Runs the form on a table and the objects of a bucket, with more settings.
fn run(objects: &[(&str, Vec<u8>)], table: &str, more: Value) -> Result<InMemoryHost> {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    for (name, content) in objects {
        let object = Name::parse(name).unwrap();
        futures::executor::block_on(inner.put(&object, PutPayload::from(content.clone()))).unwrap();
    }
    let set = folder(&[("t.csv", table.as_bytes())]);
    let mut settings = json!({"images": "s3://bucket/photos", "split": "test"});
    if !table.is_empty() {
        settings["captions"] = json!("t.csv");
    }
    settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let stage: Ingest = serde_json::from_value(json!({"image_folder": settings})).unwrap();
    assert_eq!(stage.check(), []);
    assert!(matches!(&stage.outputs()[0].kind, OutputKind::Table { root: None, .. }), "no paths in a folder");
    let mut host = InMemoryHost::default();
    host.source_paths.insert("image_folder.captions".to_owned(), set.path().join("t.csv"));
    host.source_paths.insert("image_folder.images".to_owned(), "s3://bucket/photos".into());
    let bucket = ObjectStorage::at_url(&inner, &Location::parse("s3://bucket/photos".into()).unwrap());
    host.buckets.insert("image_folder.images".to_owned(), bucket);
    host.run(&stage)?;
    Ok(host)
}

#[test]
fn objects_that_the_table_names_become_rows_with_their_bytes() {
    let many: Vec<String> = (0..150).map(|i| format!("many/{i} é.jpg")).collect();
    let mut objects = vec![("a.jpg", b"A".to_vec()), ("b.jpg", b"B".to_vec()), ("other.txt", b"O".to_vec())];
    objects.extend(many.iter().map(|name| (name.as_str(), name.clone().into_bytes())));
    let rest: String = many.iter().map(|name| format!("{name},one of many\n")).collect();
    let table = format!("file_name,caption,image_id\nb.jpg,B0,7\n./a.jpg,A0,3\nb.jpg,B1,7\n{rest}");
    let mut table = table.replace(",one of many", ",one of many,");
    for i in 0..150 {
        table = table.replacen(",one of many,\n", &format!(",one of many,{}\n", 100 + i), 1);
    }
    let host = run(&objects, &table, json!({})).unwrap();
    let rows = images(&host);
    assert_eq!(rows.len(), 152);
    assert_eq!(
        rows[..2],
        [(7, "test".to_owned(), "b.jpg".to_owned(), None), (3, "test".to_owned(), "./a.jpg".to_owned(), None)]
    );
    let bytes = encoded_images(&host);
    assert_eq!(bytes[..2], [b"B", b"A"]);
    assert!(bytes[2..].iter().zip(&many).all(|(bytes, name)| bytes == name.as_bytes()));
    let texts: Vec<_> = captions(&host).into_iter().take(3).map(|(id, image, _, text)| (id, image, text)).collect();
    assert_eq!(texts, [(0, 7, "B0"), (2, 7, "B1"), (1, 3, "A0")].map(|(id, image, text)| (id, image, text.to_owned())));
}

#[test]
fn objects_that_are_missing_or_too_large_obey_the_rule() {
    let objects = [("a.jpg", b"A".to_vec()), ("large.jpg", vec![0; (16 << 20) + 1]), ("up.JPG", b"U".to_vec())];
    let table = "file_name,caption\na.jpg,A\nup.jpg,U\nlarge.jpg,L\n";
    let message = refused(run(&objects, table, json!({})));
    for wanted in [
        "s3://bucket/photos",
        "`up.jpg`: there is no such object, which `t.csv` names in line 3",
        "`large.jpg`: the object has 16777217 bytes, expected at most 16777216, which `t.csv` names in line 4",
        "the folder has `up.JPG`: names must agree in upper and lower case",
    ] {
        assert!(message.contains(wanted), "{message}");
    }
    let message = refused(run(&objects, table, json!({"on_missing": "skip"})));
    assert!(message.starts_with("2 of 3 images were left out, expected at most 0.1"), "{message}");
    let host = run(&objects, table, json!({"on_missing": "skip", "max_skipped": 0.7})).unwrap();
    assert_eq!((encoded_images(&host), captions(&host).len(), host.warnings.len()), (vec![b"A".to_vec()], 1, 2));
    let message = refused(run(&objects, "file_name,caption\n../a.jpg,A\n/a.jpg,B\n", json!({})));
    assert_eq!(message.matches("leads out of the image folder").count(), 2, "{message}");
}

/// The order of the names is that of their bytes, in a bucket and in a folder.
#[test]
fn without_a_table_all_pictures_are_images_without_captions() {
    let names = ["a-b.png", "a/1.JPG", "a/notes.txt", "a.jpeg", "Z.jpg"];
    let objects = names.map(|name| (name, name.as_bytes().to_vec()));
    let expected = ["Z.jpg", "a-b.png", "a.jpeg", "a/1.JPG"];
    let host = run(&objects, "", json!({})).unwrap();
    let bucket_images: Vec<_> = images(&host).into_iter().map(|(id, _, name, path)| (id, name, path)).collect();
    let rows = |path: fn(&str) -> Option<String>| -> Vec<_> {
        (0..).zip(expected).map(|(id, name)| (id, name.to_owned(), path(name))).collect()
    };
    assert_eq!(bucket_images, rows(|_| None));
    assert!(encoded_images(&host).iter().zip(expected).all(|(bytes, name)| bytes == name.as_bytes()));
    assert!(!host.output_tables.contains_key("captions") && host.warnings.is_empty());

    let files = objects.each_ref().map(|(name, content)| (*name, content.as_slice()));
    let set = folder(&files);
    let host = ingest(set.path(), json!({"image_folder": {"images": ".", "split": "test"}})).unwrap();
    let folder_images: Vec<_> = images(&host).into_iter().map(|(id, _, name, path)| (id, name, path)).collect();
    assert_eq!(folder_images, rows(|name| Some(name.to_owned())));
    let message = refused(run(&[("a.txt", b"A".to_vec())], "", json!({})));
    assert!(message.contains("`s3://bucket/photos` has no object whose name ends in .jpg, .jpeg, .png"), "{message}");
    let stage: Ingest =
        serde_json::from_value(json!({"image_folder": {"images": ".", "split": {"column": "split"}}})).unwrap();
    assert_eq!(stage.check()[0].message, "there is no table with such a column");
}
