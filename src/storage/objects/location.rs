//! Location of objects: a folder or a URL.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use object_store::path::Path as Name;
use url::Url;

use pairloom_base::error::{Error, Result};

/// Location of a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// Local folder.
    Folder(PathBuf),
    /// URL of a path in a bucket, in a container or on a web server.
    Url(Url),
}

/// Schemes of supported URLs.
const SCHEMES: [&str; 10] = ["s3", "s3a", "gs", "az", "azure", "adl", "abfs", "abfss", "http", "https"];

impl Location {
    /// Parses a location: a URL if the text contains `://`, otherwise a folder.
    ///
    /// # Errors
    /// The URL is invalid, has an unknown scheme, or contains a user, a password, a query or a fragment.
    pub fn parse(text: OsString) -> Result<Self> {
        let url = match text.to_str() {
            Some(url) if url.contains("://") => url,
            _ => return Ok(Self::Folder(PathBuf::from(text))),
        };
        // The text may contain a password, so messages do not show it.
        let mut url = Url::parse(url).map_err(|error| Error::usage(format!("not a URL: {error}")))?;
        let scheme = url.scheme();
        if scheme == "file" {
            return Err(Error::usage("a folder is named by its path, without `file://`"));
        }
        if !SCHEMES.contains(&scheme) {
            let known = "`s3://`, `gs://`, `az://`, `http://` or `https://`";
            return Err(Error::usage(format!(
                "nothing is read or written at `{scheme}://`, expected a folder, or {known}"
            )));
        }
        // In `az://container@account/…` the user part is the container.
        let account = scheme.starts_with('a') && url.password().is_none();
        if !account && (!url.username().is_empty() || url.password().is_some()) {
            return Err(Error::usage(format!("the `{scheme}://` URL has a user or a password in it"))
                .hint("give credentials in the environment, as in `AWS_ACCESS_KEY_ID`"));
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::usage(format!("the `{scheme}://` URL has a `?` or a `#`, expected a plain path")));
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err(Error::usage(format!("the `{scheme}://` URL names no bucket, container or server")));
        }
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        Ok(Self::Url(url))
    }

    /// Location `name` below this one.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        match self {
            Self::Folder(folder) => Self::Folder(folder.join(name)),
            Self::Url(url) => {
                let mut below = url.clone();
                below.set_path(&format!("{}/{name}", url.path().trim_end_matches('/')));
                Self::Url(below)
            }
        }
    }

    /// Name of this location relative to one above it: `a/b` for `s3://bucket/x/a/b` in `s3://bucket/x`. `None` for a location
    /// elsewhere.
    #[must_use]
    pub fn name_below(&self, above: &Self) -> Option<String> {
        match (self, above) {
            (Self::Folder(folder), Self::Folder(above)) => Some(folder.strip_prefix(above).ok()?.to_str()?.to_owned()),
            (Self::Url(url), Self::Url(above)) => {
                let bucket = |url: &Url| url[..url::Position::BeforePath].replacen("s3a:", "s3:", 1);
                let name = |url: &Url| Name::from_url_path(url.path()).ok();
                let (name, above_name) = (name(url)?, name(above)?);
                let below = name.prefix_match(&above_name).filter(|_| bucket(url) == bucket(above))?;
                Some(below.collect::<Name>().to_string())
            }
            _ => None,
        }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Url(url) => f.write_str(url.as_str().trim_end_matches('/')),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_folders_are_distinguished() {
        let shown = |text: &str| Location::parse(text.into()).unwrap().to_string();
        assert_eq!(Location::parse("store".into()).unwrap(), Location::Folder("store".into()));
        assert_eq!(shown("s3://bucket/a/b/"), "s3://bucket/a/b");
        assert_eq!(shown("s3://bucket"), "s3://bucket");
        assert_eq!(shown("az://container@account/a"), "az://container@account/a");
        assert_eq!(Location::parse("s3://bucket".into()).unwrap().join("v1").to_string(), "s3://bucket/v1");
        assert_eq!(Location::parse("s3://bucket/a".into()).unwrap().join("v1").to_string(), "s3://bucket/a/v1");
    }

    #[test]
    fn a_location_below_another_has_a_name_there() {
        let name = |text: &str, above: &str| {
            let [location, above] = [text, above].map(|text| Location::parse(text.into()).unwrap());
            location.name_below(&above)
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(name("s3://b/my%20store/v1", "s3://b/"), some("my store/v1"));
        assert_eq!(name("s3a://b/a b/é/v1", "s3://b/a%20b"), some("é/v1"));
        assert_eq!(name("https://host:80/a/b", "https://host:80/a/"), some("b"));
        for (text, above) in [
            ("s3://b/photos-store/v1", "s3://b/photos"),
            ("s3://b/a", "s3://c"),
            ("gs://b/a", "s3://b"),
            ("https://host:80/a/b", "https://host:81/a"),
            ("s3://b", "s3://b/a"),
            ("b/a", "s3://b"),
        ] {
            assert_eq!(name(text, above), None, "{text} {above}");
        }
        assert_eq!(name("/data/a/b", "/data"), some("a/b"));
        assert_eq!(name("/data", "/data/a"), None);
    }

    #[test]
    fn invalid_urls_are_refused_without_showing_a_password() {
        let refused = |text: &str| Location::parse(text.into()).unwrap_err().to_string();
        assert!(refused("ftp://host/a").contains("`ftp://`"));
        assert!(refused("file:///a").contains("without `file://`"));
        assert!(refused("s3://").contains("no bucket"));
        for text in ["s3://key:secret@bucket/a", "https://key:secret@host/a", "az://c:secret@account/a"] {
            let error_text = refused(text);
            assert!(error_text.contains("password") && !error_text.contains("secret"), "{error_text}");
        }
        assert!(!refused("https://host/a?sig=secret").contains("secret"));
    }
}
