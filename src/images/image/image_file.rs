//! Encoded image files below a folder.

use std::path::{Component, Path};

use pairloom_base::error::{Error, Result};
use pairloom_storage::bounded;
use pairloom_storage::image_names::shown_name;

/// Maximum size of a file in bytes: no image of the permitted size needs more.
const MAX_BYTES: u64 = 1 << 30;

/// Reads the bytes of the image at `path` below `root`.
///
/// # Errors
/// `path` leads out of `root`, or is not a readable regular file of at most 1 GiB.
pub fn read_image_file(root: &Path, path: &str) -> Result<Vec<u8>> {
    let relative = Path::new(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Error::data(format!("its path `{}` leads out of the image folder", shown_name(path))));
    }
    bounded::read(&root.join(relative), MAX_BYTES).map_err(|error| error.with_shown_name(path, &shown_name(path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_path_leads_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("images");
        std::fs::create_dir_all(inner.join("a")).unwrap();
        std::fs::write(inner.join("a/b.jpg"), "picture").unwrap();
        std::fs::write(folder.path().join("secret"), "secret").unwrap();
        assert_eq!(read_image_file(&inner, "a/b.jpg").unwrap(), b"picture");
        assert_eq!(read_image_file(&inner, "./a/b.jpg").unwrap(), b"picture");
        for path in ["../secret", "a/../../secret", "/etc/hostname", folder.path().join("secret").to_str().unwrap()] {
            assert!(read_image_file(&inner, path).unwrap_err().to_string().contains("leads out"), "{path}");
        }
        assert!(read_image_file(&inner, "gone.jpg").unwrap_err().to_string().contains("gone.jpg"));
        for name in ["https://me:secret@h.org/a.jpg?secret", "https://me:secret@h.org/../../../../a.jpg?secret"] {
            let error = read_image_file(&inner, name).unwrap_err().to_string();
            assert!(error.contains("https://h.org/") && !error.contains("secret"), "{error}");
        }
        for folder in ["", ".", "a"] {
            assert!(read_image_file(&inner, folder).unwrap_err().to_string().ends_with("is not a file"), "{folder}");
        }
    }
}
