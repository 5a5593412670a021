//! Tests of the digests of sources.

use std::fs::File;
use std::path::Path;

use super::listing::FolderTimes;
use super::{SourceDigest, SourceReading, check_unchanged, file_keys, format_digest_list, listing, parse_digest_list};
use pairloom_base::error::Result;
use pairloom_base::runtime::CancelToken;
use pairloom_stage::RowKey;
use pairloom_store::{Store, folder_times_name};

fn digest(store: &Store, path: &Path, trusts_folder_times: bool) -> Result<String> {
    let reading = SourceReading { threads: 2, trusts_folder_times };
    super::read_source(store, path, reading, &CancelToken::new(), &|_| {}).map(|content| content.digest)
}

fn digest_of(store: &Store, path: &Path) -> String {
    digest(store, path, false).unwrap()
}

/// The digest of a folder is that of earlier versions, so keys stay: BLAKE3 of names and digests, in the order of names.
#[test]
fn a_digest_is_that_of_the_definition_for_files_of_many_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let source = folder.path().join("source");
    let mut names: Vec<String> = (0..3000).map(|i| format!("{}/{i}.txt", i % 7)).collect();
    names.extend(["5-a/x.txt", "é b.txt", "5.txt"].map(str::to_owned));
    for name in &names {
        let path = source.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, name.len().to_string()).unwrap();
    }
    names.sort();
    let mut whole = blake3::Hasher::new();
    for name in &names {
        whole.update(name.as_bytes()).update(b"\0");
        whole.update(&blake3::hash(name.len().to_string().as_bytes()).to_hex().as_bytes()[..32]);
    }
    assert_eq!(digest_of(&store, &source), whole.finalize().to_hex()[..32]);
    assert_eq!(file_keys(&store, &source).unwrap().contents().count(), 0, "files that were just written");
}

/// Times of folders show another entry, and no file that was rewritten in place.
#[test]
fn a_source_whose_folders_are_unchanged_is_not_looked_through_if_they_are_trusted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let source = folder.path().canonicalize().unwrap().join("source");
    std::fs::create_dir_all(source.join("sub")).unwrap();
    std::fs::write(source.join("sub/a.txt"), "a").unwrap();
    let listed = || listing::list(&source, None, 1, &CancelToken::new()).unwrap();
    assert!(!listed().is_settled);
    let a = digest_of(&store, &source);
    assert!(FolderTimes::read(&store, &source).unwrap().is_none(), "folders that were just made");

    FolderTimes { digest: "known".to_owned(), folders: listed().folders }.write(&store, &source).unwrap();
    assert_eq!(digest(&store, &source, true).unwrap(), "known");
    assert_eq!(digest_of(&store, &source), a);
    std::fs::write(source.join("sub/a.txt"), "b").unwrap();
    assert_eq!(digest(&store, &source, true).unwrap(), "known");
    let b = digest_of(&store, &source);
    assert_ne!(a, b);

    let name = folder_times_name(&source);
    let whole = store.objects().get(&name).unwrap().unwrap();
    store.objects().put(&name, whole.slice(..whole.len() - 1)).unwrap();
    assert_eq!(digest(&store, &source, true).unwrap(), b, "a damaged object");
    store.objects().put(&name, whole).unwrap();
    std::fs::write(source.join("sub/new.txt"), "b").unwrap();
    let new = digest(&store, &source, true).unwrap();
    assert!(new != b && new == digest_of(&store, &source));
    std::fs::remove_dir_all(source.join("sub")).unwrap();
    assert_ne!(digest(&store, &source, true).unwrap(), new);
}

#[test]
fn a_digest_depends_on_names_and_contents_and_not_on_times_or_locations() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let one = folder.path().join("one");
    let two = folder.path().join("two");
    for place in [&one, &two] {
        std::fs::create_dir_all(place.join("sub")).unwrap();
        std::fs::write(place.join("sub/b.txt"), "b").unwrap();
        std::fs::write(place.join("a.txt"), "a").unwrap();
    }
    let before = digest_of(&store, &one);
    assert_eq!(before, digest_of(&store, &two));
    std::fs::write(one.join("a.txt"), "a").unwrap();
    assert_eq!(before, digest_of(&store, &one), "touched, not changed");
    std::fs::write(one.join("a.txt"), "c").unwrap();
    assert_ne!(before, digest_of(&store, &one), "content changed");
    std::fs::rename(two.join("a.txt"), two.join("z.txt")).unwrap();
    assert_ne!(before, digest_of(&store, &two), "name changed");
}

#[test]
fn content_of_the_same_size_time_and_inode_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "one").unwrap();
    // Long ago, so that its digest is kept.
    let file = File::options().write(true).open(&path).unwrap();
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
    file.set_modified(time).unwrap();
    let before = digest_of(&store, &path);
    std::fs::write(&path, "two").unwrap();
    file.set_modified(time).unwrap();
    assert_ne!(before, digest_of(&store, &path));
}

#[test]
fn a_file_that_was_just_written_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "one").unwrap();
    digest_of(&store, &path);
    let list = store.objects().list("sources").unwrap();
    let kept = parse_digest_list(&store.objects().get(&list[0]).unwrap().unwrap());
    assert!(kept.is_empty(), "another write within the resolution of the clock would have the same time");
}

#[test]
fn a_change_since_the_start_of_a_run_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "one").unwrap();
    let source = SourceDigest { path: path.clone(), digest: digest_of(&store, &path) };
    let check = || check_unchanged(&store, &source, 1, &CancelToken::new(), &|_| {});
    check().unwrap();
    std::fs::write(&path, "two").unwrap();
    assert!(check().unwrap_err().to_string().ends_with("a.txt` changed while it was read"));
    std::fs::write(&path, "one").unwrap();
    check().unwrap();
}

#[test]
fn a_store_inside_of_a_source_is_ignored_and_a_pipe_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    std::fs::write(folder.path().join("a.txt"), "a").unwrap();
    let before = digest_of(&store, folder.path());
    assert_eq!(before, digest_of(&store, folder.path()));
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let error = digest(&store, folder.path(), false).unwrap_err();
    assert!(error.to_string().contains("pipe"), "{error}");
}

#[test]
fn links_that_lead_nowhere_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("store")).unwrap();
    let source = folder.path().join("source");
    let refused = |name: &str, target: &Path| {
        std::fs::create_dir(&source).unwrap();
        std::os::unix::fs::symlink(target, source.join(name)).unwrap();
        let error = digest(&store, &source, false).unwrap_err();
        std::fs::remove_dir_all(&source).unwrap();
        assert!(error.hint_text().unwrap().contains("mend or remove"), "{error}");
        error.to_string()
    };
    let message = refused("self.jpg", Path::new("self.jpg"));
    assert!(message.contains("source/self.jpg`: Too many levels of symbolic links"), "{message}");
    assert!(refused("gone.jpg", Path::new("none.jpg")).contains("source/gone.jpg`: No such file"));
    let message = refused("up", &source);
    assert!(message.contains("source/up`: the link leads to `") && message.ends_with("a folder above it"), "{message}");
}

#[test]
fn a_missing_source_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let error = digest(&store, &folder.path().join("nothing"), false).unwrap_err();
    assert_eq!(error.category(), pairloom_base::error::ErrorCategory::Data);
    assert!(error.to_string().contains("nothing"), "{error}");
}

#[test]
fn a_list_that_is_cut_or_damaged_anywhere_is_empty() {
    let [a, b, c] = [b"a", b"b", b"c"].map(|text| RowKey::of(text));
    let list = format_digest_list([[a, b, c], [b, c, a]].into_iter());
    assert_eq!(parse_digest_list(&list), [(a, (b, c)), (b, (c, a))].into());
    for length in 0..list.len() {
        assert!(parse_digest_list(&list[..length]).is_empty(), "{length}");
        let mut damaged = list.clone();
        damaged[length] ^= 1;
        assert!(parse_digest_list(&damaged).is_empty(), "{length}");
    }
    assert!(parse_digest_list(b"a\t1\t0123\n").is_empty(), "a list of another form");
    assert!(parse_digest_list(&format_digest_list(std::iter::empty())).is_empty());
}
