//! Objects in a folder, and objects as they are at a URL.

use std::sync::Arc;

use bytes::Bytes;
use object_store::ObjectStore;
use object_store::memory::InMemory;

use super::{Location, Objects};

fn in_memory() -> Objects {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    Objects::at_url(&inner, &Location::parse("s3://bucket/store".into()).unwrap())
}

fn an_object_is_absent_or_whole(objects: &Objects) {
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
    an_object_is_absent_or_whole(&Objects::local(folder.path()).unwrap());
}

#[test]
fn at_a_url_an_object_is_absent_or_whole() {
    an_object_is_absent_or_whole(&in_memory());
}

#[test]
fn a_place_is_said_as_people_said_it() {
    assert_eq!(in_memory().place("runs/1.json"), "s3://bucket/store/runs/1.json");
    assert_eq!(in_memory().place(""), "s3://bucket/store");
    assert_eq!(in_memory().folder(), None);
}

#[test]
fn of_two_who_replace_what_they_saw_one_wins() {
    let objects = in_memory();
    let first = objects.create_version("a", "one".into()).unwrap().unwrap();
    let second = objects.replace("a", "two".into(), &first).unwrap().unwrap();
    assert_eq!(objects.replace("a", "three".into(), &first).unwrap(), None);
    assert_eq!(objects.get_version("a").unwrap().unwrap(), (Bytes::from_static(b"two"), second.clone()));
    objects.delete("a").unwrap();
    assert_eq!(objects.replace("a", "four".into(), &second).unwrap(), None);
}

#[test]
fn what_was_written_although_the_answer_got_lost_counts_as_written() {
    let objects = in_memory();
    objects.put("a", "mine".into()).unwrap();
    assert!(objects.create("a", "mine".into()).unwrap());
    assert!(!objects.create("a", "hers".into()).unwrap());
}

#[test]
fn a_server_that_is_not_there_is_told_in_seconds_with_what_was_tried() {
    // A port that was free a moment ago, and where nobody listens.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let settings = [
        ("AWS_ENDPOINT_URL", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "who".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ]
    .map(|(name, value)| (name.to_owned(), value));
    let objects = Objects::open(&Location::parse("s3://bucket/store".into()).unwrap(), &settings).unwrap();
    let clock = tokio::time::Instant::now();
    let error = objects.get("a").unwrap_err();
    assert!(clock.elapsed() < std::time::Duration::from_secs(20), "{:?}", clock.elapsed());
    let told = error.to_string();
    assert!(told.starts_with("cannot read `s3://bucket/store/a`: Connection refused"), "{told}");
    assert!(
        told.contains(&format!("GET http://127.0.0.1:{port}/bucket/store/a, ")) && told.contains("times"),
        "{told}"
    );
    assert!(!told.contains("secret") && error.hint_text().is_some_and(|hint| hint.contains("AWS_ENDPOINT_URL")));
}
