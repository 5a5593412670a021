//! Tests against a server of this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use object_store::memory::InMemory;
use object_store::path::Path as Name;
use object_store::{ObjectStore, ObjectStoreExt as _, PutPayload};

use super::{FetchLimits, ImageFetcher, ObjectFetcher};
use pairloom_base::error::{Error, ErrorCategory};
use pairloom_storage::objects::{Location, ObjectStorage};

/// Server that answers by path, until the test ends. Returns its address, and the number of requests so far.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (own, count) = (address.clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let serve = move || {
        let tries = AtomicUsize::new(0);
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            reader.read_line(&mut line).unwrap();
            let mut header = String::new();
            while reader.read_line(&mut header).unwrap() > 2 {
                header.clear();
            }
            counted.fetch_add(1, Ordering::SeqCst);
            let path = line.split(' ').nth(1).unwrap_or_default();
            let redirect = |to: &str| format!("302 Found\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n");
            let answer = match path {
                "/a.png" => "200 OK\r\nContent-Length: 7\r\n\r\npicture".to_owned(),
                "/moved" => redirect("/a.png"),
                "/loop" => redirect("/loop"),
                "/private" => redirect("http://127.0.0.1:9/secret"),
                "/metadata" => redirect("http://169.254.169.254/latest"),
                "/file" => redirect("file:///etc/passwd"),
                "/named" => redirect("http://localhost:9/"),
                "/large" => "200 OK\r\nContent-Length: 999999\r\n\r\n".to_owned(),
                // Without a length, the answer ends with the connection.
                "/endless" => format!("200 OK\r\n\r\n{}", "x".repeat(2000)),
                "/cut" => "200 OK\r\nContent-Length: 100\r\n\r\nhalf".to_owned(),
                "/twice" if tries.fetch_add(1, Ordering::SeqCst) == 0 => {
                    "503 Service Unavailable\r\nContent-Length: 0\r\n\r\n".to_owned()
                }
                "/twice" => "200 OK\r\nContent-Length: 5\r\n\r\nagain".to_owned(),
                "/busy" => "429 Too Many Requests\r\nContent-Length: 0\r\n\r\n".to_owned(),
                _ => "404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            // The client may have ended the connection.
            let _ = stream
                .write_all(format!("HTTP/1.1 {}", answer.replacen("\r\n", "\r\nConnection: close\r\n", 1)).as_bytes());
        }
    };
    std::thread::Builder::new().name("server".to_owned()).spawn(serve).unwrap();
    (own, count)
}

fn fetcher(private: &[&str], per_second: f64) -> ImageFetcher {
    ImageFetcher::new(FetchLimits {
        max_bytes: 1000,
        parallel: 4,
        per_second,
        timeout: Duration::from_secs(20),
        retries: 2,
        pause: Duration::from_millis(1),
        private_hosts: private.iter().map(|host| (*host).to_owned()).collect(),
    })
    .unwrap()
}

#[test]
fn images_are_fetched_in_order_and_failures_say_why() {
    let (address, count) = server();
    let paths = [
        "/a.png",
        "/moved",
        "/twice",
        "/loop",
        "/private",
        "/metadata",
        "/file",
        "/named",
        "/large",
        "/endless",
        "/cut",
        "/busy",
        "/none",
    ];
    let urls: Vec<String> = paths.iter().map(|path| format!("http://{address}{path}")).collect();
    let mut urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    urls.extend(["no url", "ftp://example.org/a.png", "http://[::1]/a.png"]);
    let got = fetcher(&[&address], 1e6).fetch_all(&urls, &|| Ok(())).unwrap();
    let private = "its host is a private address";
    let wanted: [Result<&str, &str>; 16] = [
        Ok("picture"),
        Ok("picture"),
        Ok("again"),
        Err("more than 5 redirects"),
        Err(private),
        Err(private),
        Err("its scheme is `file`, expected `http` or `https`"),
        Err(private),
        Err("it has more than 1000 bytes"),
        Err("it has more than 1000 bytes"),
        Err("(3 tries)"),
        Err("the server answers 429 Too Many Requests (3 tries)"),
        Err("the server answers 404 Not Found"),
        Err("it is no URL"),
        Err("its scheme is `ftp`"),
        Err(private),
    ];
    for ((url, got), wanted) in urls.iter().zip(&got).zip(wanted) {
        match (got, wanted) {
            (Ok(bytes), Ok(text)) => assert_eq!(bytes, text.as_bytes(), "{url}"),
            (Err(message), Err(text)) => assert!(message.contains(text), "{url}: {message}"),
            _ => panic!("{url}: {got:?}, expected {wanted:?}"),
        }
    }
    let metadata = got[5].as_ref().unwrap_err();
    assert!(metadata.starts_with("it redirects to `http://169.254.169.254/"), "{metadata}");
    // One request each, with those to follow: a redirect (1), tries of `/twice` (1), `/loop` (5), `/cut` and `/busy` (2).
    assert_eq!(count.load(Ordering::SeqCst), paths.len() + 1 + 1 + 5 + 2 + 2);
}

#[test]
fn private_addresses_are_not_asked_unless_they_are_allowed() {
    let (address, count) = server();
    let port = address.rsplit_once(':').unwrap().1;
    let urls = [format!("http://{address}/a.png"), format!("http://localhost:{port}/a.png")];
    let urls = [urls[0].as_str(), urls[1].as_str()];
    let fetch = |private: &[&str]| fetcher(private, 1e6).fetch_all(&urls, &|| Ok(())).unwrap();
    for got in fetch(&[]) {
        assert_eq!(got.unwrap_err(), "its host is a private address");
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
    let got = fetch(&[&format!("localhost:{port}")]);
    assert!(got[0].is_err() && got[1].is_ok(), "{got:?}");
    assert!(fetch(&["127.0.0.1:9"])[0].is_err(), "another port");
}

#[test]
fn the_rate_is_limited_and_a_cancelled_run_ends() {
    let (address, _) = server();
    let url = format!("http://{address}/a.png");
    let urls = vec![url.as_str(); 5];
    let clock = tokio::time::Instant::now();
    fetcher(&[&address], 20.0).fetch_all(&urls, &|| Ok(())).unwrap();
    // The first request does not wait.
    assert!(clock.elapsed() >= Duration::from_millis(190), "{:?}", clock.elapsed());
    let error = fetcher(&[&address], 0.01).fetch_all(&urls, &|| Err(Error::interrupted())).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Interrupted);
}

/// Objects of a bucket in memory, and the list of them.
#[test]
fn objects_that_change_after_they_were_listed_are_an_error() {
    let inner: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let objects = ObjectStorage::at_url(&inner, &Location::parse("s3://bucket/photos".into()).unwrap());
    for name in ["a b.jpg", "ü/c.jpg", "d%20e.jpg"] {
        let object = Name::parse(name).unwrap();
        futures::executor::block_on(inner.put(&object, PutPayload::from(name.to_owned()))).unwrap();
    }
    let mut listed = objects.list_objects(|object| (object.name.to_owned(), object.stamp)).unwrap();
    listed.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        listed.iter().map(|(name, stamp)| (name.as_str(), stamp.bytes)).collect::<Vec<_>>(),
        [("a b.jpg", 7), ("d%20e.jpg", 9), ("ü/c.jpg", 8)]
    );
    let fetcher = ObjectFetcher::new(objects.clone(), 2, 1e4).unwrap();
    let wanted: Vec<_> = listed.iter().map(|(name, stamp)| (name.as_str(), *stamp)).collect();
    let fetched = fetcher.fetch_all(&wanted, &|| Ok(())).unwrap();
    assert_eq!(fetched, wanted.iter().map(|(name, _)| name.as_bytes().to_vec()).collect::<Vec<_>>());

    // The same size, and gone.
    objects.put("a b.jpg", "another".into()).unwrap();
    futures::executor::block_on(inner.delete(&Name::parse("ü/c.jpg").unwrap())).unwrap();
    let error = fetcher.fetch_all(&wanted, &|| Ok(())).unwrap_err();
    assert_eq!(error.category(), ErrorCategory::Data);
    assert_eq!(
        error.to_string(),
        "objects of `s3://bucket/photos` changed after they were listed: `a b.jpg`, `ü/c.jpg`"
    );
    let slow = ObjectFetcher::new(objects, 2, 0.01).unwrap();
    let stopped = slow.fetch_all(&wanted, &|| Err(Error::interrupted()));
    assert_eq!(stopped.unwrap_err().category(), ErrorCategory::Interrupted);
}

/// `WebDAV` server. Names say how an answer differs from the list.
fn webdav() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let serve = move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).unwrap() > 0 {}
            let name = head.split(' ').nth(1).unwrap_or_default().rsplit('/').next().unwrap_or_default().to_owned();
            let (status, fields, body) = if head.starts_with("PROPFIND") {
                (
                    "207 Multi-Status",
                    String::new(),
                    format!("<multistatus>{}</multistatus>", LISTED.map(entry).concat()),
                )
            } else {
                let (tag, time, body) = answer(&name);
                let tag = tag.map(|tag| format!("ETag: {tag}\r\n")).unwrap_or_default();
                let time = time.map(|time| format!("Last-Modified: {time}\r\n")).unwrap_or_default();
                ("200 OK", tag + &time, body.to_owned())
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{fields}\r\n{body}");
            let _ = reader.get_mut().write_all(answer.as_bytes());
        }
    };
    std::thread::Builder::new().name("server".to_owned()).spawn(serve).unwrap();
    address
}

/// Names of the objects, and the tags that the list has.
const LISTED: [(&str, Option<&str>); 9] = [
    ("tag-in-answer", None),
    ("weak-tag", Some("W/&quot;1&quot;")),
    ("no-tag-in-answer", Some("&quot;1&quot;")),
    ("no-time-in-answer", None),
    ("earlier", None),
    ("later", None),
    ("later-without-tag", Some("&quot;1&quot;")),
    ("other-size", None),
    ("other-tag", Some("&quot;1&quot;")),
];
const TIME: &str = "Mon, 02 Nov 2026 10:00:00 GMT";
const LATER: &str = "Mon, 02 Nov 2026 10:00:01 GMT";

/// Tag, time and content in the answer.
fn answer(name: &str) -> (Option<&'static str>, Option<&'static str>, &'static str) {
    match name {
        "tag-in-answer" => (Some("\"1\""), Some(TIME), "picture"),
        "no-time-in-answer" => (Some("\"1\""), None, "picture"),
        "earlier" => (None, Some("Mon, 02 Nov 2026 09:00:00 GMT"), "picture"),
        "weak-tag" | "later" => (Some("\"1\""), Some(LATER), "picture"),
        "later-without-tag" => (None, Some(LATER), "picture"),
        "other-size" => (None, Some(TIME), "pictures"),
        "other-tag" => (Some("\"2\""), Some(TIME), "picture"),
        _ => (None, Some(TIME), "picture"),
    }
}

fn entry((name, tag): (&str, Option<&str>)) -> String {
    let tag = tag.map(|tag| format!("<getetag>{tag}</getetag>")).unwrap_or_default();
    format!(
        "<response><href>/photos/{name}</href><propstat><prop><getlastmodified>{TIME}</getlastmodified>\
         <getcontentlength>7</getcontentlength><resourcetype/>{tag}</prop><status>HTTP/1.1 200 OK</status></propstat>\
         </response>"
    )
}

#[test]
fn an_answer_is_compared_with_what_the_list_had() {
    let location = Location::parse(format!("http://{}/photos", webdav()).into()).unwrap();
    let objects = ObjectStorage::open(&location, &[]).unwrap();
    let mut listed = objects.list_objects(|object| (object.name.to_owned(), object.stamp)).unwrap();
    listed.sort_by_key(|(name, _)| LISTED.iter().position(|(listed, _)| listed == name));
    let wanted: Vec<_> = listed.iter().map(|(name, stamp)| (name.as_str(), *stamp)).collect();
    assert_eq!(wanted.len(), LISTED.len());
    let fetcher = ObjectFetcher::new(objects, 2, 1e4).unwrap();
    assert_eq!(fetcher.fetch_all(&wanted[..5], &|| Ok(())).unwrap(), vec![b"picture".to_vec(); 5]);
    let error = fetcher.fetch_all(&wanted, &|| Ok(())).unwrap_err().to_string();
    assert!(error.ends_with("listed: `later`, `later-without-tag`, `other-size`, `other-tag`"), "{error}");
}
