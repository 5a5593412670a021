//! Tests of object storage in a folder, and in memory as if at a URL.

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::{Location, ObjectStorage};

fn in_memory() -> ObjectStorage {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    ObjectStorage::at_url(&inner, &Location::parse("s3://bucket/store".into()).unwrap())
}

fn an_object_is_absent_or_whole(objects: &ObjectStorage) {
    assert_eq!(objects.get("a/b").unwrap(), None);
    assert_eq!(objects.size("a/b").unwrap(), None);
    objects.put("a/b", Bytes::from_static(b"one")).unwrap();
    assert!(!objects.create("a/b", Bytes::from_static(b"two")).unwrap());
    assert!(objects.create("a/c", Bytes::from_static(b"three")).unwrap());
    assert_eq!(objects.get("a/b").unwrap().unwrap(), "one");
    assert_eq!(objects.size("a/c").unwrap(), Some(5));
    assert_eq!(objects.list("a").unwrap(), ["a/b", "a/c"]);
    objects.delete("a/b").unwrap();
    objects.delete("a/b").unwrap();
    assert_eq!(objects.sizes("").unwrap().into_iter().collect::<Vec<_>>(), [("a/c".to_owned(), 5)]);
    objects.delete_all(&["a/c".to_owned(), "a/d".to_owned()]).unwrap();
    assert!(objects.list("").unwrap().is_empty());
}

#[test]
fn in_a_folder_an_object_is_absent_or_whole() {
    let folder = tempfile::tempdir().unwrap();
    an_object_is_absent_or_whole(&ObjectStorage::local(folder.path()).unwrap());
}

#[test]
fn a_list_leaves_out_the_objects_below_a_prefix() {
    let objects = in_memory();
    for name in ["a.jpg", "store/v1/runs/1.json", "store/v10/a.jpg", "store/v1.jpg"] {
        objects.put(name, "a".into()).unwrap();
    }
    let listed = |objects: ObjectStorage| {
        let mut names = objects.list_objects(|object| object.name.to_owned()).unwrap();
        names.sort();
        names
    };
    assert_eq!(listed(objects.clone()).len(), 4);
    assert_eq!(listed(objects.without(Some("store/v1"))), ["a.jpg", "store/v1.jpg", "store/v10/a.jpg"]);
}

#[test]
fn at_a_url_an_object_is_absent_or_whole() {
    an_object_is_absent_or_whole(&in_memory());
}

#[test]
fn display_paths_are_below_the_given_url() {
    assert_eq!(in_memory().display_path("runs/1.json"), "s3://bucket/store/runs/1.json");
    assert_eq!(in_memory().display_path(""), "s3://bucket/store");
    assert_eq!(in_memory().folder(), None);
}

#[test]
fn of_two_conditional_replacements_one_wins() {
    let objects = in_memory();
    let first = objects.create_version("a", "one".into()).unwrap().unwrap();
    let second = objects.replace("a", "two".into(), &first).unwrap().unwrap();
    assert_eq!(objects.replace("a", "three".into(), &first).unwrap(), None);
    assert_eq!(objects.get_version("a").unwrap().unwrap(), (Bytes::from_static(b"two"), second.clone()));
    objects.delete("a").unwrap();
    assert_eq!(objects.replace("a", "four".into(), &second).unwrap(), None);
}

#[test]
fn an_object_with_the_same_content_counts_as_created() {
    let objects = in_memory();
    objects.put("a", "mine".into()).unwrap();
    assert!(objects.create("a", "mine".into()).unwrap());
    assert!(!objects.create("a", "hers".into()).unwrap());
}

#[test]
fn an_unreachable_server_is_reported_within_seconds() {
    // A free port that no process listens on.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "who".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let objects = ObjectStorage::open(&Location::parse("s3://bucket/store".into()).unwrap(), &settings).unwrap();
    let clock = tokio::time::Instant::now();
    let error = objects.get("a").unwrap_err();
    assert!(clock.elapsed() < std::time::Duration::from_secs(20), "{:?}", clock.elapsed());
    let message = error.to_string();
    assert!(message.starts_with("cannot read `s3://bucket/store/a`: Connection refused"), "{message}");
    assert!(
        message.contains(&format!("GET http://127.0.0.1:{port}/bucket/store/a, ")) && message.contains("times"),
        "{message}"
    );
    assert!(!message.contains("secret") && error.hint_text().is_some_and(|hint| hint.contains("AWS_ENDPOINT_URL")));
}
