//! Tests of paths in pipeline files, and of stages that read files.

use super::tests::{VALID, diagnostics_of, load_bytes};

#[test]
fn sources() {
    let karpathy = |json: &str| {
        VALID.replace(
            "synthetic = { train = 20, val = 5, test = 5 }",
            &format!("karpathy = {{ json = {json:?}, images = \"there.txt\" }}"),
        )
    };
    assert!(load_bytes(karpathy("there.txt").as_bytes(), &[], true).is_ok());
    assert!(load_bytes(karpathy("${HERE}/there.txt").as_bytes(), &[], true).is_ok());
    let unset = diagnostics_of(&karpathy("${NOT_SET}/x.json").replace("\"there.txt\"", "\"${NOT_SET}${FILES}\""), &[]);
    assert_eq!(unset.len(), 1, "{unset:?}");
    let expected =
        "4:21 the environment variables `NOT_SET`, `FILES` are not set or empty / `NOT_SET=DIR FILES=DIR pairloom run ";
    assert!(
        unset[0].starts_with(expected) && unset[0].ends_with("p.toml`, or give the paths with `--set`"),
        "{unset:?}"
    );
    assert_eq!(
        diagnostics_of(&karpathy("${HERE/x.json"), &[])[0],
        "4:21 `json` is the string \"${HERE/x.json\", expected `${NAME}` with a name and a closing brace"
    );
    assert_eq!(diagnostics_of(&karpathy(""), &[])[0], "4:21 `json` is the string \"\", expected a path");
    let secret = diagnostics_of(&karpathy("${MY_TOKEN}/x.json"), &[]);
    assert!(
        secret[0].starts_with("4:21 stage `pairs`: `json` has `${MY_TOKEN}`, which looks like a secret"),
        "{secret:?}"
    );
    let missing = diagnostics_of(&karpathy("gone.json"), &[]);
    assert!(
        missing[0].starts_with("4:21 stage `pairs`: `json` is `/")
            && missing[0].contains("gone.json`, which does not exist / the folder `/")
            && missing[0].ends_with("has no `gone.json`; relative paths start at the folder of the pipeline file"),
        "{missing:?}"
    );
    // `pairloom check` works without data.
    assert!(load_bytes(karpathy("gone.json").as_bytes(), &[], false).is_ok());
    assert!(load_bytes(karpathy("${NOT_SET}/x.json").as_bytes(), &[], false).is_ok());
}

/// Columns of a table that is there are known before its rows are read, also to `pairloom check`.
#[test]
fn headers_of_tables_are_checked_if_they_are_there() {
    let table = |file: &str, columns: &str| {
        VALID.replace(
            "synthetic = { train = 20, val = 5, test = 5 }",
            &format!("image_folder = {{ images = \".\", captions = {file:?}, split = \"train\"{columns} }}"),
        )
    };
    for sources_needed in [false, true] {
        let wrong = load_bytes(table("there.csv", "").as_bytes(), &[], sources_needed).unwrap_err();
        let [only] = wrong.as_slice() else { panic!("{wrong}") };
        assert_eq!(wrong.position(only), (4, 43));
        assert!(only.problem.message.ends_with("header: no column `file_name`"), "{wrong}");
        let hint = "its columns are `image_id`, `caption`; name those that differ";
        assert!(only.problem.hint.as_ref().unwrap().contains(hint), "{wrong}");
    }
    let named = ", columns = { file_name = \"image_id\" }";
    assert!(load_bytes(table("there.csv", named).as_bytes(), &[], false).is_ok());
    assert!(load_bytes(table("gone.csv", "").as_bytes(), &[], false).is_ok());
}

/// Images in a bucket are read by forms with a list of images. Nothing is asked before a run.
#[test]
fn urls_are_for_images_only() {
    let karpathy = |images: &str, json: &str| {
        VALID.replace(
            "synthetic = { train = 20, val = 5, test = 5 }",
            &format!("karpathy = {{ json = {json:?}, images = {images:?} }}"),
        )
    };
    for url in ["s3://bucket/photos/", "gs://bucket", "az://container@account/a", "https://host/dav/photos"] {
        assert!(load_bytes(karpathy(url, "there.txt").as_bytes(), &[], true).is_ok(), "{url}");
    }
    let refused = |images: &str, json: &str| {
        let mut found = diagnostics_of(&karpathy(images, json), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    };
    let message = refused("there.txt", "s3://bucket/a.json");
    let expected =
        "4:21 stage `pairs`: `json` is a URL, `s3://…`, expected a path of this machine / copy it to this machine;";
    assert!(message.starts_with(expected), "{message}");
    let message = refused("ftp://host/photos", "there.txt");
    assert!(
        message
            .contains("stage `pairs`: `images`: nothing is read or written at `ftp://`, expected a folder, or `s3://`"),
        "{message}"
    );
    let message = refused("file:///photos", "there.txt");
    assert!(message.contains("`images`: a folder is named by its path, without `file://`"), "{message}");
    let message = refused("there.txt", "file:///a.json");
    assert!(
        message.ends_with("expected a path of this machine / write the path alone, without `file://`"),
        "{message}"
    );
    let message = refused("s3://key:secret@bucket/photos", "there.txt");
    assert!(message.contains("has a user or a password in it / give credentials in the environment"), "{message}");
    for secret in ["s3://key:secret@bucket/photos", "https://host/photos?signature=secret"] {
        // The line with the setting is not shown.
        let diagnostics = load_bytes(karpathy(secret, "absent.txt").as_bytes(), &[], true).map(drop).unwrap_err();
        let text = diagnostics.render(false);
        assert!(text.contains("absent.txt") && !text.contains("secret"), "{text}");
    }
}

#[test]
fn stages_that_read_pictures_refuse_images_without_files() {
    let named = VALID.replace(
        "synthetic = { train = 20, val = 5, test = 5 }",
        "captions = { file = \"there.csv\", split = \"test\" }",
    );
    let diagnostics = diagnostics_of(&named, &[]);
    let expected = "`images`: `pairs.images` does not fit: no row has a value in `path`, `bytes`, expected one of them / these \
                  images have names only; `ingest` reads pictures with `image_folder`";
    assert!(diagnostics.len() == 1 && diagnostics[0].contains(expected), "{diagnostics:#?}");
    let tuned = named.replace(
        "features = \"cnn.features\"\ncaptions = \"pairs.captions\"\nloss",
        "finetune = { images = \"pairs.images\", network = \"squeezenet1_0\", weights = \"random\" }\ncaptions = \
         \"pairs.captions\"\nloss",
    );
    let diagnostics = diagnostics_of(&tuned, &[]);
    assert_eq!(diagnostics.iter().filter(|diagnostic| diagnostic.contains("no row has a value")).count(), 2);
}
