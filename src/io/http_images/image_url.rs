//! URLs of images, and their form in messages.

use std::borrow::Cow;

use url::Url;

/// Number of characters of a URL that a message shows.
const SHOWN: usize = 200;

/// True for a URL that images can be fetched from: `http` or `https`, and a host.
#[must_use]
pub fn is_image_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Form of a URL in messages: scheme, host and path. A user, a password and a query, which may be a signature, are left out.
/// A text that is no URL is cut in the same way.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = text.split_once("://").map_or(("", text), |(scheme, rest)| (scheme, rest));
    let end = rest.find('/').unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    let separator = if scheme.is_empty() { "" } else { "://" };
    let shown = format!("{scheme}{separator}{host}{}", &rest[end..]);
    shown.escape_debug().take(SHOWN).collect()
}

/// Form of the name of an image in messages and on pages: of a URL [`shown_url`].
#[must_use]
pub fn shown_name(name: &str) -> Cow<'_, str> {
    if is_image_url(name) { shown_url(name).into() } else { name.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_show_scheme_host_and_path() {
        for (url, shown) in [
            ("https://h.org/a/é.jpg?X-Amz-Signature=secret", "https://h.org/a/é.jpg"),
            ("https://me:secret@h.org:80/a@b.jpg#secret", "https://h.org:80/a@b.jpg"),
            ("https://h.org?secret", "https://h.org"),
            ("https//me:secret@h.org", "https//me:secret@h.org"),
            ("me:secret@h.org/a?secret", "h.org/a"),
            ("a\nb", "a\\nb"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown);
        }
        assert_eq!(shown_url(&"é".repeat(300)).chars().count(), 200);
    }

    #[test]
    fn names_that_are_urls_are_shown_without_their_query() {
        assert_eq!(shown_name("https://me:secret@h.org/a.jpg?signature=secret"), "https://h.org/a.jpg");
        assert_eq!(shown_name("what?.jpg"), "what?.jpg");
    }

    #[test]
    fn images_come_from_hosts() {
        let wrong = ["", "a.png", "http//x/a.png", "http://", "file:///etc/passwd", "ftp://x/a", "http://[x/a"];
        assert!(wrong.iter().all(|url| !is_image_url(url)));
        assert!(["http://x/a b.png", "HTTPS://x"].iter().all(|url| is_image_url(url)));
    }
}
