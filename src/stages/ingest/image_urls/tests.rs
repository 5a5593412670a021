//! Tests of `image_urls` against a server of this machine.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use image::{ExtendedColorType, ImageEncoder, codecs::png::PngEncoder};
use serde_json::json;

use super::super::testing::{captions, encoded_images, folder, images, ingest, refused};
use super::ImageUrls;
use pairloom_stage_testing::{InMemoryHost, check_resume_after_every_save};

/// PNG of one grey pixel.
fn png(grey: u8) -> Vec<u8> {
    let mut bytes = Vec::new();
    PngEncoder::new(&mut bytes).write_image(&[grey; 3], 1, 1, ExtendedColorType::Rgb8).unwrap();
    bytes
}

/// Server of `/N.png`, a picture of grey N; other paths are a page. Returns its address, and the number of requests.
fn server() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, count) = (listener.local_addr().unwrap().to_string(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&count);
    let serve = move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let mut reader = BufReader::new(stream);
            let mut lines = String::new();
            while !lines.ends_with("\r\n\r\n") && reader.read_line(&mut lines).unwrap() > 0 {}
            counted.fetch_add(1, Ordering::SeqCst);
            let path = lines.split(' ').nth(1).unwrap_or_default();
            let grey = path.strip_prefix('/').and_then(|path| path.strip_suffix(".png")?.parse::<u8>().ok());
            let body = grey.map_or_else(|| b"<html>".to_vec(), png);
            let head = format!("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n", body.len());
            let _ = reader.get_mut().write_all(&[head.as_bytes(), &body].concat());
        }
    };
    std::thread::Builder::new().name("server".to_owned()).spawn(serve).unwrap();
    (address, count)
}

/// Settings that allow the server, and others.
fn allowing(address: &str, more: &serde_json::Value) -> serde_json::Value {
    let mut form = json!({"table": "urls.csv", "split": "train", "private_hosts": [address], "per_second": 1000.0});
    form.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"image_urls": form})
}

/// Rows whose URL is none, or of another scheme: each is one image, also where texts are equal. Rows with the same URL are
/// one image.
#[test]
fn rows_without_a_url_can_be_left_out() {
    let (address, _) = server();
    let table = format!(
        "url,caption\nhttp://{address}/5.png,five\nfile:///etc/passwd,none\nhttp//x,none\n,none\nhttp//x,none\n \
         ,none\nhttp://{address}/page,none\nhttp://{address}/page,none\n"
    );
    let data = folder(&[("urls.csv", table.as_bytes())]);
    let settings = |more| allowing(&address, &more);
    let error = refused(ingest(data.path(), settings(json!({}))));
    for wanted in [
        "has 5 mistakes",
        "line 3: `file:///etc/passwd` is no URL with `http://` or `https://`",
        "line 5: `url` is empty",
        "line 6: `http//x` is no URL",
    ] {
        assert!(error.contains(wanted), "{error}");
    }
    let host = ingest(data.path(), settings(json!({"on_missing": "skip", "max_skipped": 0.9}))).unwrap();
    assert_eq!(encoded_images(&host), [png(5)]);
    let ids: Vec<_> = images(&host).into_iter().map(|(id, ..)| id).collect();
    assert_eq!((ids, captions(&host).len()), (vec![0], 1));
    let warnings: Vec<_> = host.warnings.iter().map(|warning| (&*warning.subject, &*warning.message)).collect();
    let page = format!("http://{address}/page");
    for (warning, (url, place, message)) in warnings.iter().zip([
        ("file:///etc/passwd", "line 3", "its scheme is `file`, expected `http` or `https`"),
        ("http//x", "line 4", "it is no URL"),
        ("", "line 5", "there is no URL"),
        ("http//x", "line 6", "it is no URL"),
        ("", "line 7", "there is no URL"),
        (&page, "line 8", "it is a text file"),
    ]) {
        assert_eq!(warning.0, url);
        assert!(warning.1.starts_with(&format!("the image in {place} is left out: {message}")), "{warning:?}");
    }
    assert_eq!(warnings.len(), 6);
    let error = refused(ingest(data.path(), settings(json!({"on_missing": "skip"}))));
    assert!(error.contains("6 of 7 images were left out") && error.contains("`http//x` in line 6: it is"), "{error}");
}

/// Queries of URLs have signatures.
#[test]
fn messages_show_no_query_of_a_url() {
    let (address, _) = server();
    let url = format!("http://{address}/page?sig=secret");
    let table = format!(
        "url,caption,split\n{url},a,train\nhttp://127.0.0.1:1/a.png?sig=secret,b,train\nftp://u:secret@x/a?sig=secret,c,val\n"
    );
    let data = folder(&[("urls.csv", table.as_bytes()), ("two.csv", format!("{table}{url},a,val\n").as_bytes())]);
    let run = |more| {
        let mut settings = allowing(&address, &more);
        settings["image_urls"]["private_hosts"] = json!([address, "127.0.0.1:1"]);
        settings["image_urls"]["retries"] = json!(0);
        ingest(data.path(), settings)
    };
    let skip = json!({"on_missing": "skip", "max_skipped": 1.0});
    let mut two = skip.clone();
    two.as_object_mut()
        .unwrap()
        .extend([("table".to_owned(), json!("two.csv")), ("split".to_owned(), json!({"column": "split"}))]);
    for (settings, expected) in [
        (skip, "`http://127.0.0.1:1/a.png` in line 3: "),
        (two, "line 5: image `http://"),
        (json!({}), "line 4: `ftp://x/a` is no URL"),
    ] {
        let message = refused(run(settings));
        assert!(message.contains(expected) && !message.contains("secret"), "{message}");
    }
    let valid =
        format!("url,caption\n{url},a\nhttp://127.0.0.1:1/a.png?sig=secret,b\nhttp://{address}/5.png#secret,c\n");
    std::fs::write(data.path().join("urls.csv"), valid).unwrap();
    let message = refused(run(json!({})));
    assert!(message.contains("/page` in line 2: it is a text file") && !message.contains("secret"), "{message}");
    let host = run(json!({"on_missing": "skip", "max_skipped": 0.7})).unwrap();
    assert_eq!(host.warnings.len(), 2);
    assert!(host.warnings.iter().all(|warning| !format!("{warning:?}").contains("secret")), "{:?}", host.warnings);
}

#[test]
fn images_are_fetched_once_with_their_captions() {
    let (address, count) = server();
    let table = format!(
        "url,caption\nhttp://{address}/5.png,five\nhttp://{address}/page,none\nhttp://{address}/7.png,seven\n\
         http://{address}/5.png,again five\n"
    );
    let data = folder(&[("urls.csv", table.as_bytes())]);
    let settings = |more| allowing(&address, &more);
    let error = refused(ingest(data.path(), settings(json!({}))));
    let place =
        format!("`http://{address}/page` in line 3: it is a text file (HTML, XML or SVG), expected JPEG or PNG");
    assert!(error.contains(&place) && error.contains("on_missing"), "{error}");
    count.store(0, Ordering::SeqCst);
    let host = ingest(data.path(), settings(json!({"on_missing": "skip", "max_skipped": 0.5}))).unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 3);
    let rows: Vec<_> = images(&host).into_iter().map(|(id, _, name, path)| (id, name, path)).collect();
    assert_eq!(rows, [(0, format!("http://{address}/5.png"), None), (2, format!("http://{address}/7.png"), None)]);
    assert_eq!(encoded_images(&host), [png(5), png(7)]);
    let texts: Vec<_> = captions(&host).into_iter().map(|(id, image, _, text)| (id, image, text)).collect();
    let wanted = [(0, 0, "five"), (3, 0, "again five"), (2, 2, "seven")];
    assert_eq!(texts, wanted.map(|(id, image, text)| (id, image, text.to_owned())));
    let error = refused(ingest(data.path(), settings(json!({"on_missing": "skip"}))));
    assert!(error.contains("1 of 3 images were left out, expected at most 0.1"), "{error}");
    let mut secret = settings(json!({"on_missing": "skip", "max_skipped": 1.0}));
    secret["image_urls"]["private_hosts"] = json!([]);
    let error = refused(ingest(data.path(), secret));
    assert!(error.contains("all 3 images were left out") && error.contains("private address"), "{error}");
}

/// Published tables of CC3M have no names of columns, and some captions are empty.
#[test]
fn empty_captions_can_be_left_out_of_a_table_without_names_of_columns() {
    let (address, count) = server();
    let rows: String =
        (0..10).map(|n| format!("{}\thttp://{address}/{n}.png\n", if n == 3 { "" } else { "text" })).collect();
    let data = folder(&[("cc3m.tsv", rows.as_bytes())]);
    let settings = |more: serde_json::Value| {
        let mut form = allowing(&address, &json!({"table": "cc3m.tsv"}));
        form["image_urls"].as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        form
    };
    let error = refused(ingest(data.path(), settings(json!({}))));
    assert!(error.contains("cc3m.tsv` line 1: expected names of columns, got a row: `http://"), "{error}");
    assert!(error.ends_with("name its 2 columns in their order, such as `header = [\"url\", \"caption\"]`"), "{error}");
    let header = ["caption", "url"];
    let error = refused(ingest(data.path(), settings(json!({"header": header}))));
    assert!(error.contains("line 4: caption is empty: `on_missing = \"skip\"` leaves such captions out"), "{error}");
    count.store(0, Ordering::SeqCst);
    let host = ingest(data.path(), settings(json!({"header": header, "on_missing": "skip"}))).unwrap();
    assert_eq!((images(&host).len(), captions(&host).len(), count.load(Ordering::SeqCst)), (9, 9, 9));
    assert!(images(&host).iter().all(|(id, ..)| *id != 3) && captions(&host)[3].0 == 4);
    assert_eq!(encoded_images(&host)[3], png(4));
    assert_eq!(host.warnings[0].message, "1 of 10 captions are left out: line 4: caption is empty");
    let error =
        refused(ingest(data.path(), settings(json!({"header": header, "on_missing": "skip", "max_skipped": 0.05}))));
    assert!(error.starts_with("1 of 10 captions were left out, expected at most 0.05"), "{error}");
}

#[test]
fn an_interrupted_run_goes_on() {
    let (address, _) = server();
    let rows = (0..1100).map(|row| format!("http://{address}/{}.png?{row}\tcaption {row}\n", row % 250));
    let table = format!("url\tcaption\n{}", rows.collect::<String>()).replace(".png?", ".png#");
    let data = folder(&[("urls.tsv", table.as_bytes())]);
    let settings = json!({"table": "urls.tsv", "split": "train", "private_hosts": [&address], "per_second": 1e4});
    let stage: ImageUrls = serde_json::from_value(settings).unwrap();
    let host = || {
        let mut host = InMemoryHost::default();
        host.source_paths.insert("image_urls.table".to_owned(), data.path().join("urls.tsv"));
        host
    };
    let stage = super::super::Ingest::ImageUrls(stage);
    assert_eq!(check_resume_after_every_save(|host| host.run(&stage), host, &["images", "captions"]), 1);
}

#[test]
fn mistakes_of_table_and_settings_are_reported_together() {
    let data = folder(&[("urls.csv", b"url,caption\nfile:///etc/passwd,a\nhttp://,b\nhttp://x/a.png,\n")]);
    let error = refused(ingest(data.path(), json!({"image_urls": {"table": "urls.csv", "split": "train"}})));
    for expected in
        ["line 2: `file:///etc/passwd` is no URL", "line 3: `http://` is no URL", "line 4: caption is empty"]
    {
        assert!(error.contains(expected), "{error}");
    }
    let stage: ImageUrls = serde_json::from_value(json!({
        "table": "x", "split": "train", "max_bytes": 0, "parallel": 0, "per_second": 0.0, "timeout": 0.0, "retries": 99,
        "private_hosts": ["localhost"],
    }))
    .unwrap();
    let settings: Vec<String> = stage.check().into_iter().map(|problem| problem.setting).collect();
    let names = ["max_bytes", "parallel", "per_second", "timeout", "retries", "private_hosts"];
    assert_eq!(settings, names.map(|name| format!("image_urls.{name}")));
    assert!(stage.settings().get("per_second").is_none() && stage.settings().get("max_bytes").is_some());
}

/// Table of 200 images that are missing, of which 64 are asked for at a time. A tenth may be left out.
#[test]
fn a_run_ends_once_too_many_images_are_left_out() {
    let (address, count) = server();
    let rows = (0..200).map(|row| format!("http://{address}/page?{row},caption\n")).collect::<String>();
    let data = folder(&[("urls.csv", format!("url,caption\n{rows}").as_bytes())]);
    let settings = allowing(&address, &json!({"on_missing": "skip", "max_skipped": 0.1, "per_second": 1e4}));
    let error = refused(ingest(data.path(), settings));
    assert!(error.contains("64 of 200 images were left out, expected at most 0.1"), "{error}");
    assert_eq!(count.load(Ordering::SeqCst), 64);
}
