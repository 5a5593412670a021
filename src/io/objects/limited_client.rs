//! Client whose answers are limited in bytes, so that a server that never ends an answer cannot fill the memory.

use std::error::Error as Source;
use std::fmt;

use async_trait::async_trait;
use az::SaturatingAs;
use http_body_util::{BodyExt as _, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

/// Largest object that is read whole.
pub(super) const MAX_OBJECT_BYTES: u64 = 4 << 30;
/// Largest answer whose size is not known before: a list of objects, or the text of an error.
const MAX_LIST_BYTES: u64 = 64 << 20;

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
        let answer = self.0.execute(request).await?;
        let announced = answer.headers().get("content-length").and_then(|bytes| bytes.to_str().ok()?.parse().ok());
        let limit = answer_limit(range.filter(|_| answer.status() == 206), announced);
        Ok(answer.map(|body| {
            HttpResponseBody::new(Limited::new(body, limit.saturating_as()).map_err(move |error| {
                match error.downcast::<HttpError>() {
                    Ok(error) => *error,
                    Err(_) => HttpError::new(HttpErrorKind::Decode, EndlessAnswer { limit }),
                }
            }))
        }))
    }
}

/// Bytes that an answer may have.
fn answer_limit(range: Option<u64>, announced: Option<u64>) -> u64 {
    range.or(announced.map(|bytes| bytes.min(MAX_OBJECT_BYTES))).unwrap_or(MAX_LIST_BYTES)
}

/// Number of bytes of a range `bytes=7-9`; `None` for other forms.
fn range_bytes(range: &str) -> Option<u64> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    last.parse::<u64>().ok()?.checked_sub(first.parse().ok()?)?.checked_add(1)
}

/// Error of an answer that is longer than it may be.
#[derive(Debug)]
pub(super) struct EndlessAnswer {
    limit: u64,
}

impl fmt::Display for EndlessAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the answer of the server has more than {} bytes", self.limit)
    }
}

impl Source for EndlessAnswer {}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;
    use crate::error::Error;
    use crate::io::objects::{Location, ObjectStorage};

    /// Store of a server that answers each request with this head and then bytes without end.
    fn store_without_end(head: &'static str) -> ObjectStorage {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let serve = move || {
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                let _ = connection.read(&mut [0; 4096]);
                let _ = connection.write_all(format!("HTTP/1.1 {head}\r\n\r\n").as_bytes());
                let piece = [&b"100000\r\n"[..], &vec![b'x'; 1 << 20], b"\r\n"].concat();
                while connection.write_all(&piece).is_ok() {}
            }
        };
        std::thread::Builder::new().name("endless server".to_owned()).spawn(serve).unwrap();
        let location = Location::parse(format!("http://{address}/store").as_str().into()).unwrap();
        ObjectStorage::open(&location, &[]).unwrap()
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
    fn the_limit_is_the_range_or_the_announced_length() {
        assert_eq!((range_bytes("bytes=7-9"), range_bytes("bytes=7-"), range_bytes("bytes=-5")), (Some(3), None, None));
        assert_eq!(answer_limit(Some(3), Some(9)), 3);
        assert_eq!(answer_limit(None, Some(9)), 9);
        assert_eq!(answer_limit(None, Some(u64::MAX)), MAX_OBJECT_BYTES);
        assert_eq!(answer_limit(None, None), MAX_LIST_BYTES);
    }
}
