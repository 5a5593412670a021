//! Client whose answers are limited, so that a server that never ends an answer cannot fill the memory, and a list cannot
//! keep the parser of XML busy.

use std::error::Error as Source;
use std::fmt;

use async_trait::async_trait;
use az::SaturatingAs;
use http_body_util::{BodyExt as _, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};
use quick_xml::events::Event;

/// Largest object that is read whole.
pub(super) const MAX_OBJECT_BYTES: u64 = 4 << 30;
/// Largest answer that is no object: a list of objects, or the text of an error.
const MAX_LIST_BYTES: u64 = 64 << 20;
/// Largest tag of a list; tags of stores have less than 300 bytes. The parser of `object_store` (quick-xml before 0.41,
/// RUSTSEC-2026-0194 and RUSTSEC-2026-0195) takes time that grows with the square of the attributes of a tag, and
/// memory with each of its namespaces.
const MAX_TAG_BYTES: usize = 1024;

/// Connector whose clients limit answers.
#[derive(Debug)]
pub(super) struct LimitedConnector<C>(pub(super) C);

impl<C: HttpConnector> HttpConnector for LimitedConnector<C> {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(LimitedService(self.0.connect(options)?)))
    }
}

#[derive(Debug)]
struct LimitedService(HttpClient);

#[async_trait]
impl HttpService for LimitedService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let range = request.headers().get("range").and_then(|range| range_bytes(range.to_str().ok()?));
        let asks_for_object = asks_for_object(&request);
        let answer = self.0.execute(request).await?;
        let announced = answer.headers().get("content-length").and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        let is_success = answer.status().is_success();
        if asks_for_object && is_success {
            let limit = answer_limit(range.filter(|_| answer.status() == 206), announced);
            return Ok(answer.map(|body| limited(body, limit)));
        }
        let (head, body) = answer.into_parts();
        let content = limited(body, MAX_LIST_BYTES).bytes().await?;
        if is_success && let Some(bytes) = long_tag(&content) {
            return Err(HttpError::new(HttpErrorKind::Decode, RefusedAnswer::LongTag { bytes }));
        }
        Ok(HttpResponse::from_parts(head, content.into()))
    }
}

/// True for the request of an object or a part of it; false for those of lists and changes.
fn asks_for_object(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == "GET" && !query.contains("list-type=") && !query.contains("comp=list")
}

/// Body that ends with an error after this number of bytes.
fn limited(body: HttpResponseBody, limit: u64) -> HttpResponseBody {
    HttpResponseBody::new(Limited::new(body, limit.saturating_as()).map_err(move |error| {
        match error.downcast::<HttpError>() {
            Ok(error) => *error,
            Err(_) => HttpError::new(HttpErrorKind::Decode, RefusedAnswer::Endless { limit }),
        }
    }))
}

/// Size of the first tag that is too long; `None` if there is none before the end or the first mistake in the XML.
fn long_tag(content: &[u8]) -> Option<usize> {
    let mut reader = quick_xml::Reader::from_reader(content);
    loop {
        match reader.read_event() {
            Ok(Event::Start(tag) | Event::Empty(tag)) if tag.len() > MAX_TAG_BYTES => return Some(tag.len()),
            Ok(Event::Eof) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Bytes that an object, or a range of it, may have.
fn answer_limit(range: Option<u64>, announced: Option<u64>) -> u64 {
    range.or(announced.map(|bytes| bytes.min(MAX_OBJECT_BYTES))).unwrap_or(MAX_LIST_BYTES)
}

/// Number of bytes of a range `bytes=7-9`; `None` for other forms.
fn range_bytes(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// Error of an answer that is not read to its end.
#[derive(Debug)]
pub(super) enum RefusedAnswer {
    /// The answer has more bytes than it may have.
    Endless { limit: u64 },
    /// A tag of a list is too long.
    LongTag { bytes: usize },
}

impl fmt::Display for RefusedAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Endless { limit } => write!(f, "the answer of the server has more than {limit} bytes"),
            Self::LongTag { bytes } => {
                write!(f, "the list of the server has a tag of {bytes} bytes, wanted at most {MAX_TAG_BYTES}")
            }
        }
    }
}

impl Source for RefusedAnswer {}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};

    use object_store::client::HttpRequestBody;

    use super::*;
    use crate::objects::{Location, ObjectStorage};
    use pairloom_base::error::Error;

    /// Store of a server that answers each request by `answer`.
    fn store_of_server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> ObjectStorage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                answer(&mut connection);
            }
        };
        std::thread::Builder::new().name("test server".to_owned()).spawn(serve).unwrap();
        let location = Location::parse(format!("http://{address}/store").as_str().into()).unwrap();
        ObjectStorage::open(&location, &[]).unwrap()
    }

    /// Store of a server that answers each request with this head and then bytes without end.
    fn store_without_end(head: &'static str) -> ObjectStorage {
        store_of_server(move |connection| {
            let _ = connection.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
            let piece = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
            while connection.write_all(&piece).is_ok() {}
        })
    }

    /// Store of a server that answers each request with this list.
    fn store_of_list(list: String) -> ObjectStorage {
        store_of_server(move |connection| {
            let head = format!("HTTP/1.1 207 Multi-Status\r\ncontent-length: {}\r\n\r\n", list.len());
            let _ = connection.write_all(&[head.as_bytes(), list.as_bytes()].concat());
        })
    }

    fn message<T: fmt::Debug>(result: Result<T, Error>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn an_answer_without_end_is_refused() {
        let chunked = store_without_end("207 Multi-Status\r\ntransfer-encoding: chunked");
        let list = message(chunked.list(""));
        assert!(list.contains("the answer of the server has more than 67108864 bytes"), "{list}");
        // Both headers: the length is claimed, and the pieces go on.
        let announced = store_without_end(
            "200 OK\r\ncontent-length: 7\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\ntransfer-encoding: chunked",
        );
        let object = message(announced.get("runs/a.json"));
        assert!(object.contains("cannot read"), "{object}");
        let huge = store_without_end(
            "200 OK\r\ncontent-length: 99999999999999\r\nlast-modified: Thu, 01 Jan 2026 00:00:00 GMT",
        );
        let object = message(huge.get("runs/a.json"));
        assert!(object.contains("has 99999999999999 bytes, wanted at most 4294967296"), "{object}");
    }

    #[test]
    fn a_list_with_a_tag_of_many_attributes_is_refused() {
        let list = |attributes: &str| {
            format!(
                "<?xml version='1.0'?><D:multistatus xmlns:D='DAV:'{attributes}><D:response><D:href>/store/a</D:href>\
                 <D:propstat><D:prop><D:resourcetype/><D:getlastmodified>Thu, 01 Jan 2026 00:00:00 GMT</D:getlastmodified>\
                 <D:getcontentlength>7</D:getcontentlength></D:prop><D:status>HTTP/1.1 200 OK</D:status></D:propstat>\
                 </D:response></D:multistatus>"
            )
        };
        assert_eq!(store_of_list(list(" xmlns:b='urn:b'")).list("").unwrap(), ["a"]);
        // `>` in quotes does not end a tag. The parser of the list takes minutes for a million attributes.
        let attributes = (0..1_000_000).fold(String::new(), |text, i| text + &format!(" a{i}='>'"));
        let got = message(store_of_list(list(&attributes)).list(""));
        assert!(got.contains("the list of the server has a tag of 11888918 bytes, wanted at most 1024"), "{got}");
    }

    #[test]
    fn requests_of_objects_are_known() {
        let asks = |method: &str, uri: &str| {
            let mut request = HttpRequest::new(HttpRequestBody::empty());
            *request.method_mut() = method.parse().unwrap();
            *request.uri_mut() = uri.parse().unwrap();
            asks_for_object(&request)
        };
        assert!(asks("GET", "http://a/b/runs/1.json"));
        for (method, uri) in [
            ("GET", "http://a/b?list-type=2&prefix=runs"),
            ("GET", "http://a/b?restype=container&comp=list"),
            ("PROPFIND", "http://a/b"),
            ("PUT", "http://a/b/runs/1.json"),
        ] {
            assert!(!asks(method, uri), "{method} {uri}");
        }
    }

    #[test]
    fn the_limit_is_the_range_or_the_announced_length() {
        assert_eq!((range_bytes("bytes=7-9"), range_bytes("bytes=7-"), range_bytes("bytes=-5")), (Some(3), None, None));
        assert_eq!(answer_limit(Some(3), Some(9)), 3);
        assert_eq!(answer_limit(None, Some(9)), 9);
        assert_eq!(answer_limit(None, Some(u64::MAX)), MAX_OBJECT_BYTES);
        assert_eq!(answer_limit(None, None), MAX_LIST_BYTES);
    }
}
