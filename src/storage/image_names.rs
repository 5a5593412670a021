//! Names of images in messages, where those that are URLs lose user, password and query.

use std::borrow::Cow;

use url::Url;

use pairloom_base::error::escape_line;

/// Number of characters of a URL that a message shows.
const SHOWN: usize = 200;

/// Length in bytes of the longest name that a message shows, for a URL without its query: that of a path. Of a longer one it
/// shows the length.
const MAX_SHOWN_BYTES: usize = 4096;

/// True for a URL that images can be fetched from: `http` or `https`, and a host.
#[must_use]
pub fn is_image_url(text: &str) -> bool {
    Url::parse(text).is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.has_host())
}

/// Form of a URL in messages: scheme, host and path. A user, a password and a query, which may be a signature, are left out,
/// and what could control a terminal or turn a text around is escaped. A text that is no URL is cut in the same way, and up
/// to its last `@`.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let mut rest = text.split(['?', '#']).next().unwrap_or_default();
    let mut shown = String::new();
    // A path may have a URL in it, as those of services that shrink pictures.
    while let Some(at) = rest.char_indices().skip(1).map(|(at, _)| at).find(|at| starts_as_url(&rest[*at..])) {
        shown += &without_user(&rest[..at]);
        rest = &rest[at..];
    }
    shown += &without_user(rest);
    escape_line(&shown).chars().take(SHOWN).collect()
}

/// Form of the name of an image in messages and on pages. Of a URL, which may begin behind the name of a folder, it is
/// [`shown_url`]; any other name is escaped as [`escape_line`] does. In place of a name, or of a URL before its query, of more than 4,096 bytes, its
/// length.
#[must_use]
pub fn shown_name(name: &str) -> Cow<'_, str> {
    if name.len() > MAX_SHOWN_BYTES {
        let start = name.split(['?', '#']).next().unwrap_or_default();
        let is_url = start.len() <= MAX_SHOWN_BYTES && is_image_url(start);
        return if is_url { shown_url(start).into() } else { format!("({} bytes)", name.len()).into() };
    }
    let has_scheme = name.split_once("://").is_some_and(|(scheme, _)| {
        !scheme.is_empty() && scheme.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.'))
    });
    let start = if has_scheme || is_image_url(name) {
        Some(0)
    } else {
        name.char_indices().map(|(at, _)| at).find(|at| starts_as_url(&name[*at..]))
    };
    match start {
        Some(start) => format!("{}{}", escape_line(&name[..start]), shown_url(&name[start..])).into(),
        None => match escape_line(name) {
            escaped if escaped == name => name.into(),
            escaped => escaped.into(),
        },
    }
}

/// True for a text that begins with `http://`, or `http:/` as in a path, which has no empty parts; or with `https`.
fn starts_as_url(text: &str) -> bool {
    let begins = |start: &str| text.get(..start.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(start));
    begins("http:/") || begins("https:/")
}

/// Text of a URL without the user and the password before its host. Of a text that is no URL, all up to the last `@` is
/// left out: a password with a slash, which must be `%2F`, makes it one.
fn without_user(text: &str) -> String {
    let (start, rest) = text.split_at(authority_start(text));
    let end = rest.find(['/', '\\']).filter(|_| Url::parse(text).is_ok()).unwrap_or(rest.len());
    let host = rest[..end].rfind('@').map_or(0, |at| at + 1);
    format!("{start}{}", &rest[host..])
}

/// Start of the host, or of a user before it: behind the scheme and its slashes. 0 for a text without these. Other forms of
/// slashes count, and control characters do not, as for a client that fetches the URL.
fn authority_start(text: &str) -> usize {
    let is_skipped = |c: char| c.is_ascii_control();
    let Some(slash) = text.find(['/', '\\']) else { return 0 };
    if !text[..slash].trim_end_matches(is_skipped).ends_with(':') {
        return 0;
    }
    let rest = text[slash..].trim_start_matches(|c: char| matches!(c, '/' | '\\') || is_skipped(c));
    text.len() - rest.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_name_the_length_is_shown() {
        assert_eq!(shown_name(&"a".repeat(4096)), "a".repeat(4096));
        assert_eq!(shown_name(&"a".repeat(4097)), "(4097 bytes)");
        assert_eq!(shown_name(&format!("https://h.org/a.jpg?{}", "s".repeat(5000))), "https://h.org/a.jpg");
        assert_eq!(shown_name(&format!("https://me:{}@h.org/a.jpg", "s".repeat(5000))), "(5023 bytes)");
    }

    #[test]
    fn messages_show_scheme_host_and_path() {
        for (url, shown) in [
            ("https://h.org/a/é.jpg?X-Amz-Signature=secret", "https://h.org/a/é.jpg"),
            ("https://me:secret@h.org:80/a@b.jpg#secret", "https://h.org:80/a@b.jpg"),
            ("https://h.org?secret", "https://h.org"),
            ("https//me:secret@h.org", "h.org"),
            ("me:secret@h.org/a?secret", "h.org/a"),
            ("https://me:sec/ret@h.org/a", "https://h.org/a"),
            ("https://p.org/w=9/https://me:secret@h.org/a@b?x", "https://p.org/w=9/https://h.org/a@b"),
            ("https://p.org/?url=https://h.org/a&key=secret", "https://p.org/"),
            // A path in a folder, and other forms that are fetched like the usual one.
            ("https:/me:secret@h.org/a.jpg?secret", "https:/h.org/a.jpg"),
            (" HTTPS:\\\\me:secret@h.org\\a@b.jpg", " HTTPS:\\\\h.org\\a@b.jpg"),
            ("https:\t/\n/me:secret@h.org", "https:\\t/\\n/h.org"),
            ("https:me:secret@h.org/a", "h.org/a"),
            ("a\nb", "a\\nb"),
            ("https://h.org/it's \"a\"\u{301}.jpg", "https://h.org/it's \"a\"\u{301}.jpg"),
            ("https://h.org/\u{1b}[31m\u{202e}gpj.a", "https://h.org/\\u{1b}[31m\\u{202e}gpj.a"),
            ("", ""),
        ] {
            assert_eq!(shown_url(url), shown);
        }
        assert_eq!(shown_url(&"é".repeat(300)).chars().count(), 200);
    }

    #[test]
    fn names_that_are_urls_are_shown_without_their_query() {
        for (name, shown) in [
            ("https://me:secret@h.org/a.jpg?signature=secret", "https://h.org/a.jpg"),
            ("https:/me:secret@h.org/a.jpg?signature=secret", "https:/h.org/a.jpg"),
            ("ftp://me:secret@h.org/a.jpg", "ftp://h.org/a.jpg"),
            ("val 2014?/HTTPS:/me:secret@h.org/a.jpg?secret", "val 2014?/HTTPS:/h.org/a.jpg"),
            ("zip://a.jpg::https://me:secret@h.org/b.zip?secret", "zip://a.jpg::https://h.org/b.zip"),
            ("what?.jpg", "what?.jpg"),
            ("me@home: a://b?.jpg", "me@home: a://b?.jpg"),
            ("it's \"a\\b\".jpg", "it's \"a\\b\".jpg"),
            ("a\n\u{2067}b.jpg", "a\\n\\u{2067}b.jpg"),
        ] {
            assert_eq!(shown_name(name), shown);
        }
        assert!(matches!(shown_name("it's.jpg"), Cow::Borrowed(_)));
    }

    #[test]
    fn images_come_from_hosts() {
        let wrong = ["", "a.png", "http//x/a.png", "http://", "file:///etc/passwd", "ftp://x/a", "http://[x/a"];
        assert!(wrong.iter().all(|url| !is_image_url(url)));
        assert!(["http://x/a b.png", "HTTPS://x"].iter().all(|url| is_image_url(url)));
    }
}
