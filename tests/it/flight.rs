//! Test of the Flight SQL server with ADBC, a client that many programs use, from Python.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use test_data::golden;

use crate::support::{ServerProcess, pairloom, python};

const TOKEN: &str = "0123456789abcdef0123";

/// Starts a server.
fn serve(store: &Path, options: &[&str]) -> ServerProcess {
    let mut command = pairloom();
    command.args(["serve", "--json", "--flight", "127.0.0.1:0", "--store"]).arg(store).args(options);
    let server = ServerProcess::start(command);
    let event = &server.event;
    assert_eq!((event["event"].as_str(), event["protocol"].as_str()), (Some("listening"), Some("flight-sql")));
    server
}

/// Store with the embeddings of two small files and their evaluation.
fn store(folder: &Path) -> PathBuf {
    let store = folder.join("store");
    let mut run = pairloom();
    run.args(["run", "--quiet", "--store"]).arg(&store).arg(test_data::root().join("pipelines/embeddings.toml"));
    run.args(["--set", "stage.theirs.ingest.embeddings.captions_per_image=3"]);
    run.env("IMAGES", golden("embeddings_images.npy")).env("CAPTIONS", golden("embeddings_captions.npy"));
    assert!(run.status().unwrap().success());
    store
}

/// Folder of the parts of the image embeddings of a store.
fn embeddings(store: &Path) -> PathBuf {
    let found = walkdir::WalkDir::new(store).into_iter().map(Result::unwrap).find(|entry| {
        entry.path().extension().is_some_and(|end| end == "parquet")
            && entry.path().to_string_lossy().contains("image_embeddings")
    });
    found.expect("a part of the image embeddings").path().parent().unwrap().to_path_buf()
}

#[test]
fn a_client_in_python_gets_the_rows_of_the_store() {
    let Some(mut python) = python() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let (certificate, key) = (folder.path().join("certificate.pem"), folder.path().join("key.pem"));
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]);
    openssl.args(["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]);
    openssl.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
    let has_certificate = openssl.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    assert!(has_certificate, "`openssl` makes no certificate");
    let token = folder.path().join("token");
    std::fs::write(&token, TOKEN).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let server =
        serve(&store, &["--token-file", &path(&token), "--tls-cert", &path(&certificate), "--tls-key", &path(&key)]);
    let client = test_data::root().join("tests/it/adbc_client.py");
    python.arg(client).args([server.uri(), TOKEN, &path(&certificate)]).arg(embeddings(&store));
    let output = python.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "ok");
    assert_eq!(server.stop(), Some(0));
}

/// Each of these ends before the server listens, with a message that says what was wanted.
#[test]
fn a_server_that_others_reach_needs_a_token() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path());
    let short = folder.path().join("token");
    std::fs::write(&short, "short\n").unwrap();
    let short = short.to_str().unwrap();
    for (options, code, message) in [
        (&["--flight", "0.0.0.0:0"][..], 2, "`0.0.0.0:0` can be reached from other machines, and there is no token"),
        (&["--flight", "0.0.0.0:0", "--token-file", short], 2, "the token has 5 characters, expected at least 16"),
        (&["--flight", "127.0.0.1:0", "--token-file", "/nowhere"], 3, "cannot read `/nowhere`"),
        (
            &["--flight", "127.0.0.1:0", "--tls-cert", short, "--tls-key", short],
            2,
            "the certificate or its key is wrong",
        ),
        (&["--flight", "127.0.0.1:0", "--tls-cert", short], 2, "--tls-key"),
        (&["--flight", "127.0.0.1:0", "--run", "nothing"], 2, "nothing"),
        (&["--flight", "203.0.113.1:9", "--token-file", short], 2, "the token has 5 characters"),
        (&["--flight", "somewhere"], 2, "somewhere"),
        (&[], 2, "--flight"),
    ] {
        let output = pairloom().arg("serve").arg("--store").arg(&store).args(options).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{options:?}: {text}");
        assert!(text.contains(message), "{options:?}: {text}");
    }
}
