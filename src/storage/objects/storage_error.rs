//! Error messages of object storage: request, server, number of attempts, cause and hint.

use std::error::Error as Source;
use std::path::Path;

use object_store::client::{HttpError, HttpErrorKind};

use pairloom_base::error::{Error, ErrorCategory};

/// Error of a store in a folder, with the error of the operating system if it is the cause.
pub(super) fn folder_error(doing: &str, place: &Path, error: &object_store::Error) -> Error {
    match chain(error).find_map(|cause| cause.downcast_ref::<std::io::Error>()) {
        Some(io) => Error::io(doing, place, io),
        None => Error::stage(format!("cannot {doing} `{}`: {error}", place.display())),
    }
}

/// Error of a store at a URL.
pub(super) fn url_error(doing: &str, place: &str, error: &object_store::Error) -> Error {
    use object_store::Error as E;
    let cause = match error {
        E::NotImplemented { .. } => "a server of this kind does not support conditional writes".to_owned(),
        _ => cause(error),
    };
    let tried = attempts(error).map_or(String::new(), |tried| format!(" ({tried})"));
    let message = format!("cannot {doing} `{place}`: {cause}{tried}");
    let http = chain(error).find_map(|cause| cause.downcast_ref::<HttpError>()).map(HttpError::kind);
    let credentials = "are the credentials right (`AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, `AZURE_…`, \
                       `GOOGLE_…`), and may they do this?";
    let hint = match error {
        E::PermissionDenied { .. } | E::Unauthenticated { .. } => credentials,
        _ if error.to_string().contains("169.254.169.254") || cause.contains("metadata") => {
            "there are no credentials: set `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, `AZURE_…` or `GOOGLE_…`"
        }
        _ if cause.contains("NoSuchBucket") => {
            "is there a bucket of this name, and is the region right (`AWS_REGION`)?"
        }
        _ if cause.starts_with("405") => {
            "a web server lists its files only with WebDAV; `image_urls` of `ingest` reads a table of URLs"
        }
        _ if cause.contains("scheme is not allowed") => "for a server without TLS set `AWS_ALLOW_HTTP=true`",
        _ if cause.contains("redirect") => "is the region right (`AWS_REGION`)?",
        E::NotImplemented { .. } | E::NotSupported { .. } => {
            "a store that is written to needs S3, Google Cloud Storage or Azure; others can only be read"
        }
        _ if http.is_some_and(|kind| kind != HttpErrorKind::Decode) => {
            "is the server up, and its address right (`AWS_ENDPOINT_URL`, region)? then run the same command again"
        }
        _ if cause.starts_with('5') || cause.starts_with("429") => {
            "the server is failing or overloaded; run the same command again to resume"
        }
        _ => "is the address right, and are the credentials?",
    };
    let kind = match error {
        E::Generic { .. } | E::JoinError { .. } => ErrorCategory::Stage,
        _ => ErrorCategory::Data,
    };
    Error::new(kind, message).hint(hint)
}

/// Returns true if the connection failed, rather than the server.
pub(super) fn is_connection_error(error: &object_store::Error) -> bool {
    chain(error).any(<dyn Source>::is::<HttpError>)
}

/// An error and its chain of causes, outermost first.
fn chain<'e>(error: &'e object_store::Error) -> impl Iterator<Item = &'e (dyn Source + 'static)> {
    let first: &'e (dyn Source + 'static) = error;
    std::iter::successors(Some(first), |error| Source::source(*error))
}

/// Splits `object_store`'s message `Error performing PUT http://… in 1.2s, after 3 retries, … - …` into request and
/// reason.
fn request(error: &object_store::Error) -> Option<(String, String)> {
    let text = error.to_string();
    let (_, request) = text.rsplit_once("Error performing ")?;
    let (head, reason) = request.split_once(" - ")?;
    Some((head.to_owned(), reason.to_owned()))
}

/// Request and attempts: `PUT http://host/bucket/a, 4 times in 5s`.
fn attempts(error: &object_store::Error) -> Option<String> {
    let (head, _) = request(error)?;
    let (request_line, rest) = head.split_once(" in ")?;
    // The query of the URL may contain a signature.
    let request_line = request_line.split('?').next().unwrap_or(request_line);
    let mut rest = rest.split(", ");
    let time = rest.next().unwrap_or_default();
    let retries = rest.find_map(|piece| piece.strip_prefix("after ")?.strip_suffix(" retries")?.parse::<u64>().ok());
    Some(match retries {
        Some(retries) => format!("{request_line}, {} times in {}", retries + 1, without_decimals(time)),
        None => format!("{request_line}, once"),
    })
}

/// Time without decimals: `61s` for `61.284s`.
fn without_decimals(time: &str) -> String {
    let (whole, rest) = time.split_once('.').unwrap_or((time, ""));
    format!("{whole}{}", rest.trim_start_matches(|c: char| c.is_ascii_digit()))
}

/// Cause in one line: the message of the operating system or of the server.
pub(super) fn cause(error: &object_store::Error) -> String {
    let innermost = || chain(error).last().map(ToString::to_string).unwrap_or_default();
    let reason = match request(error) {
        Some((_, reason)) if !is_connection_error(error) => reason,
        _ => innermost(),
    };
    let reason = reason.strip_prefix("Server returned non-2xx status code: ").unwrap_or(&reason);
    let element = |name: &str| {
        let (_, rest) = reason.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let words = match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => {
            let status = reason.split(':').next().unwrap_or_default();
            format!("{status}: {code}: {message}")
        }
        _ => reason.to_owned(),
    };
    let line = words.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut = line.char_indices().nth(300).map_or(line.as_str(), |(at, _)| &line[..at]);
    cut.trim_end_matches([':', '.', ' ']).to_owned()
}
